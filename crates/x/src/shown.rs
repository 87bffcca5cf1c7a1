//! What a promise says it is shown by is there: each test that a page of promises names.

use crate::tree::{Finding, Tree};

const RULE: &str = "shown";

/// Names of tests on the pages of `docs/promises`; `...` stands for the rest of one.
pub fn shown(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.starts_with("docs/promises/")) {
        for (index, line) in page.text.lines().enumerate() {
            // What stands between backquotes is code.
            for name in line.split('`').skip(1).step_by(2).filter(|code| is_sentence(code)) {
                let head = match name.strip_suffix("...") {
                    Some(beginning) => format!("fn {beginning}"),
                    None => format!("fn {name}("),
                };
                if !tree.files.iter().any(|file| file.test && file.text.contains(&head)) {
                    let what = format!("there is no test {name}");
                    findings.push(page.finding(index + 1, RULE, what, "write it, or correct the name"));
                }
            }
        }
    }
    findings
}

/// Whether this has as many words as names of tests have.
fn is_sentence(code: &str) -> bool {
    code.split('_').count() > 4 && code.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
}

#[cfg(test)]
mod tests;
