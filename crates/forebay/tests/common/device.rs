//! A device that `forebay nbd` serves, and what it has to hold.

use super::served::Served;
use super::{Dice, Place, signal};
use forebay_env::Network;
use forebay_env::real::{TcpNetwork, UnixNetwork};
use forebay_nbd::client::Client;
use forebay_nbd::protocol::{command, command_flag};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Child, Command, Stdio};

/// A server that is ended with the test.
pub struct Device {
    pub child: Child,
    pub address: String,
    pub uri: String,
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Device {
    pub fn new(place: &Place, args: &[&str]) -> Device {
        Device::of(place.command(&[&["nbd"], args, &["--json"]].concat()))
    }

    /// One of a cluster on the network.
    pub fn served(served: &Served, place: &Place, args: &[&str]) -> Device {
        Device::of(served.command(place, &[&["nbd"], args, &["--json"]].concat()))
    }

    fn of(mut command: Command) -> Device {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = serde_json::from_str::<serde_json::Value>(&line);
        let said = said.unwrap_or_else(|_| {
            let mut why = String::new();
            std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut why).unwrap();
            panic!("{command:?} is not served: {why}")
        });
        let text = |name: &str| said[name].as_str().unwrap().to_string();
        Device { address: text("listening"), uri: text("uri"), child }
    }

    pub fn client(&self) -> Client {
        let network: &dyn Network = if self.address.contains('/') { &UnixNetwork } else { &TcpNetwork };
        Client::choose(network.connect(&self.address).unwrap(), "").unwrap()
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        signal(&self.child, "TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "it ends in order");
    }
}

/// Bytes of the device.
pub const SIZE: usize = 24 << 20;
/// What is read at once.
const PART: usize = 4 << 20;

/// A request without an answer: what it makes of which bytes; none, if it reads.
struct UnderWay {
    offset: usize,
    length: usize,
    new: Option<Vec<u8>>,
}

/// What the device holds, and what may have become of it.
pub struct Model {
    bytes: Vec<u8>,
    /// By connection and cookie.
    under_way: BTreeMap<(usize, u64), UnderWay>,
    pub answered: u64,
    /// Whether it can be told what is not needed.
    trims: bool,
    /// How long the parts are that are whole or absent, from the first byte of the device on or from that of a request.
    parts: (usize, From),
}

/// From where parts of a request are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Device,
    Request,
}

impl Model {
    /// An object, which a request of more than 4 MiB changes in several steps.
    pub fn object() -> Model {
        let parts = (4 << 20, From::Request);
        Model { bytes: vec![0; SIZE], under_way: BTreeMap::new(), answered: 0, trims: true, parts }
    }

    /// A file with units of 64 KiB.
    pub fn file() -> Model {
        Model { trims: false, parts: (64 << 10, From::Device), ..Model::object() }
    }

    /// What the device holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn is_free(&self, offset: usize, length: usize) -> bool {
        self.under_way.values().all(|other| offset + length <= other.offset || other.offset + other.length <= offset)
    }

    /// Asks something by chance.
    fn ask(&mut self, dice: &mut Dice, clients: &mut [Client], with: usize) -> std::io::Result<()> {
        let length = match dice.below(10) {
            0 => dice.below(6 << 20),
            1..4 => dice.below(400_000),
            4..7 => 4096 * (1 + dice.below(4)),
            _ => dice.below(9000),
        } as usize;
        let mut offset = dice.below((SIZE - length) as u64 + 1) as usize;
        if dice.below(2) == 0 {
            offset = offset / 4096 * 4096;
        }
        if !self.is_free(offset, length) {
            return Ok(());
        }
        let client = &mut clients[with];
        let fua = if dice.below(4) == 0 { command_flag::FUA } else { 0 };
        let (cookie, new) = match dice.below(20) {
            0 => (client.send(0, command::FLUSH, 0, 0, &[])?, None),
            1..3 if self.trims => {
                (client.send(fua, command::TRIM, offset as u64, length as u32, &[])?, Some(vec![0; length]))
            }
            1..5 => {
                let flags = fua | if dice.below(2) == 0 { command_flag::NO_HOLE } else { 0 };
                let cookie = client.send(flags, command::WRITE_ZEROES, offset as u64, length as u32, &[])?;
                (cookie, Some(vec![0; length]))
            }
            5..10 => (client.send(0, command::READ, offset as u64, length as u32, &[])?, None),
            _ => {
                let bytes = dice.bytes(length);
                (client.send(fua, command::WRITE, offset as u64, length as u32, &bytes)?, Some(bytes))
            }
        };
        self.under_way.insert((with, cookie), UnderWay { offset, length, new });
        Ok(())
    }

    /// Takes an answer of a connection.
    pub fn take(&mut self, client: &mut Client, with: usize) -> std::io::Result<()> {
        let answer = client.receive()?;
        let UnderWay { offset, length, new } = self.under_way.remove(&(with, answer.cookie)).unwrap();
        let bytes = answer.result.unwrap_or_else(|errno| panic!("{length} bytes at {offset}: error {errno}"));
        match new {
            Some(new) => self.bytes[offset..offset + length].copy_from_slice(&new),
            None => assert!(bytes.is_empty() || bytes == self.bytes[offset..offset + length], "{length} at {offset}"),
        }
        self.answered += 1;
        Ok(())
    }

    /// What was asked `count` times by two connections at once; an error when the server is gone.
    pub fn run(&mut self, dice: &mut Dice, clients: &mut [Client], count: u64) -> std::io::Result<()> {
        for _ in 0..count {
            let with = dice.below(clients.len() as u64) as usize;
            self.ask(dice, clients, with)?;
            while self.under_way.len() > 12 || dice.below(3) == 0 && !self.under_way.is_empty() {
                let oldest = self.under_way.keys().nth(dice.below(self.under_way.len() as u64) as usize).unwrap().0;
                self.take(&mut clients[oldest], oldest)?;
            }
        }
        Ok(())
    }

    pub fn settle(&mut self, clients: &mut [Client]) -> std::io::Result<()> {
        while let Some(((with, _), _)) = self.under_way.first_key_value() {
            let with = *with;
            self.take(&mut clients[with], with)?;
        }
        Ok(())
    }

    /// The server was killed: what was answered is there, the rest is whole or absent, part by part.
    pub fn compare(&mut self, client: &mut Client) {
        let mut found = Vec::with_capacity(SIZE);
        while found.len() < SIZE {
            found.extend(client.read(found.len() as u64, PART as u32).unwrap().unwrap());
        }
        let mut uncertain = Vec::new();
        for UnderWay { offset, new, .. } in std::mem::take(&mut self.under_way).into_values() {
            let (length, from) = self.parts;
            let (mut at, mut new) = (offset, new.unwrap_or_default());
            while !new.is_empty() {
                let step = if from == From::Device { length - at % length } else { length };
                let rest = new.split_off(step.min(new.len()));
                let range = at..at + new.len();
                if found[range.clone()] == new {
                    self.bytes[range.clone()].copy_from_slice(&new);
                }
                at = range.end;
                uncertain.push((range, new));
                new = rest;
            }
        }
        let differing = self.differing(&found, &uncertain);
        assert!(differing.is_empty(), "bytes that differ from what was answered:\n{}", differing.join("\n"));
    }

    /// The blocks in which something was found that was not answered, with what was asked there and has no answer.
    fn differing(&self, found: &[u8], uncertain: &[(Range<usize>, Vec<u8>)]) -> Vec<String> {
        const BLOCK: usize = 4096;
        let differ = (0..SIZE).step_by(BLOCK).map(|at| at..at + BLOCK);
        let differ = differ.filter(|block| found[block.clone()] != self.bytes[block.clone()]);
        let said = |block: Range<usize>| {
            let asked = uncertain.iter().filter_map(|(range, new)| {
                let both = block.start.max(range.start)..block.end.min(range.end);
                let asked = new.get(both.start - range.start..both.end.checked_sub(range.start)?)?;
                (!asked.is_empty()).then(|| format!("; as asked of {range:?}: {}", found[both] == *asked))
            });
            let zeros = found[block.clone()].iter().all(|byte| *byte == 0);
            format!("{block:?}, zeros: {zeros}{}", asked.collect::<String>())
        };
        differ.map(said).collect()
    }
}

/// What a program prints that has to succeed.
pub fn program(name: &str, args: &[&str]) -> String {
    let output = Command::new(name).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("install {name} ('cargo x test' does): {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What qemu-io writes and reads on a device of 32 MiB or more, all at once and one after the other, and what it is asked then.
pub fn asked_by_qemu(uri: &str, then: &[&str]) {
    let asked = [
        "write -P 7 1M 3M",
        "write -f -P 9 2000k 100k",
        "discard 3M 64k",
        "write -z 5M 1M",
        "write -z -u 8M 1M",
        "flush",
        "read -P 7 1M 900k",
        "read -P 9 2000k 100k",
        "read -P 0 5M 1M",
        "read -P 0 8M 1M",
        "aio_write -P 3 20M 2M",
        "aio_write -P 4 22M 2M",
        "aio_flush",
        "read -P 3 20M 2M",
        "read -P 4 22M 2M",
    ];
    let mut args = vec!["-f", "raw"];
    asked.iter().chain(then).for_each(|asked| args.extend(["-c", *asked]));
    args.push(uri);
    let said = program("qemu-io", &args);
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
}
