//! What the text of the source looks like: ASCII, short files, documented modules, nothing unfinished, nothing
//! commented out.

use crate::lexer::{self, Comment};
use crate::tree::{File, Finding, Tree};

/// The longest file.
const LINES: usize = 1000;
/// The longest file of tests.
const TEST_LINES: usize = 1500;
/// Words that mark what is not done.
const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

/// Rust, manifests and scripts are ASCII.
pub fn ascii(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(character) = line.chars().find(|c| !c.is_ascii()) {
                let what = format!("'{character}' (U+{:04X}) is not ASCII", u32::from(character));
                findings.push(file.finding(index + 1, "ascii", what, "write it in ASCII, in a string as \\u{...}"));
            }
        }
    }
    findings
}

/// No file is too long to be read at once.
pub fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let most = if file.test { TEST_LINES } else { LINES };
        let lines = file.text.lines().count();
        if lines > most {
            let what = format!("{lines} lines, and at most {most} are allowed");
            findings.push(file.finding(most + 1, "length", what, "split it by subject"));
        }
    }
    findings
}

/// Every module says what it owns.
pub fn documented(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.test) {
        let remedy = "say in a line or two what it owns and what always holds";
        let first = file.text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!["));
        if !first.is_some_and(|line| line.starts_with("//!")) {
            findings.push(file.finding(1, "documented", "the module does not begin with //!", remedy));
        }
        let code = lexer::scan(&file.text).code;
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, line) in code.lines().map(str::trim).enumerate() {
            let Some(name) = inline_module(line) else { continue };
            let above = lines[..index].iter().rev().take_while(|line| !line.is_empty());
            let attributes: Vec<&&str> = above.take_while(|line| line.starts_with("#[") || is_doc(line)).collect();
            let excused = attributes.iter().any(|line| is_doc(line) || line.starts_with("#[cfg(test)]"));
            let inside = lines.get(index + 1).is_some_and(|line| line.starts_with("//!"));
            if !excused && !inside {
                findings.push(file.finding(index + 1, "documented", format!("the module {name} has no docs"), remedy));
            }
        }
    }
    findings
}

fn is_doc(line: &str) -> bool {
    line.starts_with("///")
}

/// The name of the module that begins on this line.
fn inline_module(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
    });
    let name = line.trim_start().strip_prefix("mod ")?.strip_suffix('{')?.trim();
    (!name.is_empty()).then_some(name)
}

/// Nothing is marked as unfinished: what is missing is an issue, or an error that says so.
pub fn finished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let remedy = "finish it, or file it as an issue and say nothing here";
    for file in &tree.files {
        let marked = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .find(|word| UNFINISHED.contains(word))
                .map(str::to_string)
        };
        if file.is_rust() {
            let source = lexer::scan(&file.text);
            for comment in &source.comments {
                if let Some(word) = marked(&comment.text) {
                    findings.push(file.finding(comment.line, "finished", format!("{word} in a comment"), remedy));
                }
            }
            for (index, line) in source.code.lines().enumerate() {
                if line.contains("todo!(") || line.contains("unimplemented!(") {
                    findings.push(file.finding(index + 1, "finished", "code that only panics", remedy));
                }
            }
        } else {
            for (index, line) in file.text.lines().enumerate() {
                let comment =
                    if file.path.ends_with(".md") { Some(line) } else { line.split_once('#').map(|(_, c)| c) };
                if let Some(word) = comment.and_then(marked) {
                    findings.push(file.finding(index + 1, "finished", format!("{word} is left"), remedy));
                }
            }
        }
    }
    findings
}

/// No code sleeps in comments. Documentation may show code.
pub fn no_dead_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for comment in lexer::scan(&file.text).comments.iter().filter(|comment| looks_like_code(comment)) {
            findings.push(commented_out(file, comment));
        }
    }
    findings
}

fn commented_out(file: &File, comment: &Comment) -> Finding {
    let what = format!("'{}' looks like code that was commented out", comment.text.trim());
    file.finding(comment.line, "dead code", what, "delete it: the history keeps it")
}

/// Sure signs only: a sentence may end with a semicolon or begin with `if`.
fn looks_like_code(comment: &Comment) -> bool {
    let text = comment.text.trim();
    if comment.doc || text.contains('`') {
        return false;
    }
    let statement = text.ends_with(';')
        && (text.contains("= ") && ["let ", "self.", "const ", "static "].iter().any(|start| text.starts_with(start))
            || (text.starts_with("use ") || text.starts_with("pub use ")) && text.contains("::")
            || text.ends_with(");") && called(text)
            || matches!(text, "break;" | "continue;" | "return;"));
    let header = text.ends_with('{')
        && ["fn ", "pub ", "if ", "for ", "while ", "match ", "impl ", "impl<", "struct ", "enum ", "loop ", "} else "]
            .iter()
            .any(|start| text.starts_with(start));
    let attribute = (text.starts_with("#[") || text.starts_with("#![")) && text.ends_with(']');
    statement || header || attribute || matches!(text, "}" | "});" | "};")
}

/// Whether the first bracket follows a name directly and no sentence comes before it.
fn called(text: &str) -> bool {
    let Some((before, _)) = text.split_once('(') else { return false };
    !before.is_empty()
        && before.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '!' | '<' | '>' | '?'))
}

#[cfg(test)]
mod tests;
