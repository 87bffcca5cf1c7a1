//! How results look: to people as sentences and tables, to programs as JSON (`docs/cli-json.md`).

pub mod aside;
pub mod element;
pub mod heaps;
pub mod human;
pub mod json;
pub mod live;
pub mod network;
pub mod out;
pub mod parts;
pub mod raw;
pub mod rings;

use forebay_env::real::file;
use forebay_model::Error;
use std::io::Write;

/// Says on standard error what went wrong.
pub fn complain(error: &Error) {
    say(&format!("forebay: {error}"));
}

/// Says something to people, on standard error, so that it never mixes with results.
pub fn say(text: &str) {
    // Where there is no standard error, there is nobody to tell.
    if let Ok(mut stderr) = file::stderr() {
        let _ = stderr.write_all(format!("{text}\n").as_bytes());
    }
}
