//! `cargo x fuzz`: looks for bytes that break what takes them, led by what of the code they reach (libFuzzer, over stable Rust).
//!
//! The crate is `fuzz`. What reaches something of its own is kept in `fuzz/corpus`, a line of hexadecimal digits for each, and given
//! again by every run of the tests; what is found between is in `target/fuzz`.

use crate::check;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What can be looked at, in the order of `fuzz/src/lib.rs`.
const INPUTS: [&str; 11] = [
    "blocks",
    "bodies",
    "capabilities",
    "frames",
    "packets",
    "portraits",
    "queries",
    "records",
    "roots",
    "rows",
    "trailers",
];
/// What has the compiler count where it comes to, and tell what is compared.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";
/// How long one is looked at, in seconds, unless that is said.
const SECONDS: &str = "60";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    seconds: &'a str,
    keep: bool,
    inputs: Vec<&'a str>,
    /// A file that is given to one input, and nothing else.
    file: Option<&'a str>,
}

impl<'a> Asked<'a> {
    fn of(arguments: &'a [String]) -> Result<Asked<'a>, String> {
        let mut asked = Asked { seconds: SECONDS, keep: false, inputs: Vec::new(), file: None };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => asked.keep = true,
                "--seconds" => asked.seconds = rest.next().ok_or("--seconds wants a number")?,
                input if INPUTS.contains(&input) => asked.inputs.push(input),
                file if asked.inputs.len() == 1 && asked.file.is_none() && !file.starts_with('-') => {
                    asked.file = Some(file);
                }
                other => return Err(format!("{other} is none of {INPUTS:?}")),
            }
        }
        if asked.seconds.parse::<u32>().is_err() {
            return Err(format!("{} are no seconds", asked.seconds));
        }
        if asked.inputs.is_empty() {
            asked.inputs = INPUTS.to_vec();
        }
        Ok(asked)
    }
}

/// Looks at all inputs, or at those that are named.
pub fn fuzz(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    let asked = Asked::of(arguments)?;
    let program = built(root)?;
    let work = root.join("target/fuzz");
    for input in &asked.inputs {
        if let Some(file) = asked.file {
            return run(&program, input, &[file.to_string()]);
        }
        eprintln!("cargo x fuzz: {input}, {} s", asked.seconds);
        let (kept, found) = (root.join(format!("fuzz/corpus/{input}.hex")), work.join("corpus").join(input));
        unpack(&kept, &found)?;
        let broken = format!("{}/found-{input}-", work.display());
        let settings = [format!("-max_total_time={}", asked.seconds), format!("-artifact_prefix={broken}")];
        let more = ["-max_len=1024".to_string(), "-verbosity=0".to_string(), found.display().to_string()];
        let code = run(&program, input, &[&settings[..], &more[..]].concat())?;
        if code != ExitCode::SUCCESS {
            return Err(format!(
                "{input} is broken by what is in {broken}*; `cargo x fuzz {input} FILE` gives it that again"
            ));
        }
        if asked.keep {
            let least = work.join("least").join(input);
            remade(&least)?;
            let merge = ["-set_cover_merge=1", "-use_counters=0", "-verbosity=0"].map(String::from);
            let of = [least.display().to_string(), found.display().to_string()];
            if run(&program, input, &[&merge[..], &of[..]].concat())? != ExitCode::SUCCESS {
                return Err(format!("what was found for {input} cannot be merged"));
            }
            pack(&least, &kept)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the crate; its program. Flags for a target are none for what runs while it is built.
fn built(root: &Path) -> Result<PathBuf, String> {
    let told = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc cannot be run: {e}"))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not say what it is for")?;
    let work = root.join("target/fuzz");
    let mut cargo = Command::new(check::program());
    cargo.args(["build", "--release", "--locked", "--target", host]).env("RUSTFLAGS", FLAGS);
    cargo.arg("--manifest-path").arg(root.join("fuzz/Cargo.toml")).arg("--target-dir").arg(&work);
    let status = cargo.status().map_err(|e| format!("cargo cannot be run: {e}"))?;
    if !status.success() {
        return Err(
            "the crate in fuzz cannot be built, see above; libFuzzer needs a C++ compiler (apt-get install g++)".into(),
        );
    }
    Ok(work.join(host).join("release/forebay-fuzz"))
}

fn run(program: &Path, input: &str, arguments: &[String]) -> Result<ExitCode, String> {
    let status = Command::new(program).env("FOREBAY_FUZZ", input).args(arguments).status();
    let status = status.map_err(|e| format!("{} cannot be run: {e}", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A directory with nothing in it.
fn remade(directory: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{} cannot be made anew: {e}", directory.display());
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(failed)?;
    }
    std::fs::create_dir_all(directory).map_err(failed)
}

/// A file for each line of what is kept, beside what is there.
fn unpack(kept: &Path, directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|e| format!("{} cannot be made: {e}", directory.display()))?;
    let lines = std::fs::read_to_string(kept).unwrap_or_default();
    for (nth, line) in lines.lines().enumerate() {
        let bytes =
            bytes_of(line).ok_or_else(|| format!("line {} of {} is not hexadecimal", nth + 1, kept.display()))?;
        let path = directory.join(format!("kept{nth}"));
        std::fs::write(&path, bytes).map_err(|e| format!("{} cannot be written: {e}", path.display()))?;
    }
    Ok(())
}

/// Keeps what is in a directory.
fn pack(directory: &Path, kept: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{} cannot be read: {e}", directory.display());
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let bytes = std::fs::read(entry.map_err(failed)?.path()).map_err(failed)?;
        lines.push(line_of(&bytes));
    }
    lines.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    let text: String = lines.concat();
    std::fs::write(kept, text).map_err(|e| format!("{} cannot be written: {e}", kept.display()))
}

fn line_of(bytes: &[u8]) -> String {
    let mut line = bytes.iter().fold(String::new(), |mut line, byte| {
        let _ = write!(line, "{byte:02x}");
        line
    });
    line.push('\n');
    line
}

fn bytes_of(line: &str) -> Option<Vec<u8>> {
    let pairs = line.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
