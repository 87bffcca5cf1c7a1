//! The public Rust API
