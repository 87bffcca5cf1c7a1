//! Dependencies between crates point one way. This table is the one place that says which.

use crate::tree::{File, Finding, Tree};

const RULE: &str = "layering";

/// Bottom up: a crate, and the crates that it may use, in its tests as well.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("wire", &["model"]),
    ("env", &["model"]),
    ("target", &["env", "model"]),
    ("node", &["target", "wire", "env", "model"]),
    ("manager", &["wire", "env", "model"]),
    ("client", &["wire", "env", "model"]),
    ("control", &["wire", "env", "model"]),
    ("embedded", &["node", "client", "target", "wire", "env", "model"]),
    ("serve", &["embedded", "control", "manager", "node", "client", "wire", "env", "model"]),
    ("capture", &["client", "env", "model"]),
    ("nbd", &["client", "env", "model"]),
    ("btree", &["target", "env", "model"]),
    ("sim", &["btree", "manager", "target", "client", "node", "wire", "env", "model"]),
    (
        "forebay",
        &[
            "sim", "btree", "nbd", "capture", "serve", "embedded", "manager", "control", "client", "node", "target",
            "wire", "env", "model",
        ],
    ),
    ("x", &[]),
];

/// Every dependency that the table does not allow, and a lock file that is missing.
pub fn layering(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Some(name) = file.crate_name() else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            let remedy = "give it a line in crates/x/src/layering.rs, and the reason in docs/decisions";
            findings.push(file.finding(1, RULE, format!("the crate {name} has no place among the layers"), remedy));
            continue;
        };
        for (line, used) in dependencies(file) {
            if !allowed.contains(&used.as_str()) {
                let allowed = if allowed.is_empty() { "nothing of ours".to_string() } else { allowed.join(", ") };
                let remedy = format!("{name} may use {allowed}: move what is shared down, or take it as a trait");
                findings.push(file.finding(line, RULE, format!("{name} uses {used}"), remedy));
            }
        }
    }
    if !tree.paths.contains("Cargo.lock") {
        let (path, what) = ("Cargo.lock".to_string(), "there is no lock file".to_string());
        let remedy = "run `cargo generate-lockfile` and commit it".to_string();
        findings.push(Finding { path, line: 1, rule: RULE, what, remedy });
    }
    findings
}

/// Which of our crates a manifest names as a dependency of any kind, without their prefix, and where.
fn dependencies(manifest: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    for (index, line) in manifest.text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut name = None;
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_matches(['[', ']']);
            let last = section.rsplit('.').next().unwrap_or_default();
            in_dependencies = last.ends_with("dependencies");
            // [dependencies.forebay-model]
            let parent = section.strip_suffix(last).unwrap_or_default();
            if parent.ends_with("dependencies.") {
                name = Some(last);
            }
        } else if in_dependencies && let Some((key, value)) = line.split_once('=') {
            // A dependency under another name says which package it is.
            let package = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            name = package.or(key.trim().split('.').next());
        }
        let ours = name.map(|name| name.trim().trim_matches('"')).and_then(|name| match name {
            "forebay" => Some("forebay"),
            _ => name.strip_prefix("forebay-"),
        });
        found.extend(ours.map(|name| (index + 1, name.to_string())));
    }
    found
}

#[cfg(test)]
mod tests;
