//! Tells Rust's code from its comments and its strings, line by line: enough for rules about text, without false alarms
//! from a word in a message.

/// A comment, or the part of one that is on one line.
#[derive(Debug, PartialEq, Eq)]
pub struct Comment {
    /// Counted from 1.
    pub line: usize,
    /// Whether rustdoc shows it.
    pub doc: bool,
    /// Without the slashes.
    pub text: String,
}

/// Source, taken apart.
#[derive(Debug, Default)]
pub struct Source {
    /// The code, with every character of a comment or of a string's content replaced by a blank; lines are kept.
    pub code: String,
    /// The comments.
    pub comments: Vec<Comment>,
    /// Where a string begins (a line) and what is in it, escapes as they are written.
    pub strings: Vec<(usize, String)>,
}

/// A word or a sign of the code. `::` is one sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// Counted from 1.
    pub line: usize,
    /// As written.
    pub text: &'a str,
}

impl Token<'_> {
    /// Whether it is a name or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

struct Scanner<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    text: &'a str,
    line: usize,
    source: Source,
}

/// Takes `text` apart. What is not valid Rust gives something, and no panic.
pub fn scan(text: &str) -> Source {
    let mut scanner = Scanner { rest: text.char_indices().peekable(), text, line: 1, source: Source::default() };
    scanner.run();
    scanner.source
}

impl Scanner<'_> {
    fn run(&mut self) {
        // Whether the last character belongs to a word, so that the `r` of `for"` begins no raw string.
        let mut within_word = false;
        while let Some(&(at, character)) = self.rest.peek() {
            let rest = &self.text[at..];
            if rest.starts_with("//") {
                self.line_comment();
            } else if rest.starts_with("/*") {
                self.block_comment();
            } else if let Some(quote) = string_start(rest).filter(|_| !within_word) {
                self.string(quote);
            } else if character == '\'' {
                self.character(rest);
            } else {
                self.keep();
            }
            within_word = character.is_alphanumeric() || character == '_';
        }
    }

    /// The next character, as code.
    fn keep(&mut self) {
        if let Some((_, character)) = self.rest.next() {
            self.line += usize::from(character == '\n');
            self.source.code.push(character);
        }
    }

    /// The next character, as a blank.
    fn blank(&mut self) -> Option<char> {
        let (_, character) = self.rest.next()?;
        self.line += usize::from(character == '\n');
        self.source.code.push(if character == '\n' { '\n' } else { ' ' });
        Some(character)
    }

    fn line_comment(&mut self) {
        let mut text = String::new();
        let line = self.line;
        while self.rest.peek().is_some_and(|(_, c)| *c != '\n') {
            text.extend(self.blank());
        }
        let doc = text.starts_with("//!") || (text.starts_with("///") && !text.starts_with("////"));
        let text = text.trim_start_matches('/').trim_start_matches('!').to_string();
        self.source.comments.push(Comment { line, doc, text });
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        let mut text = String::new();
        let mut line = self.line;
        let mut doc = None;
        while let Some(&(at, _)) = self.rest.peek() {
            let rest = &self.text[at..];
            let doc = *doc.get_or_insert_with(|| rest.starts_with("/**") || rest.starts_with("/*!"));
            if rest.starts_with("/*") || rest.starts_with("*/") {
                depth += if rest.starts_with("/*") { 1 } else { -1 };
                self.blank();
                self.blank();
                if depth == 0 {
                    self.source.comments.push(Comment { line, doc, text });
                    return;
                }
                continue;
            }
            match self.blank() {
                Some('\n') => {
                    self.source.comments.push(Comment { line, doc, text: std::mem::take(&mut text) });
                    line = self.line;
                }
                Some(character) => text.push(character),
                None => return,
            }
        }
    }

    /// A string whose beginning takes `quote.length` characters and whose end is a quote and `quote.hashes` hashes.
    fn string(&mut self, quote: Quote) {
        let line = self.line;
        (0..quote.length).for_each(|_| self.keep());
        let mut text = String::new();
        while let Some(&(at, character)) = self.rest.peek() {
            let end = "#".repeat(quote.hashes);
            if self.text[at..].strip_prefix('"').is_some_and(|rest| rest.starts_with(&end)) {
                (0..=quote.hashes).for_each(|_| self.keep());
                break;
            }
            text.extend(self.blank());
            if character == '\\' && !quote.raw {
                text.extend(self.blank());
            }
        }
        self.source.strings.push((line, text));
    }

    /// A character literal, or a lifetime.
    fn character(&mut self, rest: &str) {
        let mut characters = rest.chars().skip(1);
        let first = characters.next();
        self.keep();
        if first == Some('\\') {
            self.blank();
            self.blank();
            while self.rest.peek().is_some_and(|(_, c)| *c != '\'' && *c != '\n') {
                self.blank();
            }
            self.keep();
        } else if characters.next() == Some('\'') {
            self.blank();
            self.keep();
        }
    }
}

struct Quote {
    length: usize,
    hashes: usize,
    raw: bool,
}

/// Whether `rest` begins with a string, of whatever kind.
fn string_start(rest: &str) -> Option<Quote> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('"') || (prefix.ends_with('r') && rest.starts_with('#')))
    })?;
    let raw = prefix.ends_with('r');
    let hashes = rest[prefix.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let quoted = rest[prefix.len() + hashes..].starts_with('"');
    quoted.then_some(Quote { length: prefix.len() + hashes + 1, hashes, raw })
}

/// The words and signs of `code`, as [`scan`] left it.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let in_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if in_word(first) {
                rest.find(|c| !in_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { line: index + 1, text: &rest[..length] });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

#[cfg(test)]
mod tests;
