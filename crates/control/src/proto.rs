//! The messages and services of `proto/forebay/control/v1/control.proto`, as Rust.
//!
//! The code is made from the interface by a test, which fails when it is stale, and lies in the tree: so a build takes
//! nothing but Rust and a C compiler. Nobody edits it. What is secret is never printed.

#![allow(missing_docs, clippy::all, clippy::wildcard_imports)]

use std::fmt;

include!("generated/forebay.control.v1.rs");

/// The interface as reflection tells it.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// Messages with secrets: their names alone are printed.
macro_rules! hidden {
    ($($message:ident),*) => {$(
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($message), "(not told)"))
            }
        }
    )*};
}
hidden!(Session, IssuedKey, Component, VersionedKey);

#[cfg(test)]
mod tests;
