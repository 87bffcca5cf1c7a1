//! Sizes and rates, as types, as people write them and as they read them.

use crate::error::{Error, Result};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use std::time::Duration;

/// A number of bytes, or a byte offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Rate(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// `n` x 2^10 bytes.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }
    /// `n` x 2^20 bytes.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
    /// `n` x 2^30 bytes.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }
    /// Rounded down to a multiple of `unit`.
    pub const fn align_down(self, unit: Bytes) -> Bytes {
        Bytes(self.0 / unit.0 * unit.0)
    }
    /// Rounded up to a multiple of `unit`.
    pub const fn align_up(self, unit: Bytes) -> Bytes {
        Bytes(self.0.div_ceil(unit.0) * unit.0)
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Reads `10GiB`, `64 KiB`, `500MB`, `4096`, `1.5GB`.
    pub fn parse(text: &str) -> Result<Bytes> {
        let text = text.trim();
        let bad = || Error::usage(format!("'{text}' is not a size; write it like 4096, 64KiB, 10GiB or 500MB"));
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let unit = unit.trim();
        let factor = match unit {
            "" | "B" => 1,
            _ => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(bad)?,
        };
        if let Ok(whole) = digits.parse::<u64>() {
            return whole.checked_mul(factor).map(Bytes).ok_or_else(bad);
        }
        let value: f64 = digits.parse().map_err(|_| bad())?;
        let bytes = value * factor as f64;
        if !bytes.is_finite() || bytes >= u64::MAX as f64 {
            return Err(bad());
        }
        Ok(Bytes(bytes.round() as u64))
    }
}

impl Rate {
    /// `n` x 10^6 bytes per second.
    pub const fn mb(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }

    /// Reads `72.5MB/s`, `4Gbit/s`, `500000`.
    pub fn parse(text: &str) -> Result<Rate> {
        let text = text.trim();
        let bad = || Error::usage(format!("'{text}' is not a rate; write it like 72.5MB/s, 4Gbit/s or 500000"));
        let body = text.strip_suffix("/s").unwrap_or(text).trim();
        for (suffix, factor) in
            [("Gbit", 1e9 / 8.0), ("Mbit", 1e6 / 8.0), ("kbit", 1e3 / 8.0), ("Kbit", 1e3 / 8.0), ("bit", 0.125)]
        {
            if let Some(digits) = body.strip_suffix(suffix) {
                let value: f64 = digits.trim().parse().map_err(|_| bad())?;
                let rate = value * factor;
                return if rate.is_finite() && (0.0..1e18).contains(&rate) {
                    Ok(Rate(rate as u64))
                } else {
                    Err(bad())
                };
            }
        }
        Bytes::parse(body).map(|b| Rate(b.0)).map_err(|_| bad())
    }

    /// How long `bytes` take at this rate; for ever at no rate.
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (bytes.0 as u128 * 1_000_000_000).div_ceil(self.0 as u128);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// What passes in `time` at this rate.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        Bytes(u64::try_from(self.0 as u128 * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX))
    }

    /// The rate that moves `bytes` in `time`.
    pub fn of(bytes: Bytes, time: Duration) -> Rate {
        let nanos = time.as_nanos().max(1);
        Rate(u64::try_from(bytes.0 as u128 * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        for (name, shift) in [("TiB", 40u32), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            let unit = 1u64 << shift;
            if value >= unit {
                return if value.is_multiple_of(unit) {
                    write!(f, "{} {name}", value >> shift)
                } else {
                    write!(f, "{:.1} {name}", value as f64 / unit as f64)
                };
            }
        }
        write!(f, "{value} B")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{value} B/s"),
            1_000..1_000_000 => write!(f, "{:.1} kB/s", value / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB/s", value / 1e6),
            _ => write!(f, "{:.2} GB/s", value / 1e9),
        }
    }
}

impl std::str::FromStr for Bytes {
    type Err = Error;
    fn from_str(text: &str) -> Result<Bytes> {
        Bytes::parse(text)
    }
}

impl std::str::FromStr for Rate {
    type Err = Error;
    fn from_str(text: &str) -> Result<Rate> {
        Rate::parse(text)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, n: u64) -> Bytes {
        Bytes(self.0 * n)
    }
}
impl Div<u64> for Bytes {
    type Output = Bytes;
    fn div(self, n: u64) -> Bytes {
        Bytes(self.0 / n)
    }
}
impl Div<Bytes> for Bytes {
    type Output = u64;
    fn div(self, unit: Bytes) -> u64 {
        self.0 / unit.0
    }
}
impl Rem<Bytes> for Bytes {
    type Output = Bytes;
    fn rem(self, unit: Bytes) -> Bytes {
        Bytes(self.0 % unit.0)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        Bytes(iter.map(|b| b.0).sum())
    }
}

#[cfg(test)]
mod tests;
