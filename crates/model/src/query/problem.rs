//! What is wrong with a query, shown at its place.

use crate::error::Error;
use std::ops::Range;

/// The most characters of a query shown on either side of the place.
const AROUND: usize = 50;

/// A sentence about a place in the query.
#[derive(Debug)]
pub(super) struct Problem {
    place: Range<usize>,
    sentence: String,
}

impl Problem {
    pub(super) fn at(place: Range<usize>, sentence: impl Into<String>) -> Problem {
        Problem { place, sentence: sentence.into() }
    }

    /// The error for people: the sentence, the line of the query, and carets below the place.
    pub(super) fn into_error(self, query: &str) -> Error {
        let start = self.place.start.min(query.len());
        let line_start = query[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = query[start..].find('\n').map_or(query.len(), |newline| start + newline);
        let before: Vec<char> = query[line_start..start].chars().collect();
        let from = &query[start..line_end];
        let carets = query[start..self.place.end.clamp(start, line_end)].chars().count().clamp(1, AROUND);
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let sentence: String = self.sentence.chars().map(printable).collect();

        let mut line = String::new();
        if before.len() > AROUND {
            line.push_str("...");
        }
        line.extend(before[before.len().saturating_sub(AROUND)..].iter().copied().map(printable));
        let indent = line.chars().count();
        line.extend(from.chars().take(AROUND).map(printable));
        if from.chars().nth(AROUND).is_some() {
            line.push_str("...");
        }
        Error::usage(format!("{sentence}\n  {}\n  {}{}", line.trim_end(), " ".repeat(indent), "^".repeat(carets)))
    }
}
