//! What an address says: a number and a port, or a name and a port.

use forebay_model::{Error, Result};
use std::net::SocketAddr;

/// An address, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Known as it stands.
    Number(SocketAddr),
    /// To be looked up, with its port.
    Name(String),
}

impl Place {
    /// Reads `address`, and touches no network.
    pub(super) fn of(address: &str) -> Result<Place> {
        if let Ok(place) = address.parse() {
            return Ok(Place::Number(place));
        }
        let bad = || {
            Error::usage(format!(
                "'{address}' is not a host and a port; write it like 10.0.0.7:7400, [::1]:7400 or host:7400"
            ))
        };
        let (name, port) = address.rsplit_once(':').ok_or_else(bad)?;
        port.parse::<u16>().map_err(|_| bad())?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        // What looks like a number and is none is a slip, and no name to ask the world for.
        let numeric = name.chars().all(|c| c.is_ascii_digit() || c == '.');
        if name.is_empty() || name.len() > 253 || numeric || !name.chars().all(fits) {
            return Err(bad());
        }
        Ok(Place::Name(address.to_string()))
    }
}

#[cfg(test)]
mod tests;
