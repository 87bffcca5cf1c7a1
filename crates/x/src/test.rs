//! `cargo x test`: the house rules and all tests; the last lines name those that failed, and count all.
//!
//! Tests run in three lanes, for most of them wait: in the first one, one program after the other, those that use the machine; in the
//! second one those of the simulator, which only compute, with what time the others leave; in the third one, beside these, those of
//! them that take longest, one after the other, for each needs much memory, and the last ones would have the machine to themselves.

use crate::{check, packages};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The package whose tests only compute.
const COMPUTES: &str = "crates/sim";
/// What its tests run by: they make way for the others, and keep what memory they had for what is simulated next, for to have the kernel
/// clear it anew costs a tenth of their time.
const COMPUTING: [&str; 7] = [
    "nice",
    "-n",
    "19",
    "env",
    "MALLOC_MMAP_THRESHOLD_=33554432",
    "MALLOC_TRIM_THRESHOLD_=4294967296",
    "MALLOC_TOP_PAD_=33554432",
];

/// What the tests in the simulator's own program begin with that have the third lane.
const LONGEST: &str = "promise::";
/// That program's name, before its hash.
const SIMULATOR: &str = "forebay_sim-";

/// Tests that ran, over all reports.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// The names of those that failed.
    names: Vec<String>,
}

impl Count {
    /// Adds what a line of a test program reports: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`, or `test a::b ... FAILED`.
    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.names.push(name.to_string());
        }
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

/// A program with tests, and the directory of its package.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    package: PathBuf,
}

impl Program {
    /// What one of cargo's messages says was built, if that has tests.
    fn of(message: &str) -> Option<Program> {
        let field = |name: &str| {
            let (_, rest) = message.split_once(&format!("\"{name}\":\""))?;
            rest.split_once('"').map(|(value, _)| PathBuf::from(value))
        };
        // Of the profile: a target may have tests and be built without.
        let is_test = message.contains("\"test\":true},\"features\"");
        let package = field("manifest_path")?.parent()?.to_path_buf();
        field("executable").filter(|_| is_test).map(|path| Program { path, package })
    }

    fn only_computes(&self) -> bool {
        self.package.ends_with(COMPUTES)
    }

    fn has_the_longest(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        self.only_computes() && name.is_some_and(|name| name.starts_with(SIMULATOR))
    }
}

/// The house rules and all tests.
pub fn test(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let arguments: Vec<&String> = arguments.iter().filter(|argument| *argument != "--quick").collect();
    if !quick {
        packages::ensure()?;
    }
    let clean = check::rules(root)?;
    let mut count = Count::default();
    let mut cargo = Command::new(check::program());
    cargo.args(["test", "--workspace", "--locked"]).current_dir(root);
    let ended_well = if quick || !arguments.is_empty() {
        cargo.arg("--no-fail-fast");
        if quick {
            cargo.args(["--lib", "--bins"]);
        }
        cargo.args(arguments);
        shown(cargo, &mut count)?
    } else {
        let programs = built(cargo)?;
        let (second, first): (VecDeque<Program>, _) = programs.into_iter().partition(Program::only_computes);
        let third: VecDeque<Program> = second.iter().filter(|program| program.has_the_longest()).cloned().collect();
        let beside = [(second, ["--skip", LONGEST].as_slice()), (third, &[LONGEST, "--test-threads", "1"])]
            .map(|(programs, after)| std::thread::spawn(move || lane(programs, (&COMPUTING, after), Shown::AtTheEnd)));
        let (mut is_well, counted) = lane(first, (&[], &[]), Shown::AtOnce)?;
        count = counted;
        for lane in beside {
            let (others, counted) = lane.join().map_err(|_| "a lane of tests ended with a panic")??;
            is_well &= others;
            count.merge(&counted);
        }
        let mut documented = Command::new(check::program());
        documented.args(["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]).current_dir(root);
        is_well & shown(documented, &mut count)?
    };
    if !clean {
        println!("the house rules are broken, see the top of this output or run `cargo x check --rules`");
    }
    if !ended_well && count.failed == 0 {
        println!("not everything could be built or run, see above");
    }
    count.names.iter().for_each(|name| println!("failed: {name}"));
    println!("tests: {} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    let good = clean && ended_well && count.passed > 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Count {
    fn merge(&mut self, other: &Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.names.extend(other.names.iter().cloned());
    }
}

/// Builds all tests; the programs that have them.
fn built(mut cargo: Command) -> Result<VecDeque<Program>, String> {
    cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]).stdout(Stdio::piped());
    let mut child = cargo.spawn().map_err(|e| format!("cargo cannot be run: {e}"))?;
    let mut messages = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut messages).map_err(|e| format!("what cargo says cannot be read: {e}"))?;
    }
    let status = child.wait().map_err(|e| format!("cargo cannot be waited for: {e}"))?;
    match status.success() {
        true => Ok(messages.lines().filter_map(Program::of).collect()),
        false => Err("not everything could be built, see above".to_string()),
    }
}

/// When it is shown what tests print.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    AtOnce,
    /// So that it is not mixed with that of others.
    AtTheEnd,
}

/// Runs programs one after the other, with words before and after their name; whether all ended well.
fn lane(
    programs: VecDeque<Program>,
    (before, after): (&[&str], &[&str]),
    when: Shown,
) -> Result<(bool, Count), String> {
    let (mut is_well, mut count) = (true, Count::default());
    for Program { path, package } in programs {
        let name = path.display().to_string();
        let words: Vec<&str> = before.iter().copied().chain([name.as_str()]).chain(after.iter().copied()).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
        let heading = format!("     Running {name}");
        is_well &= match when {
            Shown::AtOnce => {
                println!("{heading}");
                shown(command, &mut count)?
            }
            Shown::AtTheEnd => {
                let output = command.output().map_err(|e| format!("{name} cannot be run: {e}"))?;
                let [told, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
                told.lines().for_each(|line| count.add(line));
                // In one piece.
                println!("{heading}\n{told}{complaints}");
                output.status.success()
            }
        };
    }
    Ok((is_well, count))
}

/// Runs a command, shows what it prints, and counts the tests in it; whether it ended well.
fn shown(mut command: Command, count: &mut Count) -> Result<bool, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("{name} cannot be run: {e}"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|e| format!("the output of the tests cannot be read: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count.add(&line);
        }
    }
    let status = child.wait().map_err(|e| format!("{name} cannot be waited for: {e}"))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests;
