//! One device's store
