//! Access keys in files: one line, `forebay-key 1 ID SECRET`, both in hexadecimal; for nobody but their user to read.

use forebay_control::AccessKey;
use forebay_env::real::file;
use forebay_model::{Error, Result};
use forebay_wire::control::access::IssuedKey;
use std::path::Path;

const BEGINNING: &str = "forebay-key 1 ";

/// Writes a key that was issued just now into a file that is not there yet.
pub fn write(path: &Path, issued: &IssuedKey) -> Result<()> {
    let secret: String = issued.secret.0.iter().map(|byte| format!("{byte:02x}")).collect();
    file::create_secret(path, format!("{BEGINNING}{:016x} {secret}\n", issued.key).as_bytes())
}

/// Reads a key.
pub fn read(path: &Path) -> Result<AccessKey> {
    let text = file::read_text(path)?;
    parse(&text).ok_or_else(|| {
        Error::usage(format!("{} is no access key; it is one line: {BEGINNING}ID SECRET", path.display()))
    })
}

fn parse(text: &str) -> Option<AccessKey> {
    let (key, secret) = text.trim_end().strip_prefix(BEGINNING)?.split_once(' ')?;
    let digits = |from: usize| u8::from_str_radix(secret.get(from..from + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(digits).collect();
    let secret = bytes?.try_into().ok().filter(|_| secret.len() == 64)?;
    Some(AccessKey { key: u64::from_str_radix(key, 16).ok()?, secret })
}

#[cfg(test)]
mod tests;
