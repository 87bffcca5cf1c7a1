//! Numbers as people read them, and tables.

use forebay_model::ring::Losses;
use forebay_model::{Cause, Timestamp};
use std::time::Duration;

/// A length of time, in the two units that people read first.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.is_zero() => "0 s".to_string(),
        0 if span.as_millis() == 0 => format!("{} us", span.as_micros()),
        0 => format!("{} ms", span.as_millis()),
        1..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A time, to the second.
pub fn clock(time: Timestamp) -> String {
    Timestamp(time.0.div_euclid(1_000_000_000) * 1_000_000_000).to_string()
}

/// A count, with its digits in groups of three.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// So many of something that has a plural in -s.
pub fn some(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Losses by cause; `none` if there are none.
pub fn losses(losses: &Losses) -> String {
    let mut parts = Vec::new();
    for cause in Cause::ALL {
        let at = cause.index();
        match (losses.elements[at], losses.gaps[at]) {
            (0, 0) => {}
            (0, 1) => parts.push(format!("1 gap ({cause})")),
            (0, gaps) => parts.push(format!("{} gaps ({cause})", count(gaps))),
            (elements, _) => parts.push(format!("{} ({cause})", count(elements))),
        }
    }
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}

/// A table for people: columns as wide as they need to be.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

/// A table with these headings; the columns named in `right` have numbers.
pub fn table(headings: &[&str], right: &[usize]) -> Table {
    Table { rows: vec![headings.iter().map(ToString::to_string).collect()], right: right.to_vec() }
}

impl Table {
    /// Adds a row.
    pub fn add_row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }
}

/// The lines of a table.
pub fn lines(table: &Table) -> Vec<String> {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| table.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if table.right.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<String>>().join("  ").trim_end().to_string()
    };
    table.rows.iter().map(line).collect()
}
