//! Forebay, the one binary: reads a command line, does one thing, says how it went.
//!
//! - [`bench`]: measures. [`cli`]: what can be asked; [`args`]: values that several commands share.
//! - [`commands`]: one file for each command; [`context`]: what they all need; [`input`]: what can be recorded.
//! - [`show`]: how results look to people and to programs. Nothing else writes to standard output.
//!
//! Exit codes: 0 done, 1 failed, 2 the request itself is wrong.

mod args;
mod bench;
mod cli;
mod commands;
mod context;
mod draw;
mod input;
mod show;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use forebay_model::Kind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = cli::Cli::command().get_matches();
    let mut cli = cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli.global.is_cluster_said = matches.value_source("cluster") == Some(ValueSource::CommandLine);
    let ended = commands::run(cli);
    show::aside::settle();
    match ended {
        Ok(code) => code,
        // Who closes our output has seen enough: `forebay query /ring | head`.
        Err(error) if show::out::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            show::complain(&error);
            ExitCode::from(if error.kind == Kind::Usage { 2 } else { 1 })
        }
    }
}
