//! The words of a query.

use super::problem::Problem;
use crate::key::quoted;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a keyword, or a literal without quotes; its text is at its place.
    Word,
    /// What stood between quotes.
    Quoted(Vec<u8>),
    Op(Op),
    And,
    Or,
    Not,
    Open,
    Close,
    Comma,
    DotDot,
    Star,
    End,
}

/// A token and the bytes of the query that it takes up.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'/' | b'@' | b'+' | b'-')
}

/// The tokens of a query; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, Problem> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let following = bytes.get(at + 1).copied();
        let (token, length) = match (byte, following) {
            (b'(', _) => (Token::Open, 1),
            (b')', _) => (Token::Close, 1),
            (b',', _) => (Token::Comma, 1),
            (b'*', _) => (Token::Star, 1),
            (b'&', Some(b'&')) => (Token::And, 2),
            (b'|', Some(b'|')) => (Token::Or, 2),
            (b'!', Some(b'=')) | (b'<', Some(b'>')) => (Token::Op(Op::NotEqual), 2),
            (b'!', _) => (Token::Not, 1),
            (b'=', Some(b'=')) => (Token::Op(Op::Equal), 2),
            (b'=', _) => (Token::Op(Op::Equal), 1),
            (b'<', Some(b'=')) => (Token::Op(Op::LessOrEqual), 2),
            (b'<', _) => (Token::Op(Op::Less), 1),
            (b'>', Some(b'=')) => (Token::Op(Op::GreaterOrEqual), 2),
            (b'>', _) => (Token::Op(Op::Greater), 1),
            (b'.', Some(b'.')) => (Token::DotDot, 2),
            (b'"' | b'\'', _) => match quoted(&text[at..]) {
                Some((held, taken)) => (Token::Quoted(held), taken),
                None => {
                    return Err(Problem::at(at..text.len(), "this quote is not closed"));
                }
            },
            _ if in_word(byte) => {
                let rest = &bytes[at..];
                let word = rest.iter().position(|b| !in_word(*b)).unwrap_or(rest.len());
                // Two dots end a word: `1..5`.
                let length = rest[..word].windows(2).position(|pair| pair == b"..").unwrap_or(word);
                (Token::Word, length)
            }
            (b'&' | b'|', _) => {
                return Err(Problem::at(at..at + 1, "a single '&' or '|' means nothing here; write 'and' or 'or'"));
            }
            _ => {
                let unexpected = text[at..].chars().next().unwrap_or(' ');
                return Err(Problem::at(
                    at..at + unexpected.len_utf8(),
                    format!(
                        "the character {unexpected:?} is not expected here; put values with such characters in quotes"
                    ),
                ));
            }
        };
        tokens.push(Placed { token, start: at, end: at + length });
        at += length;
    }
    tokens.push(Placed { token: Token::End, start: text.len(), end: text.len() });
    Ok(tokens)
}
