//! From the words of a query to its tree. The grammar is in `docs/query.md`.

use super::lexer::{Op, Placed, Token, tokens};
use super::problem::Problem;
use super::tree::Node;
use super::values::Ordered;
use crate::key::{Extraction, KeySet, KeyType, protocol_number};
use crate::packet::PacketField;
use crate::time::Timestamp;

/// Parentheses may be nested this deep.
pub(super) const MAX_DEPTH: usize = 64;

/// Longer words are cut in messages.
const MAX_SHOWN: usize = 40;

pub(super) type Parsed<T> = Result<T, Problem>;

pub(super) fn parse(text: &str, keys: &KeySet, now: Timestamp) -> Parsed<Node> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, keys, now, depth: 0 };
    if parser.peek() == &Token::End {
        return Ok(Node::All);
    }
    let node = parser.either()?;
    match parser.peek() {
        Token::End => Ok(node),
        Token::Close => Err(parser.problem("this ')' closes nothing")),
        _ if parser.tokens[..parser.at].last().is_some_and(|last| last.token == Token::Star) => {
            Err(parser.problem("'*' is everything; write 'and' before this to narrow it"))
        }
        _ => Err(parser.problem("'and' or 'or' is missing before this")),
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    pub(super) at: usize,
    pub(super) keys: &'a KeySet,
    pub(super) now: Timestamp,
    depth: usize,
}

/// What is compared.
enum Subject {
    Seq,
    Time,
    /// One of these keys (the two directions of a packet, say).
    Keys(Vec<usize>),
}

/// How it is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Op(Op),
    In,
    NotIn,
}

impl Comparison {
    fn negated(self) -> bool {
        matches!(self, Comparison::Op(Op::NotEqual) | Comparison::NotIn)
    }
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    /// The text of the next token if it is a word.
    pub(super) fn peek_word(&self) -> Option<&'a str> {
        self.word_at(self.at)
    }

    pub(super) fn word_at(&self, at: usize) -> Option<&'a str> {
        let placed = self.tokens.get(at)?;
        (placed.token == Token::Word).then(|| &self.text[placed.start..placed.end])
    }

    /// Goes on to the next token; the end is never passed.
    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub(super) fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word().is_some_and(|w| w.eq_ignore_ascii_case(word));
        if found {
            self.advance();
        }
        found
    }

    /// A problem with the next token.
    pub(super) fn problem(&self, sentence: impl Into<String>) -> Problem {
        let placed = &self.tokens[self.at];
        Problem::at(placed.start..placed.end, sentence)
    }

    /// A problem with the tokens from number `first` to the last one that was taken.
    pub(super) fn problem_since(&self, first: usize, sentence: impl Into<String>) -> Problem {
        let last = self.at.saturating_sub(1).max(first);
        Problem::at(self.tokens[first].start..self.tokens[last].end, sentence)
    }

    fn either(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.all()?];
        while self.take(&Token::Or) || self.take_word("or") {
            nodes.push(self.all()?);
        }
        Ok(Node::or(nodes))
    }

    fn all(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.one()?];
        while self.take(&Token::And) || self.take_word("and") {
            nodes.push(self.one()?);
        }
        Ok(Node::and(nodes))
    }

    fn one(&mut self) -> Parsed<Node> {
        let mut negated = false;
        while self.take(&Token::Not) || self.take_word("not") {
            negated = !negated;
        }
        let node = self.primary()?;
        Ok(if negated { Node::not(node) } else { node })
    }

    fn primary(&mut self) -> Parsed<Node> {
        let open = self.at;
        if self.take(&Token::Open) {
            if self.depth == MAX_DEPTH {
                return Err(self.problem_since(open, format!("parentheses can be nested {MAX_DEPTH} deep at most")));
            }
            self.depth += 1;
            let node = self.either()?;
            self.depth -= 1;
            return match self.peek() {
                Token::Close => {
                    self.advance();
                    Ok(node)
                }
                Token::End => {
                    Err(Problem::at(self.tokens[open].start..self.tokens[open].end, "this '(' is not closed"))
                }
                _ => Err(self.problem("'and', 'or' or ')' is missing before this")),
            };
        }
        if self.take(&Token::Star) || self.take_word("all") {
            return Ok(Node::All);
        }
        if self.take_word("after") {
            return Ok(Node::time(self.time()?, Timestamp::MAX));
        }
        if self.take_word("before") {
            let time = self.time()?;
            return Ok(time.below().map_or(Node::Nothing, |last| Node::time(Timestamp::MIN, last)));
        }
        let (subject, equals_implied) = self.subject()?;
        let comparison = self.comparison(equals_implied)?;
        self.compare(subject, comparison)
    }

    /// What is compared, and whether a value may follow at once, as in `port 53`.
    fn subject(&mut self) -> Parsed<(Subject, bool)> {
        let Some(word) = self.peek_word() else {
            return Err(self.problem(match self.peek() {
                Token::End => "the query ends where a comparison such as src=10.0.0.1 should follow",
                _ => "a comparison such as src=10.0.0.1 should stand here",
            }));
        };
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        let found = if is("seq") {
            (Subject::Seq, false)
        } else if is("time") {
            (Subject::Time, false)
        } else if is("host") || is("net") || is("port") {
            (self.two_way(word, fields_of(word))?, true)
        } else if let Some(key) = self.keys.index_of(word) {
            (Subject::Keys(vec![key]), false)
        } else {
            return Err(self.unknown(word));
        };
        self.advance();
        Ok(found)
    }

    /// The keys for both directions: those taken from these fields of packets, or named like them.
    fn two_way(&self, word: &str, fields: [PacketField; 2]) -> Parsed<Subject> {
        let mut found = Vec::new();
        for field in fields {
            let before = found.len();
            for (key, spec) in self.keys.specs().iter().enumerate() {
                let from_packet = spec.extraction() == Extraction::Packet(field);
                if from_packet || spec.name().eq_ignore_ascii_case(field.name()) {
                    found.push(key);
                }
            }
            if found.len() == before {
                return Err(self.problem(format!(
                    "'{word}' looks at keys {} and {}, but {}",
                    fields[0].name(),
                    fields[1].name(),
                    self.what_there_is()
                )));
            }
        }
        Ok(Subject::Keys(found))
    }

    fn what_there_is(&self) -> String {
        if self.keys.is_empty() {
            return "this ring has no keys, only seq and time".to_string();
        }
        let names: Vec<&str> = self.keys.specs().iter().map(|spec| spec.name()).collect();
        format!("this ring has {}", names.join(", "))
    }

    fn unknown(&self, word: &str) -> Problem {
        if ["and", "or", "in"].iter().any(|w| word.eq_ignore_ascii_case(w)) {
            return self.problem(format!("a comparison such as src=10.0.0.1 should stand before '{word}'"));
        }
        let protocol_key = self.keys.specs().iter().find(|spec| spec.key_type() == KeyType::Protocol);
        if let (Some(_), Some(spec)) = (protocol_number(word), protocol_key) {
            return self.problem(format!("'{word}' is a protocol; write {}={word}", spec.name()));
        }
        let shown: String = word.chars().take(MAX_SHOWN).collect();
        let hint = self.nearest(word).map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
        self.problem(format!("unknown key '{shown}'; {}{hint}", self.what_there_is()))
    }

    /// The name that `word` may have been meant to be.
    fn nearest(&self, word: &str) -> Option<&str> {
        if word.len() > MAX_SHOWN {
            return None;
        }
        let usable = |two_way: &&str| self.two_way(two_way, fields_of(two_way)).is_ok();
        let names = self.keys.specs().iter().map(|spec| spec.name());
        let words = ["seq", "time", "after", "before", "not", "all"];
        let names = names.chain(words).chain(["host", "port", "net"].into_iter().filter(usable));
        let (distance, name) = names.map(|name| (distance(word, name), name)).min_by_key(|(distance, _)| *distance)?;
        // One letter in four may be wrong, and one more, as long as something is right.
        (distance <= 1 + word.len() / 4 && distance < name.len().min(word.len())).then_some(name)
    }

    fn comparison(&mut self, equals_implied: bool) -> Parsed<Comparison> {
        let negation = self.at;
        if let Token::Op(op) = *self.peek() {
            self.advance();
            return Ok(Comparison::Op(op));
        }
        if self.take_word("in") {
            return Ok(Comparison::In);
        }
        if self.take_word("not") {
            if self.take_word("in") {
                return Ok(Comparison::NotIn);
            }
            self.at = negation;
        }
        if equals_implied && matches!(self.peek(), Token::Word | Token::Quoted(_)) {
            return Ok(Comparison::Op(Op::Equal));
        }
        let name = self.word_at(self.at.saturating_sub(1)).unwrap_or_default();
        Err(self.problem(format!("one of = != < <= > >= in should follow '{name}'")))
    }

    fn compare(&mut self, subject: Subject, comparison: Comparison) -> Parsed<Node> {
        let mut nodes = Vec::new();
        match subject {
            Subject::Seq => {
                let ranges = self.ranges(comparison, Parser::one_seq)?;
                nodes.extend(ranges.into_iter().map(|(low, high)| Node::seq(low, high)));
            }
            Subject::Time => {
                let ranges = self.ranges(comparison, |parser| parser.time().map(|time| (time, time)))?;
                nodes.extend(ranges.into_iter().map(|(low, high)| Node::time(low, high)));
            }
            Subject::Keys(keys) => {
                let start = self.at;
                for key in keys {
                    // Each key reads the values anew, as its own type.
                    self.at = start;
                    let ranges = self.ranges(comparison, |parser| parser.one_value(key))?;
                    nodes.extend(ranges.into_iter().map(|(low, high)| Node::key(key, low, high)));
                }
            }
        }
        let node = Node::or(nodes);
        Ok(if comparison.negated() { Node::not(node) } else { node })
    }
}

/// The fields that `host`, `net` or `port` looks at.
fn fields_of(word: &str) -> [PacketField; 2] {
    if word.eq_ignore_ascii_case("port") {
        [PacketField::Sport, PacketField::Dport]
    } else {
        [PacketField::Src, PacketField::Dst]
    }
}

/// How many letters must be put in, left out, changed or swapped with their neighbour to get from `a` to `b`,
/// ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = last[j] + usize::from(a[i] != b[j]);
            let mut least = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                let swapped: usize = before_last[j - 1];
                least = least.min(swapped + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
