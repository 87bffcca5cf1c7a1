//! Two times: the wall's, which is data and may jump, and the monotonic one, which decides.

use crate::error::{Error, Result};
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Wall-clock time in nanoseconds since 1970-01-01T00:00:00Z. Data, never an order to rely on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Timestamp(pub i64);

/// Monotonic time in nanoseconds since an arbitrary start; the only time that decides anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Moment(pub u64);

const NANOS: i64 = 1_000_000_000;

impl Timestamp {
    /// The earliest time that can be written.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest time that can be written.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// This time less `span`.
    pub fn before(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// This time plus `span`.
    pub fn after(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// How much later this is than `earlier`; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).max(0) as u64)
    }

    /// Reads RFC 3339 (`2026-11-21T10:00:00.5Z`, also with an offset, or a space for the `T`),
    /// `now`, `10m ago`, `1h30m ago`, or `@SECONDS` since 1970.
    pub fn parse(text: &str, now: Timestamp) -> Result<Timestamp> {
        let text = text.trim();
        let bad = || {
            Error::usage(format!(
                "'{text}' is not a time; write it like 2026-11-21T10:00:00Z, '10m ago', now or @1700000000.5"
            ))
        };
        if text == "now" {
            return Ok(now);
        }
        if let Some(span) = text.strip_suffix("ago") {
            return parse_span(span).map(|s| now.before(s)).ok_or_else(bad);
        }
        if let Some(seconds) = text.strip_prefix('@') {
            return parse_seconds(seconds).map(Timestamp).ok_or_else(bad);
        }
        parse_rfc3339(text).map(Timestamp).ok_or_else(bad)
    }
}

/// Reads `90`, `500ms`, `10s`, `45m`, `1h30m`, `2d`; a bare number is seconds.
pub fn parse_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten();
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let value: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let seconds = match &rest[..unit_end] {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(value * seconds).ok()?)?;
        rest = rest[unit_end..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

fn parse_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let fraction = parse_fraction(fraction)?;
    // What is behind the point goes on away from zero: "-1.5" lies before -1, and "-0.5" before 0.
    seconds.checked_mul(NANOS)?.checked_add(if whole.starts_with('-') { -fraction } else { fraction })
}

fn parse_fraction(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    if digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i64>().ok().map(|v| v * 10i64.pow(9 - digits.len() as u32))
}

fn parse_rfc3339(text: &str) -> Option<i64> {
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = &text[range];
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let bytes = text.as_bytes();
    if bytes[4] != b'-'
        || bytes[7] != b'-'
        || !matches!(bytes[10], b'T' | b't' | b' ')
        || bytes[13] != b':'
        || bytes[16] != b':'
    {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(1..=12).contains(&month)
        || day < 1
        || day > month_days[month as usize - 1]
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let mut rest = &text[19..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit())?;
        fraction = parse_fraction(&after[..end])?;
        rest = &after[end..];
    }
    let offset = match rest {
        "Z" | "z" => 0,
        _ if rest.len() == 6 && matches!(rest.as_bytes()[0], b'+' | b'-') && rest.as_bytes()[3] == b':' => {
            let at = text.len() - rest.len();
            let (hours, minutes) = (number(at + 1..at + 3)?, number(at + 4..at + 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if rest.starts_with('-') { -1 } else { 1 }
        }
        _ => return None,
    };
    let days = days_from_civil(year, month, day);
    let seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(NANOS)?.checked_add(fraction)
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since 1970-01-01; the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * mp + 2) / 5 + 1)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(NANOS);
        let nanos = self.0.rem_euclid(NANOS);
        let (year, month, day) = civil_from_days(seconds.div_euclid(86400));
        let of_day = seconds.rem_euclid(86400);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)?;
        match nanos {
            0 => f.write_str("Z"),
            n if n % 1_000_000 == 0 => write!(f, ".{:03}Z", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, ".{:06}Z", n / 1_000),
            n => write!(f, ".{n:09}Z"),
        }
    }
}

impl Moment {
    /// How much later this is than `earlier`; zero if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;
    fn sub(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests;
