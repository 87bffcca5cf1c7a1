//! `cargo x`: the one verb of whoever works on Forebay. What it checks is what CI checks.
//!
//! Uses nothing but the standard library, so that it builds in a second. It is exempt from the lint about doors: files
//! and processes are its subject.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod check;
mod doors;
mod fuzz;
mod layering;
mod lexer;
mod links;
mod packages;
mod run;
mod shown;
mod style;
mod test;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo x VERB
  check [--rules]                         format, clippy, the house rules, licences; --rules: only what needs no compiler
  test [--quick] [CARGO TEST ARGUMENTS]   the house rules and all tests, after installing what they need;
                                          --quick: unit tests only, nothing is installed
  sim [SEED] [--seeds N] [--promise | --cluster [--short]]
                                          simulate: one seed, or as many as asked for; --promise: a ring with a promise
                                          beside everything else, instead of crashes and damage; --cluster: whole
                                          clusters whose machines fail, --short: with far less in each life
  fuzz [--seconds N] [--keep] [INPUT...]  look for bytes that break what takes them, 60 s for each input; --keep: what
                                          reached something of its own is given again by the tests
  fuzz INPUT FILE                         give an input the bytes of a file
  bench ...                               forebay bench, optimised
  bench page-stores ...                   a heap beside redb, fjall and RocksDB, in benches/page_stores
  dev                                     serve a cluster of a manager and five nodes on this machine, kept in target/dev
  dev [--keep] ...                        forebay with a fresh cluster in a temporary directory; --keep leaves it there";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let root = tree::root();
    let result = match (verb.as_str(), rest) {
        ("check", []) => check::check(&root, false),
        ("check", [only]) if only == "--rules" => check::check(&root, true),
        ("test", rest) => test::test(&root, rest),
        ("sim", rest) => run::sim(&root, rest),
        ("fuzz", rest) => fuzz::fuzz(&root, rest),
        ("bench", rest) => run::bench(&root, rest),
        ("dev", rest) => run::dev(&root, rest),
        ("help" | "--help" | "-h", _) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("cargo x {}: not known\n{USAGE}", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            eprintln!("cargo x {verb}: {message}");
            ExitCode::FAILURE
        }
    }
}
