//! Bytes as somebody brings them to be written, and as they are kept until they are.
//!
//! What came in memory for I/O goes to the device from there. Invariant: nobody writes into memory that is shared.

use forebay_env::Buffer;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that somebody brings.
#[derive(Debug)]
pub enum Given<'a> {
    /// Of the caller's own; they are copied where they are kept.
    Lent(&'a [u8]),
    /// Given away.
    Away(Kept),
}

/// Bytes that are kept as they came.
#[derive(Debug)]
pub enum Kept {
    /// In memory of any kind.
    Plain(Vec<u8>),
    /// In memory for I/O.
    Aligned(Arc<Buffer>),
}

impl Given<'_> {
    /// So that they can be kept.
    pub(super) fn keep(self) -> Kept {
        match self {
            Given::Lent(bytes) => bytes.to_vec().into(),
            Given::Away(kept) => kept,
        }
    }

    /// The memory for I/O that they fill.
    pub(super) fn aligned(&self) -> Option<&Arc<Buffer>> {
        match self {
            Given::Lent(_) => None,
            Given::Away(kept) => kept.aligned(),
        }
    }
}

impl Kept {
    /// The memory for I/O that they fill.
    pub(super) fn aligned(&self) -> Option<&Arc<Buffer>> {
        match self {
            Kept::Plain(_) => None,
            Kept::Aligned(buffer) => Some(buffer),
        }
    }

    /// In memory of any kind: a copy of what is in memory for I/O.
    pub(super) fn into_vec(self) -> Vec<u8> {
        match self {
            Kept::Plain(bytes) => bytes,
            Kept::Aligned(buffer) => buffer.to_vec(),
        }
    }
}

impl Deref for Given<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Given::Lent(bytes) => bytes,
            Given::Away(kept) => kept,
        }
    }
}

impl Deref for Kept {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Kept::Plain(bytes) => bytes,
            Kept::Aligned(buffer) => buffer,
        }
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept::Plain(Vec::new())
    }
}

impl From<Vec<u8>> for Kept {
    fn from(bytes: Vec<u8>) -> Kept {
        Kept::Plain(bytes)
    }
}

impl From<Vec<u8>> for Given<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Given::Away(bytes.into())
    }
}

impl From<Arc<Buffer>> for Given<'_> {
    fn from(bytes: Arc<Buffer>) -> Self {
        Given::Away(Kept::Aligned(bytes))
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Given<'a> {
    fn from(bytes: &'a B) -> Given<'a> {
        Given::Lent(bytes.as_ref())
    }
}
