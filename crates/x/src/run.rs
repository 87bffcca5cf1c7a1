//! The verbs that run something: simulation, measurements, the program itself.

use crate::check;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Simulates; what follows is for the simulator.
pub fn sim(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    pass_on(root, &["run", "--release", "--package", "forebay-sim", "--bin", "simulate", "--"], arguments, &[])
}

/// Measures; what follows is for `forebay bench`, or behind `page-stores` for the crate that has our rivals.
pub fn bench(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    if let Some(("page-stores", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return page_stores(root, rest);
    }
    pass_on(root, &["run", "--release", "--package", "forebay", "--", "bench"], arguments, &[])
}

/// Measures the heap beside other stores of pages. RocksDB is among them if its library and headers are installed:
/// building it takes longer than all the rest.
fn page_stores(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    let library = rocksdb_directory();
    let mut command = Command::new(check::program());
    command.args(["run", "--release", "--locked", "--manifest-path"]).arg(root.join("benches/page_stores/Cargo.toml"));
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.arg("--target-dir").arg(root.join("target"));
    }
    match library {
        Some(directory) => {
            command.args(["--features", "rocksdb"]);
            command.env("ROCKSDB_LIB_DIR", directory).env("ROCKSDB_INCLUDE_DIR", "/usr/include");
        }
        None => eprintln!(
            "RocksDB is left out, since it is not installed; to have it measured, too: \
             sudo apt-get install librocksdb-dev libclang-dev"
        ),
    }
    command.arg("--").args(arguments);
    ended(command)
}

/// Where the system has RocksDB to link with, if it has its headers, too.
fn rocksdb_directory() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let has_library = |place: &PathBuf| place.join("librocksdb.so").is_file();
    let found = places.chain([PathBuf::from("/usr/lib")]).find(has_library)?;
    Path::new("/usr/include/rocksdb/c.h").is_file().then_some(found)
}

/// Runs the program with an empty directory as its cluster; without arguments, a cluster that is served.
pub fn dev(root: &Path, arguments: &[String]) -> Result<ExitCode, String> {
    if arguments.is_empty() {
        return serve_dev(root);
    }
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

/// Serves a cluster of five nodes. It stays, for the next time.
fn serve_dev(root: &Path) -> Result<ExitCode, String> {
    let cluster = root.join("target/dev");
    let place = cluster.to_string_lossy();
    let run = ["run", "--release", "--package", "forebay", "--", "serve", &place];
    let how = ["--nodes", "5", "--size", "1GiB", "--status", "127.0.0.1:0"];
    pass_on(root, &[&run[..], &how[..]].concat(), &[], &[])
}

/// Runs cargo where we were called, and hands on how it ended. What is built is what is at `root`.
fn pass_on(root: &Path, cargo: &[&str], arguments: &[String], settings: &[(&str, &str)]) -> Result<ExitCode, String> {
    let (verb, rest) = cargo.split_first().ok_or("no verb for cargo")?;
    let mut command = Command::new(check::program());
    command.arg(verb).arg("--manifest-path").arg(root.join("Cargo.toml"));
    command.args(rest).args(arguments).envs(settings.iter().copied());
    ended(command)
}

/// Runs it, and hands on how it ended.
fn ended(mut command: Command) -> Result<ExitCode, String> {
    let status = command.status().map_err(|e| format!("cargo cannot be run: {e}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
