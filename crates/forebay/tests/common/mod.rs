//! Runs the real binary on clusters of its own.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod device;
pub mod known;
pub mod served;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Numbers by chance, from a seed: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From nothing to 30 ms, as often shorter than 100 us as longer.
    pub fn moment(&mut self) -> Duration {
        let power = self.below(15);
        Duration::from_micros(self.below(2 << power))
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let start = self.below(u64::MAX);
        (0..length as u64)
            .map(|n| (start.wrapping_add(n / 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8)
            .collect()
    }
}

/// Sends a process a signal by its name.
pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

/// Runs the program so that it survives when the kernel refuses its writes.
pub fn hardy(place: &Place, args: &[&str]) -> Command {
    let program = place.command(args);
    let mut command = Command::new("sh");
    // The signal that comes along with the refusal ends a process that does not ignore it.
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    command.env("FOREBAY_CLUSTER", place.cluster()).current_dir(place.path("."));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// From now on every write of the process to a file fails, as to a disk that has died.
pub fn let_its_disk_die(child: &Child) {
    let limited = Command::new("prlimit").args(["--pid", &child.id().to_string(), "--fsize=4096"]).status();
    assert!(limited.unwrap().success());
}

/// Waits, for a time that has no event.
pub fn pass(span: Duration) {
    let began = Instant::now();
    while began.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// A process of one test of this program, which only others start, and whose output is for [`said`].
pub fn itself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).stdout(Stdio::piped());
    command
}

/// Hands on what such a process says after `! `, line by line, until its end.
pub fn said(output: ChildStdout, mut hear: impl FnMut(&str) + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The harness speaks too; a line that the kill cut off was not said.
            if let Some((_, said)) = line.split_once("! ") {
                hear(said);
            }
        }
    })
}

/// A directory with a cluster in it, or room for one.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Room for a cluster. Not among temporary files, which may have no direct I/O.
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// A cluster of a file of `size`.
    pub fn formatted(size: &str) -> Place {
        let place = Place::new();
        place.ok(&["format", "--size", size, "--measure", "0"]);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn cluster(&self) -> PathBuf {
        self.path("cluster")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(args).env("FOREBAY_CLUSTER", self.cluster()).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdin(Stdio::piped()).spawn().unwrap()
    }

    pub fn feed(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self.start(args);
        // A program that refuses at once does not read.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Runs what has to succeed; its output.
    pub fn ok(&self, args: &[&str]) -> String {
        text_of_success(args, &self.run(args))
    }

    /// Feeds what has to succeed.
    pub fn ok_fed(&self, args: &[&str], input: &[u8]) -> String {
        text_of_success(args, &self.feed(args, input))
    }

    /// Runs what has to fail with `code` and to say `words`.
    pub fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        check_refusal(args, &self.run(args), code, words);
    }

    pub fn refused_fed(&self, args: &[&str], input: &[u8], code: i32, words: &[&str]) {
        check_refusal(args, &self.feed(args, input), code, words);
    }

    /// What tshark prints for a capture, which it must read without a word of complaint.
    pub fn tshark(&self, name: &str, args: &[&str]) -> String {
        let output = Command::new("tshark").arg("-n").arg("-r").arg(self.path(name)).args(args).output();
        let output = output.unwrap_or_else(|e| panic!("install tshark ('cargo x test' does): {e}"));
        let complaints = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<&str> = complaints.lines().filter(|l| !l.starts_with("Running as user")).collect();
        assert!(output.status.success() && complaints.is_empty(), "tshark: {complaints:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// How many elements match.
    pub fn count(&self, ring: &str, query: &str) -> u64 {
        self.ok(&["query", ring, query, "--count"]).trim().parse().unwrap()
    }
}

fn text_of_success(args: &[&str], output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?} failed with {:?}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check_refusal(args: &[&str], output: &Output, code: i32, words: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    let sentence = error.lines().find(|line| line.starts_with("forebay: ") || line.starts_with("error: "));
    assert!(sentence.is_some(), "{args:?} said: {error}");
    for word in words {
        assert!(error.contains(word), "{args:?} does not say '{word}': {error}");
    }
}

/// A pcap file with `packets` packets from 10.0.0.1 to 10.0.0.2, UDP port 53 to 4000 and so on.
pub fn pcap(path: &Path, packets: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65535, 1] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for n in 0..packets {
        let frame = frame(n);
        for word in [1_700_000_000 + n, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&frame);
    }
    std::fs::write(path, &bytes).unwrap();
    bytes
}

fn frame(n: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend_from_slice(&[0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&53u16.to_be_bytes());
    frame.extend_from_slice(&(4000 + (n % 1000) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 12, 0, 0]);
    frame.extend_from_slice(&n.to_be_bytes());
    frame
}
