//! What follows a comparison: values, networks, ranges and lists of them.

use super::lexer::{Op, Token};
use super::parser::{Comparison, Parsed, Parser};
use crate::key::{KeyValue, Literal, parse_unsigned};
use crate::time::Timestamp;

/// Times before this one cannot be written (the second they lie in begins before the first nanosecond there is).
const FIRST_WRITABLE: Timestamp = Timestamp(-9_223_372_036_000_000_000);

/// No time takes more bytes than this.
const MAX_TIME: usize = 100;

/// Values in order.
pub(super) trait Ordered: Copy + Ord {
    /// The first and the last of the values that are compared with this one.
    fn full(self) -> (Self, Self);
    /// The next smaller value.
    fn below(self) -> Option<Self>;
    /// The next larger value.
    fn above(self) -> Option<Self>;
}

impl Ordered for u64 {
    fn full(self) -> (u64, u64) {
        (0, u64::MAX)
    }
    fn below(self) -> Option<u64> {
        self.checked_sub(1)
    }
    fn above(self) -> Option<u64> {
        self.checked_add(1)
    }
}

impl Ordered for Timestamp {
    fn full(self) -> (Timestamp, Timestamp) {
        (Timestamp::MIN, Timestamp::MAX)
    }
    fn below(self) -> Option<Timestamp> {
        self.0.checked_sub(1).map(Timestamp)
    }
    fn above(self) -> Option<Timestamp> {
        self.0.checked_add(1).map(Timestamp)
    }
}

impl Ordered for KeyValue {
    fn full(self) -> (KeyValue, KeyValue) {
        self.bounds_of_width()
    }
    fn below(self) -> Option<KeyValue> {
        self.previous()
    }
    fn above(self) -> Option<KeyValue> {
        self.next()
    }
}

impl Parser<'_> {
    /// Reads what follows `comparison`: the ranges of which a value must be in one (or, if it is negated, in none).
    /// `read` reads one value, or one network as its first and last address.
    pub(super) fn ranges<V: Ordered>(
        &mut self,
        comparison: Comparison,
        read: impl Fn(&mut Self) -> Parsed<(V, V)>,
    ) -> Parsed<Vec<(V, V)>> {
        let first = self.at;
        let open = self.take(&Token::Open);
        let mut ranges = vec![self.range(&read)?];
        while open && self.take(&Token::Comma) {
            ranges.push(self.range(&read)?);
        }
        if open && !self.take(&Token::Close) {
            return Err(self.problem("',' or ')' is missing before this"));
        }
        let Comparison::Op(op @ (Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual)) = comparison else {
            return Ok(ranges);
        };
        let [(value, same)] = ranges[..] else {
            return Err(self.problem_since(first, "only one value can be less or greater; use 'in' for a list"));
        };
        if value != same {
            return Err(self.problem_since(first, "only one value can be less or greater; use 'in' for a range"));
        }
        let (least, most) = value.full();
        let range = match op {
            Op::Less => value.below().map(|last| (least, last)),
            Op::LessOrEqual => Some((least, value)),
            Op::Greater => value.above().map(|first| (first, most)),
            _ => Some((value, most)),
        };
        Ok(range.into_iter().collect())
    }

    /// Reads `VALUE`, `NETWORK` or `VALUE..VALUE`.
    fn range<V: Ordered>(&mut self, read: &impl Fn(&mut Self) -> Parsed<(V, V)>) -> Parsed<(V, V)> {
        let first = self.at;
        let (low, low_end) = read(self)?;
        if !self.take(&Token::DotDot) {
            return Ok((low, low_end));
        }
        let (high, high_end) = read(self)?;
        if low != low_end || high != high_end {
            return Err(self.problem_since(first, "a range goes from one value to another, not from or to a network"));
        }
        if low.full() != high.full() {
            return Err(
                self.problem_since(first, "both ends of a range must be IPv4 addresses, or both IPv6 addresses")
            );
        }
        if low > high {
            return Err(self.problem_since(first, "this range is backwards; write the smaller value first"));
        }
        Ok((low, high))
    }

    /// Reads a value of a key, or a network of addresses.
    pub(super) fn one_value(&mut self, key: usize) -> Parsed<(KeyValue, KeyValue)> {
        let spec = &self.keys.specs()[key];
        let (kind, at) = (spec.key_type(), self.at);
        let found = match self.peek() {
            Token::Quoted(held) => kind.parse(Literal::Quoted(held)).map(|value| (value, value)),
            Token::Word => {
                let word = self.peek_word().unwrap_or_default();
                kind.parse_network(word).unwrap_or_else(|| kind.parse(Literal::Bare(word)).map(|value| (value, value)))
            }
            _ => return Err(self.problem(format!("a value of '{}' should stand here", spec.name()))),
        };
        self.advance();
        found.map_err(|error| self.problem_since(at, error.message))
    }

    /// Reads a sequence number.
    pub(super) fn one_seq(&mut self) -> Parsed<(u64, u64)> {
        let word = self.peek_word().unwrap_or_default();
        let Some(seq) = parse_unsigned(word) else {
            return Err(self.problem(format!("a sequence number from 0 to {} should stand here", u64::MAX)));
        };
        self.advance();
        Ok((seq, seq))
    }

    /// Reads a time: one quoted, or as many words as it takes.
    pub(super) fn time(&mut self) -> Parsed<Timestamp> {
        let first = self.at;
        let text = match self.peek() {
            Token::Quoted(held) => String::from_utf8_lossy(held).into_owned(),
            Token::Word => self.time_words(),
            _ => return Err(self.problem("a time should stand here, such as 2026-11-21T10:00:00Z, 10m ago or now")),
        };
        self.advance();
        if text.len() > MAX_TIME {
            return Err(
                self.problem_since(first, "this is too long for a time; write it like 2026-11-21T10:00:00Z or 10m ago")
            );
        }
        // Keywords may be written in capitals; the message shows what was written.
        Timestamp::parse(&text.to_ascii_lowercase(), self.now)
            .or_else(|_| Timestamp::parse(&text, self.now))
            .map(|time| time.max(FIRST_WRITABLE))
            .map_err(|error| self.problem_since(first, error.message))
    }

    /// The words of one time, joined; leaves the last of them as the next token.
    fn time_words(&mut self) -> String {
        let word = |ahead: usize| self.word_at(self.at + ahead);
        let is = |word: &str, keyword: &str| word.eq_ignore_ascii_case(keyword);
        // A span may have spaces between its parts, up to 'ago'.
        let span = (1..10)
            .map_while(|ahead| word(ahead).filter(|w| !["and", "or", "not"].iter().any(|k| is(w, k))))
            .position(|w| is(w, "ago"));
        let date_and_time = word(0).is_some_and(|date| date.len() == 10 && date.as_bytes()[4] == b'-')
            && word(1).is_some_and(|time| time.contains(':') && time.as_bytes()[0].is_ascii_digit());
        let more = span.map_or(usize::from(date_and_time), |ahead| ahead + 1);
        let words: Vec<&str> = (0..=more).filter_map(word).collect();
        let text = words.join(" ");
        self.at += more;
        text
    }
}
