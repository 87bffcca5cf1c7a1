//! `forebay serve` as processes of its own.

use super::{Place, signal};
use forebay_client::files::blocking::FilesClient;
use forebay_serve::key;
use forebay_serve::reach::Reach;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// A server that is ended with the test.
pub struct Served {
    pub child: Child,
    pub cluster: String,
    pub key: String,
    /// What it said when it was ready.
    pub ready: serde_json::Value,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub fn start(place: &Place) -> Served {
        Served::with(place, &["--size", "512MiB"])
    }

    pub fn with(place: &Place, options: &[&str]) -> Served {
        Served::at(place, "cluster", &[&["--listen", "127.0.0.1:0"], options].concat())
    }

    /// A node that serves the targets of `dir`, with the key of root, or the one that it has.
    pub fn join(&self, place: &Place, dir: &str) -> Served {
        let key = self.key.clone();
        Served::at(place, dir, &["--join", &self.cluster, "--access-key", &key, "--size", "256MiB"])
    }

    pub fn at(place: &Place, dir: &str, options: &[&str]) -> Served {
        Served::of(Served::command_to(place, dir, options))
    }

    /// One of the directory that is the cluster, as its environment or these options say.
    pub fn of_cluster(place: &Place, options: &[&str]) -> Served {
        Served::of(place.command(&[&["serve", "--json", "--listen", "127.0.0.1:0"], options].concat()))
    }

    /// The same with limits of the operating system, as prlimit(1) is told them. What it says goes to a file.
    pub fn limited(place: &Place, limits: &[&str], options: &[&str]) -> Served {
        let said = std::fs::File::create(place.path("said")).unwrap();
        let mut command = Served::command_within(place, limits, options);
        command.stderr(said);
        Served::of(command)
    }

    /// One of whom this hears what it says.
    pub fn heard_by(place: &Place, stderr: impl Into<Stdio>) -> Served {
        let mut command = Served::command_to(place, "cluster", &["--listen", "127.0.0.1:0"]);
        command.stderr(stderr);
        Served::of(command)
    }

    /// What starts such a one.
    pub fn command_within(place: &Place, limits: &[&str], options: &[&str]) -> Command {
        let served = Served::command_to(place, "cluster", &[&["--listen", "127.0.0.1:0"], options].concat());
        let mut command = Command::new("prlimit");
        command.args(limits).arg(served.get_program()).args(served.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn command_to(place: &Place, dir: &str, options: &[&str]) -> Command {
        let dir = place.path(dir).display().to_string();
        place.command(&[&["serve", &dir, "--json"], options].concat())
    }

    fn of(mut command: Command) -> Served {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|_| {
            let mut why = String::new();
            child.stderr.as_mut().map(|said| said.read_to_string(&mut why).unwrap());
            panic!("nothing is served: {why}")
        });
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_string();
        Served { cluster: text("cluster"), key: text("key"), child, ready: said }
    }

    /// What it tells over HTTP of how it is.
    pub fn status(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(self.ready["status"].as_str().unwrap()).unwrap();
        stream.write_all(b"GET /status HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// Its files, as a program reaches them that has this key.
    pub fn files(&self, key: impl AsRef<Path>) -> FilesClient {
        self.files_within(key, Duration::from_secs(20))
    }

    /// The same for one who waits no longer for who is not there.
    pub fn files_within(&self, key: impl AsRef<Path>, patience: Duration) -> FilesClient {
        let manager = self.cluster.trim_start_matches("forebay://").to_string();
        let key = key::read(key.as_ref()).unwrap();
        Reach { manager, key, tls: None, patience }.files().unwrap()
    }

    pub fn command(&self, place: &Place, args: &[&str]) -> Command {
        let mut command = place.command(args);
        command.env("FOREBAY_CLUSTER", &self.cluster).env("FOREBAY_ACCESS_KEY", &self.key);
        command
    }

    pub fn run(&self, place: &Place, args: &[&str]) -> Output {
        self.command(place, args).output().unwrap()
    }

    pub fn ok(&self, place: &Place, args: &[&str]) -> Vec<u8> {
        let output = self.run(place, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What it says of a failure.
    pub fn failure(&self, place: &Place, args: &[&str]) -> String {
        self.ended_with(1, place, args)
    }

    /// What it says of something that can never be asked for.
    pub fn misuse(&self, place: &Place, args: &[&str]) -> String {
        self.ended_with(2, place, args)
    }

    fn ended_with(&self, code: i32, place: &Place, args: &[&str]) -> String {
        let output = self.run(place, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }

    pub fn kill(mut self) {
        signal(&self.child, "KILL");
        self.child.wait().unwrap();
    }

    pub fn stop(mut self) {
        signal(&self.child, "TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "it ends in order");
    }
}

/// Reads what a process says until it says `words`.
pub fn until(lines: &mut BufReader<ChildStderr>, words: &str) {
    let mut said = String::new();
    while !said.contains(words) {
        let before = said.len();
        lines.read_line(&mut said).unwrap();
        assert!(said.len() > before, "it ended and never said '{words}': {said}");
    }
}
