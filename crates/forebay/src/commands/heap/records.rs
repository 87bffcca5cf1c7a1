//! Records and ids as they come on standard input, and as they go to standard output.

use crate::show::out::Out;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::ValueEnum;
use forebay_client::heaps::{LARGEST_RECORD, RecordId};
use forebay_env::real::file::{self, File};
use forebay_env::real::signal::{Ready, Stop};
use forebay_model::{Error, Result};
use serde::Deserialize;
use serde_json::json;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Bytes of a line at most: those of the largest record, each as \u00xx.
const LONGEST_LINE: u64 = 6 * LARGEST_RECORD as u64 + 4096;
/// Bytes that are read at once.
const READ: usize = 1 << 20;

/// How many records follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON object a line: {"data": BASE64}, or on standard input {"text": STRING}
    Lines,
    /// Each behind its length, 32 bits, least significant byte first
    Lengths,
}

/// A line with a record.
#[derive(Deserialize)]
struct Line {
    data: Option<String>,
    text: Option<String>,
}

/// Standard input, until it ends or the stop is asked for.
struct Stoppable {
    file: File,
    stop: Stop,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.wait_input(&self.file, None) {
            Ok(Ready::Input) => self.file.read(buffer),
            Ok(Ready::Stopped | Ready::Late) => Err(io::Error::other("stopped")),
            Err(error) => Err(io::Error::other(error.message)),
        }
    }
}

/// What comes on standard input, piece by piece.
pub struct Input {
    reader: BufReader<Stoppable>,
    stop: Stop,
    /// Pieces that came, also the one that is being read.
    number: u64,
    line: Vec<u8>,
}

impl Input {
    /// Standard input, until `stop`.
    pub fn new(stop: &Stop) -> Result<Input> {
        let reader = Stoppable { file: file::stdin()?, stop: stop.clone() };
        Ok(Input { reader: BufReader::with_capacity(READ, reader), stop: stop.clone(), number: 0, line: Vec::new() })
    }

    /// The next record; `None` at the end.
    pub fn record(&mut self, format: Format) -> Result<Option<Vec<u8>>> {
        let record = match format {
            Format::Lines => self.next_line()?.then(|| from_line(&self.line)).transpose(),
            Format::Lengths => self.next_length(),
        };
        record.map_err(|error| error.of(format!("record {} on standard input", self.number)))
    }

    /// All that comes, as one record.
    pub fn whole(&mut self) -> Result<Vec<u8>> {
        whole(&mut self.reader).map_err(|error| self.trouble(&error))
    }

    /// The next id; `None` at the end.
    pub fn id(&mut self) -> Result<Option<RecordId>> {
        if !self.next_line()? {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&self.line);
        let id = text.trim().parse();
        id.map(Some).map_err(|error: Error| error.of(format!("line {} on standard input", self.number)))
    }

    /// Whether there is another line; it is in `line`, without its end.
    fn next_line(&mut self) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line);
        read.map_err(|error| self.trouble(&error))?;
        if self.line.len() as u64 == LONGEST_LINE {
            return Err(Error::usage(format!("line {} on standard input is too long for a record", self.number)));
        }
        let is_there = !self.line.is_empty();
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(is_there)
    }

    /// The next record behind its length.
    fn next_length(&mut self) -> Result<Option<Vec<u8>>> {
        self.number += 1;
        let mut length = Vec::with_capacity(4);
        let got = self.reader.by_ref().take(4).read_to_end(&mut length);
        got.map_err(|error| self.trouble(&error))?;
        let length = match <[u8; 4]>::try_from(&length[..]) {
            Ok(length) => u32::from_le_bytes(length) as usize,
            Err(_) if length.is_empty() => return Ok(None),
            Err(_) => return Err(Error::usage("standard input ends within its length")),
        };
        forebay_client::heaps::check_record(length)?;
        let mut record = Vec::with_capacity(length.min(READ));
        let got = self.reader.by_ref().take(length as u64).read_to_end(&mut record);
        got.map_err(|error| self.trouble(&error))?;
        if record.len() < length {
            return Err(Error::usage(format!("standard input ends after {} of its {length} bytes", record.len())));
        }
        Ok(Some(record))
    }

    fn trouble(&self, error: &io::Error) -> Error {
        match self.stop.is_set() {
            true => stopped(),
            false => Error::device(format!("reading standard input failed: {error}")),
        }
    }
}

/// What is said when the stop was asked for.
pub fn stopped() -> Error {
    Error::busy("it was stopped before its end")
}

/// The record in a line.
fn from_line(line: &[u8]) -> Result<Vec<u8>> {
    let odd = |what: String| Error::usage(format!("{what}; write {{\"data\": BASE64}} or {{\"text\": STRING}}"));
    let record: Line = serde_json::from_slice(line).map_err(|error| odd(format!("it is no such JSON ({error})")))?;
    let bytes = match record {
        Line { data: Some(data), text: None } => {
            BASE64_STANDARD.decode(&data).map_err(|error| odd(format!("its data is no base64 ({error})")))?
        }
        Line { data: None, text: Some(text) } => text.into_bytes(),
        Line { data: Some(_), text: Some(_) } => return Err(odd("it has both data and text".to_string())),
        Line { data: None, text: None } => return Err(odd("it has neither data nor text".to_string())),
    };
    forebay_client::heaps::check_record(bytes.len())?;
    Ok(bytes)
}

/// All that comes of a source, but no more than is too much for a record.
pub fn whole(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match source.take(LARGEST_RECORD as u64 + 1 - bytes.len() as u64).read_to_end(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map(|_| bytes),
        }
    }
}

/// Writes a record as `format` says.
pub fn write(out: &mut Out, format: Format, id: RecordId, record: &[u8]) -> Result<()> {
    match format {
        Format::Lines => out.json(&json!({ "id": id.to_string(), "data": BASE64_STANDARD.encode(record) })),
        Format::Lengths => {
            out.bytes(&(record.len() as u32).to_le_bytes())?;
            out.bytes(record)
        }
    }
}

#[cfg(test)]
mod tests;
