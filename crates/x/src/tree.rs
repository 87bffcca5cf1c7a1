//! The repository as the rules see it: text files, and which paths exist.

use crate::lexer;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where code lies that a program wrote: the rules are for people. A test beside it says when it is stale.
const GENERATED: &[&str] = &["crates/control/src/generated/"];

/// A file of text.
pub struct File {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
    /// Whether it holds nothing but tests and their helpers.
    pub test: bool,
}

/// All that the rules look at.
#[derive(Default)]
pub struct Tree {
    /// Rust, TOML, Markdown and shell.
    pub files: Vec<File>,
    /// Every file and directory, of whatever kind.
    pub paths: BTreeSet<String>,
}

/// A place where a rule is broken, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// From the root of the repository.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}; {}", self.path, self.line, self.rule, self.what, self.remedy)
    }
}

impl File {
    /// Whether this file is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn new(path: String, text: String) -> File {
        let test = path.ends_with("/tests.rs") || path.starts_with("tests/") || path.contains("/tests/");
        File { path, text, test }
    }

    /// The modules that this file declares for tests alone, as paths without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let Some((directory, name)) = self.path.rsplit_once('/') else { return Vec::new() };
        let inside = match name {
            "lib.rs" | "main.rs" | "mod.rs" => directory.to_string(),
            _ => self.path.trim_end_matches(".rs").to_string(),
        };
        let code = lexer::scan(&self.text).code;
        let words: Vec<&str> = lexer::tokens(&code).iter().map(|token| token.text).collect();
        let mut found = Vec::new();
        for at in 0..words.len() {
            let Some(rest) = words[at..].strip_prefix(&["#", "[", "cfg", "(", "test", ")", "]"]) else { continue };
            let declaration = rest.iter().take_while(|word| !matches!(**word, ";" | "{" | "#"));
            let declaration: Vec<&str> = declaration.copied().collect();
            if let [.., "mod", name] = declaration[..]
                && rest.get(declaration.len()) == Some(&";")
            {
                found.push(format!("{inside}/{name}"));
            }
        }
        found
    }

    /// The crate it belongs to: `target` for `crates/target/src/ring.rs`, `btree` for `examples/btree/src/lib.rs`.
    pub fn crate_name(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("crates/").or_else(|| self.path.strip_prefix("examples/"))?;
        inside.split_once('/').map(|(name, _)| name)
    }

    /// A finding in this file.
    pub fn finding(
        &self,
        line: usize,
        rule: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { path: self.path.clone(), line, rule, what: what.into(), remedy: remedy.into() }
    }
}

impl Tree {
    /// Reads the repository at `root`, but for build output and what git keeps for itself.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        let mut directories = vec![root.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let entries =
                std::fs::read_dir(&directory).map_err(|e| format!("{} cannot be listed: {e}", directory.display()))?;
            for entry in entries {
                let entry = entry.map_err(|e| format!("{} cannot be listed: {e}", directory.display()))?;
                let path = entry.path();
                let relative = path.strip_prefix(root).map_err(|e| e.to_string())?.to_string_lossy().into_owned();
                if matches!(relative.as_str(), ".git" | "target" | "benches/page_stores/target" | "fuzz/target") {
                    continue;
                }
                // Not through symbolic links, which may lead round in a circle.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push(path);
                } else if [".rs", ".toml", ".md", ".sh"].iter().any(|end| relative.ends_with(end))
                    && !GENERATED.iter().any(|place| relative.starts_with(place))
                {
                    let text = std::fs::read_to_string(&path)
                        .map_err(|e| format!("{relative} cannot be read as text: {e}"))?;
                    tree.files.push(File::new(relative.clone(), text));
                }
                tree.paths.insert(relative);
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.mark_tests();
        Ok(tree)
    }

    /// Marks what is compiled for tests alone, under whatever name.
    fn mark_tests(&mut self) {
        let rust = self.files.iter().filter(|file| file.is_rust());
        let modules: Vec<String> = rust.flat_map(File::test_modules).collect();
        for file in &mut self.files {
            let below = |module: &String| {
                file.path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            file.test |= modules.iter().any(below);
        }
    }

    /// A tree of these files alone.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.files.push(File::new(path.to_string(), text.to_string()));
            tree.paths.extend(path.match_indices('/').map(|(at, _)| path[..at].to_string()));
            tree.paths.insert(path.to_string());
        }
        tree.mark_tests();
        tree
    }
}

/// Where the repository lies.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = PathBuf::from(manifest);
    manifest.ancestors().nth(2).map_or_else(|| manifest.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests;
