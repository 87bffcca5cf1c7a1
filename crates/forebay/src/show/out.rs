//! Standard output: buffered, and no reason to panic when nobody reads it any more.

use forebay_env::real::file::{self, File};
use forebay_model::{Error, Result};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Write};

const CLOSED: &str = "standard output was closed";

/// Standard output.
pub struct Out {
    writer: BufWriter<File>,
    /// Whether what is to be written is passed over once nobody reads it any more.
    outlives: bool,
    /// Nobody reads it any more.
    closed: bool,
}

impl Out {
    /// Opens it.
    pub fn new() -> Result<Out> {
        Ok(Out::over(file::stdout()?))
    }

    /// Writes to `file` instead.
    pub fn over(file: File) -> Out {
        Out { writer: BufWriter::with_capacity(64 << 10, file), outlives: false, closed: false }
    }

    /// From now on it is no error that nobody reads any more: what is found decides how the command ends, not who reads it.
    pub fn outlive_reader(&mut self) {
        self.outlives = true;
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
        if self.closed && self.outlives {
            return Ok(());
        }
        write(&mut self.writer).map_err(|e| trouble(&e)).or_else(|error| {
            self.closed = is_closed(&error);
            if self.closed && self.outlives { Ok(()) } else { Err(error) }
        })
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        self.write(|writer| writeln!(writer, "{text}"))
    }

    /// Writes a value, as one line.
    pub fn json(&mut self, value: &Value) -> Result<()> {
        self.line(value)
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(|writer| writer.write_all(bytes))
    }

    /// Hands everything over.
    pub fn flush(&mut self) -> Result<()> {
        self.write(Write::flush)
    }
}

/// Whether `error` says only that nobody reads the output any more.
pub fn is_closed(error: &Error) -> bool {
    error.message == CLOSED
}

fn trouble(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => Error::disconnected(CLOSED),
        ErrorKind::StorageFull => Error::full("standard output is a file on a full file system; make room"),
        _ => trouble_with("standard output", error),
    }
}

/// What is said of a file that cannot be written.
pub fn trouble_with(name: impl Display, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull => Error::full(format!("{name} is on a full file system; make room")),
        _ => Error::device(format!("writing to {name} failed: {error}")),
    }
}
