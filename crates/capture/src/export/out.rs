//! Where exports are written to, with errors that name it.

use forebay_model::{Error, Result};
use std::io::{BufWriter, ErrorKind, Write};

/// A buffered output with a name.
pub(super) struct Out {
    inner: BufWriter<Box<dyn Write + Send>>,
    name: String,
}

impl Out {
    pub(super) fn new(inner: Box<dyn Write + Send>, name: &str) -> Out {
        Out { inner: BufWriter::with_capacity(256 << 10, inner), name: name.to_string() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What to say of a failed write to the output called `name`.
    pub(super) fn failed(name: &str, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Error::full(format!("{name}: no space is left for the export; make some and export again"))
            }
            ErrorKind::BrokenPipe => {
                Error::disconnected(format!("{name}: the reader of the export went away before it was complete"))
            }
            _ => Error::device(format!("{name}: writing the export failed: {error}")),
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write_all(bytes).map_err(|e| Out::failed(&self.name, &e))
    }

    pub(super) fn put_all(&mut self, parts: &[&[u8]]) -> Result<()> {
        parts.iter().try_for_each(|part| self.put(part))
    }

    pub(super) fn push(&mut self) -> Result<()> {
        self.inner.flush().map_err(|e| Out::failed(&self.name, &e))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
