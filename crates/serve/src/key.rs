//! Access keys in files: one line, `forebay-key 1 ID SECRET`, both in hexadecimal; for nobody but their user to read.

pub use forebay_control::AccessKey;
use forebay_env::real::file;
use forebay_model::{Error, Result};
use forebay_wire::control::access::IssuedKey;
use std::path::Path;

const BEGINNING: &str = "forebay-key 1 ";

/// Writes a key into a file that is not there yet.
pub fn create(path: &Path, key: &AccessKey) -> Result<()> {
    let secret: String = key.secret.iter().map(|byte| format!("{byte:02x}")).collect();
    file::create_secret(path, format!("{BEGINNING}{:016x} {secret}\n", key.key).as_bytes())
}

/// Writes a key, in place of one that may be there.
pub(crate) fn replace(path: &Path, key: &AccessKey) -> Result<()> {
    file::remove(path)?;
    create(path, key)
}

/// A key that was issued, as who has it shows it.
pub fn of_issued(issued: &IssuedKey) -> Result<AccessKey> {
    let secret = issued.secret.0[..].try_into();
    let secret = secret.map_err(|_| Error::damaged("the manager issued a key whose secret has another length"))?;
    Ok(AccessKey { key: issued.key, secret })
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
