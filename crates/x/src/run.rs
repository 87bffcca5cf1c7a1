//! The verbs that run something: tests, simulation, measurements, the program itself.

use crate::{check, packages};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Tests that ran, over all of cargo's reports.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Count {
    /// Adds what a line of cargo's output reports: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(report) = line.strip_prefix("test result: ") else { return };
        let report = report.split_once(". ").map_or(report, |(_, counts)| counts);
        for part in report.split(';') {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next().and_then(|word| word.parse::<u64>().ok()), words.next())
            else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// The house rules and all tests; the last line counts them.
pub fn test(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    if !quick {
        packages::ensure()?;
    }
    let clean = check::rules(root)?;
    let mut command = Command::new(check::program());
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]).current_dir(root);
    if quick {
        command.args(["--lib", "--bins"]);
    }
    command.args(arguments.iter().filter(|argument| *argument != "--quick")).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cargo cannot be run: {e}"))?;
    let mut count = Count::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|e| format!("the output of the tests cannot be read: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count.add(&line);
        }
    }
    let status = child.wait().map_err(|e| format!("cargo cannot be waited for: {e}"))?;
    if !clean {
        println!("the house rules are broken, see the top of this output or run `cargo x check --rules`");
    }
    if !status.success() && count.failed == 0 {
        println!("not everything could be built or run, see above");
    }
    println!("tests: {} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    let good = clean && status.success() && count.passed > 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Simulates; what follows is for the simulator.
pub fn sim(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    pass_on(root, &["run", "--release", "--package", "forebay-sim", "--bin", "simulate", "--"], arguments, &[])
}

/// Measures; what follows is for `forebay bench`.
pub fn bench(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    pass_on(root, &["run", "--release", "--package", "forebay", "--", "bench"], arguments, &[])
}

/// Runs the program with an empty directory as its cluster.
pub fn dev(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    let (keep, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == "--keep" => (true, rest),
        _ => (false, arguments),
    };
    let cluster = std::env::temp_dir().join(format!("forebay-dev-{}", std::process::id()));
    let failed = |verb: &str, e: std::io::Error| format!("{} cannot be {verb}: {e}", cluster.display());
    std::fs::create_dir(&cluster).map_err(|e| failed("made", e))?;
    eprintln!("FOREBAY_CLUSTER={}", cluster.display());
    let place = cluster.to_string_lossy();
    let result = pass_on(root, &["run", "--package", "forebay", "--"], arguments, &[("FOREBAY_CLUSTER", &place)]);
    if !keep {
        std::fs::remove_dir_all(&cluster).map_err(|e| failed("removed", e))?;
    }
    result
}

/// Runs cargo where we were called, and hands on how it ended. What is built is what is at `root`.
fn pass_on(root: &Path, cargo: &[&str], arguments: &[String], settings: &[(&str, &str)]) -> Result<ExitCode, String> {
    let (verb, rest) = cargo.split_first().ok_or("no verb for cargo")?;
    let mut command = Command::new(check::program());
    command.arg(verb).arg("--manifest-path").arg(root.join("Cargo.toml"));
    command.args(rest).args(arguments).envs(settings.iter().copied());
    let status = command.status().map_err(|e| format!("cargo cannot be run: {e}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests;
