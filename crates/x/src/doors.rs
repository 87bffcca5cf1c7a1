//! Time, threads, files, networks, processes and chance come in only through `forebay_env`. Clippy says so too
//! (clippy.toml); this rule reads the text of the core crates, where no attribute can switch it off.

use crate::lexer::{self, Token};
use crate::tree::{Finding, Tree};

const RULE: &str = "doors";

/// The crates that run in simulation exactly as in reality, and the traits between.
const CORE: &[&str] =
    &["model", "wire", "env", "target", "node", "manager", "client", "sim", "embedded", "capture", "nbd", "btree"];
/// The crates whose runs are a function of a seed, so that no order may come from a hash.
const SEEDED: &[&str] = &["wire", "env", "target", "node", "manager", "client", "sim", "btree"];
/// Where what is allowed, and nowhere else: a place, and the path that is allowed there (all, if it is empty).
const ALLOWED: &[(&str, &str)] = &[
    // The doors themselves.
    ("crates/env/src/real", ""),
    // Which seed to replay is the one thing that a simulated test is told from outside.
    ("crates/sim/src/seeds.rs", "std::env::var"),
    // And how to replay it is told with the name of the test, which its thread has.
    ("crates/sim/src/seeds.rs", "std::thread::current"),
];

/// A path that is forbidden, with everything below it.
struct Ban {
    path: &'static str,
    /// Names directly below it that do no harm.
    but: &'static [&'static str],
    remedy: &'static str,
}

const TIME: &str = "take forebay_model::Moment from forebay_env::Clock, which simulation can move";
const THREADS: &str = "start a task with forebay_env::Spawner, or a thread through forebay_env::real";
const FILES: &str = "use forebay_env::Device, or forebay_env::real for other files";
const NETWORK: &str = "use forebay_env::Network";
const CHANCE: &str = "use forebay_env::Random, which a seed can replay";
const SETTINGS: &str = "take it as an argument";
const KERNEL: &str = "only forebay_env talks to the kernel: give its door what is missing";
const ORDER: &str =
    "its order differs from run to run: use BTreeMap or BTreeSet, or a hasher of one's own by BuildHasherDefault";

const ADDRESSES: &[&str] =
    &["IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr", "SocketAddrV4", "SocketAddrV6", "AddrParseError"];

const BANS: &[Ban] = &[
    Ban { path: "std::thread", but: &[], remedy: THREADS },
    Ban { path: "std::fs", but: &[], remedy: FILES },
    Ban { path: "std::os::unix::fs", but: &[], remedy: FILES },
    Ban { path: "std::net", but: ADDRESSES, remedy: NETWORK },
    Ban { path: "std::os::unix::net", but: &[], remedy: NETWORK },
    Ban { path: "std::process::Command", but: &[], remedy: "only tests and cargo x start processes" },
    Ban { path: "std::env", but: &["args", "args_os", "consts"], remedy: SETTINGS },
    Ban { path: "rand::rng", but: &[], remedy: CHANCE },
    Ban { path: "rand::random", but: &[], remedy: CHANCE },
    Ban { path: "getrandom", but: &[], remedy: CHANCE },
    Ban { path: "std::hash::RandomState", but: &[], remedy: ORDER },
];

/// Crates that are doors of their own; `forebay_env` alone may use them.
const KERNEL_CRATES: &[&str] = &["libc", "rustix", "io_uring", "socket2", "nix", "tokio", "mio"];
/// Names that are forbidden under whatever path.
const WORDS: &[(&str, &str)] = &[("Instant", TIME), ("SystemTime", TIME), ("thread_rng", CHANCE)];
const UNORDERED: &[&str] = &["HashMap", "HashSet"];
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Every use of a door outside its place.
pub fn doors(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.test) {
        let Some(name) = file.crate_name().filter(|name| CORE.contains(name)) else { continue };
        let allowed = ALLOWED.iter().filter(|(place, _)| file.path.starts_with(place)).map(|(_, path)| *path);
        let allowed: Vec<&str> = allowed.collect();
        let source = lexer::scan(&file.text);
        // A hash that is the same in every run gives the same order in every run.
        let own_hasher = source.code.contains("BuildHasherDefault");
        let binary = file.path.contains("/src/bin/") || file.path.ends_with("/main.rs");
        for mention in mentions(&lexer::tokens(&source.code)) {
            let unordered = SEEDED.contains(&name) && is_unordered(&mention, own_hasher);
            let remedy = banned(&mention, name, binary).or(unordered.then_some(ORDER));
            let Some(remedy) = remedy.filter(|_| !allowed.iter().any(|path| mention.path.starts_with(path))) else {
                continue;
            };
            findings.push(file.finding(mention.line, RULE, format!("{} is used", mention.path), remedy));
        }
    }
    findings
}

/// A path in the code, as it is imported or written.
struct Mention {
    line: usize,
    path: String,
    /// Whether it is called as a macro.
    macro_call: bool,
}

fn banned(mention: &Mention, name: &str, binary: bool) -> Option<&'static str> {
    let path = mention.path.as_str();
    let mut segments = path.split("::");
    let first = segments.next().unwrap_or_default();
    if mention.macro_call {
        let prints = PRINTING.contains(&path.strip_prefix("std::").unwrap_or(path));
        return (prints && !binary).then_some("a library returns what it has to say; only a binary prints");
    }
    let below = |ban: &Ban| match path.strip_prefix(ban.path) {
        Some("") => true,
        Some(rest) => {
            rest.strip_prefix("::").is_some_and(|rest| !ban.but.contains(&rest.split("::").next().unwrap_or_default()))
        }
        None => false,
    };
    if let Some(ban) = BANS.iter().find(|ban| below(ban)) {
        return Some(ban.remedy);
    }
    // A name alone is a variable or a module of ours; a path that begins with it is the crate.
    if name != "env" && KERNEL_CRATES.contains(&first) && path != first {
        return Some(KERNEL);
    }
    let word = WORDS.iter().find(|(word, _)| path.split("::").any(|segment| segment == *word));
    word.map(|(_, remedy)| *remedy)
}

/// Whether it is a collection whose order is chance. With a hasher of the file's own, only the constructors that take
/// the one of the standard library are.
fn is_unordered(mention: &Mention, own_hasher: bool) -> bool {
    let mut segments = mention.path.split("::").skip_while(|segment| !UNORDERED.contains(segment));
    segments.next().is_some() && (!own_hasher || matches!(segments.next(), Some("new" | "with_capacity" | "from")))
}

/// Every path in the code; the branches of an import one by one.
fn mentions(tokens: &[Token<'_>]) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "use" {
            at = import(tokens, at + 1, "", &mut found);
        } else if tokens[at].is_word() {
            let line = tokens[at].line;
            let mut path = tokens[at].text.to_string();
            at += 1;
            while at + 1 < tokens.len() && tokens[at].text == "::" && tokens[at + 1].is_word() {
                path = format!("{path}::{}", tokens[at + 1].text);
                at += 2;
            }
            let macro_call =
                at + 1 < tokens.len() && tokens[at].text == "!" && matches!(tokens[at + 1].text, "(" | "[" | "{");
            found.push(Mention { line, path, macro_call });
        } else {
            at += 1;
        }
    }
    found
}

/// Follows an import from `at` on and says where it ends.
fn import(tokens: &[Token<'_>], mut at: usize, prefix: &str, found: &mut Vec<Mention>) -> usize {
    let mut path = prefix.to_string();
    let mut line = None;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}" && token.text != ";") {
                    at = import(tokens, at, &path, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
                }
                at += usize::from(tokens.get(at).is_some_and(|token| token.text == "}"));
                return at;
            }
            "}" | "," | ";" => break,
            "::" => {}
            // The new name says nothing; the old one does.
            "as" => at += 1,
            "self" if !path.is_empty() => line = Some(token.line),
            word => {
                path = if path.is_empty() { word.to_string() } else { format!("{path}::{word}") };
                line = Some(token.line);
            }
        }
        at += 1;
    }
    found.extend(line.map(|line| Mention { line, path, macro_call: false }));
    at
}

#[cfg(test)]
mod tests;
