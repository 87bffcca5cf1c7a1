//! Every link from one file of the repository to another leads somewhere.

use crate::lexer;
use crate::tree::{File, Finding, Tree};

const RULE: &str = "links";

/// Markdown links to files, and pages under `docs` that source and prose name.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.path.ends_with(".md") {
            findings.extend(markdown(tree, file));
        }
        // The rules' own source and tests name pages that need not exist.
        if !file.test && file.crate_name() != Some("x") {
            findings.extend(pages(tree, file));
        }
    }
    findings
}

fn markdown(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // What stands between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split([' ', '#']).next().unwrap_or_default().trim_matches(['<', '>']);
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let remedy = "make it or correct the link";
            match resolve(&file.path, target) {
                Some(path) if path.is_empty() || tree.paths.contains(&path) => {}
                Some(path) => findings.push(file.finding(index + 1, RULE, format!("{path} does not exist"), remedy)),
                None => findings.push(file.finding(index + 1, RULE, format!("{target} leaves the repository"), remedy)),
            }
        }
    }
    findings
}

/// `target` as seen from the file at `from`, from the root on.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Words like `docs/promises/ring.md` in prose, strings and comments.
fn pages(tree: &Tree, file: &File) -> Vec<Finding> {
    let lines: Vec<(usize, String)> = if file.is_rust() {
        let source = lexer::scan(&file.text);
        let comments = source.comments.into_iter().map(|comment| (comment.line, comment.text));
        source.strings.into_iter().chain(comments).collect()
    } else {
        file.text.lines().enumerate().map(|(index, line)| (index + 1, line.to_string())).collect()
    };
    let mut findings = Vec::new();
    for (line, text) in lines {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)));
        for word in words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("docs/")) {
            let is_file = [".md", ".py", ".svg"].iter().any(|end| word.ends_with(end));
            if is_file && !tree.paths.contains(word) {
                let remedy = "make it or correct the name";
                findings.push(file.finding(line, RULE, format!("{word} does not exist"), remedy));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests;
