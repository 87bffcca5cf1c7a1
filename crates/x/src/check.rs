//! `cargo x check`: what has to hold before anything lands.

use crate::tree::{Finding, Tree};
use crate::{doors, layering, links, shown, style};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The house rules that need no compiler.
const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    layering::layering,
    doors::doors,
    style::ascii,
    style::length,
    style::documented,
    style::finished,
    style::no_dead_code,
    links::links,
    shown::shown,
];

/// Reports every finding of the house rules on stderr. True if there is none.
pub fn rules(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for finding in &findings {
        eprintln!("{finding}");
    }
    Ok(findings.is_empty())
}

/// Runs every step, also after one has failed, and says at the end which did.
pub fn check(root: &Path, only_rules: bool) -> Result<ExitCode, String> {
    let mut failed = Vec::new();
    if !rules(root)? {
        failed.push("rules");
    }
    if !only_rules {
        let steps: [(&str, &[&str], &str); 2] = [
            ("fmt", &["fmt", "--all", "--", "--check"], "run `cargo fmt --all`"),
            (
                "clippy",
                &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
                "each message says what to use instead",
            ),
        ];
        for (tool, arguments, remedy) in steps {
            if !installed(tool) {
                eprintln!("cargo {tool} is not installed; run `rustup component add rustfmt clippy`");
                failed.push(tool);
            } else if !cargo(root, arguments)? {
                eprintln!("cargo {tool} found something; {remedy}");
                failed.push(tool);
            }
        }
        if !installed("deny") {
            println!("licences and sources were not checked: `cargo install cargo-deny --locked` to have that too");
        } else if !cargo(root, &["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])? {
            eprintln!("cargo deny found something; use another dependency, or give the reason in deny.toml");
            failed.push("deny");
        }
    }
    if failed.is_empty() {
        println!("check: all is well");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("check: failed: {}", failed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

/// Whether `cargo tool` can be run.
fn installed(tool: &str) -> bool {
    let mut command = Command::new(program());
    command.args([tool, "--version"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The cargo that runs us.
pub fn program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string())
}

/// Runs cargo at the root. True if it succeeded.
pub fn cargo(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(root);
    command.status().map(|status| status.success()).map_err(|e| format!("cargo cannot be run: {e}"))
}
