//! What the tests of this crate share: a sink that keeps everything, clocks, inputs that stutter, seeds, other programs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests stand outside of the doors")]

use crate::source::{ClockDoor, Sink};
use forebay_model::{Gap, Moment, Result, Timestamp};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a sink was offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Element(Timestamp, Vec<u8>),
    Gap(Gap),
}

type OnTick<'a> = Box<dyn FnMut(&[Event]) -> bool + 'a>;

/// Keeps what it is offered, and says stop when it is told to.
pub(crate) struct Collector<'a> {
    pub(crate) events: Vec<Event>,
    /// Which of them were cut, and how many bytes are missing.
    pub(crate) cuts: Vec<(usize, u32)>,
    pub(crate) open: Option<(Timestamp, Vec<u8>)>,
    /// Says stop at the first tick after so many events.
    pub(crate) enough: usize,
    pub(crate) ticks: usize,
    /// The longest time between two ticks by this clock.
    pub(crate) longest: Duration,
    /// Called with each tick and all that was offered; false says stop.
    pub(crate) on_tick: OnTick<'a>,
    ticked: Option<Moment>,
    clock: Arc<dyn ClockDoor>,
}

/// Ticks after which a test that waits for something gives up: a minute.
const PATIENCE: usize = 3000;

impl<'a> Collector<'a> {
    pub(crate) fn new(clock: Arc<dyn ClockDoor>) -> Collector<'a> {
        Collector {
            events: Vec::new(),
            cuts: Vec::new(),
            open: None,
            enough: usize::MAX,
            ticks: 0,
            longest: Duration::ZERO,
            on_tick: Box::new(|_| true),
            ticked: None,
            clock,
        }
    }

    pub(crate) fn elements(&self) -> Vec<Vec<u8>> {
        let payload = |event: &Event| match event {
            Event::Element(_, bytes) => Some(bytes.clone()),
            Event::Gap(_) => None,
        };
        self.events.iter().filter_map(payload).collect()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let gap = |event: &Event| match event {
            Event::Gap(gap) => Some(*gap),
            Event::Element(..) => None,
        };
        self.events.iter().filter_map(gap).collect()
    }
}

impl Sink for Collector<'_> {
    fn element(&mut self, time: Timestamp, parts: &[&[u8]], _: &[u8]) -> Result<()> {
        assert!(self.open.is_none(), "an element inside of another");
        self.events.push(Event::Element(time, parts.concat()));
        Ok(())
    }

    fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], keys: &[u8], cut: u32) -> Result<()> {
        self.cuts.push((self.events.len(), cut));
        self.element(time, parts, keys)
    }

    fn begin(&mut self, time: Timestamp, _: &[u8]) -> Result<()> {
        assert!(self.open.is_none(), "an element inside of another");
        self.open = Some((time, Vec::new()));
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.open.as_mut().expect("a part of nothing").1.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let (time, bytes) = self.open.take().expect("the end of nothing");
        self.events.push(Event::Element(time, bytes));
        Ok(())
    }

    fn gap(&mut self, gap: Gap) -> Result<()> {
        assert!(self.open.is_none(), "a gap inside of an element");
        self.events.push(Event::Gap(gap));
        Ok(())
    }

    fn tick(&mut self) -> Result<bool> {
        self.ticks += 1;
        assert!(self.ticks < PATIENCE, "nothing ended this: {} events so far", self.events.len());
        let now = self.clock.now();
        self.longest = self.longest.max(now.since(self.ticked.unwrap_or(now)));
        self.ticked = Some(now);
        Ok((self.on_tick)(&self.events) && self.events.len() < self.enough)
    }
}

/// A clock that moves when somebody pauses, and a little whenever somebody looks.
pub(crate) struct ManualClock(AtomicU64);

/// The wall time at which manual clocks begin.
pub(crate) const EPOCH: Timestamp = Timestamp(1_700_000_000_000_000_000);

impl ManualClock {
    pub(crate) fn new() -> Arc<ManualClock> {
        Arc::new(ManualClock(AtomicU64::new(0)))
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.0.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl ClockDoor for ManualClock {
    fn wall(&self) -> Timestamp {
        EPOCH.after(Duration::from_nanos(self.0.load(Ordering::Relaxed)))
    }

    fn now(&self) -> Moment {
        Moment(self.0.fetch_add(100, Ordering::Relaxed))
    }

    fn pause(&self, span: Duration) {
        self.advance(span);
    }
}

/// The clock of this machine.
pub(crate) struct MachineClock(Instant);

impl MachineClock {
    pub(crate) fn new() -> Arc<MachineClock> {
        Arc::new(MachineClock(Instant::now()))
    }
}

impl ClockDoor for MachineClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("this machine lives after 1970");
        Timestamp(since.as_nanos() as i64)
    }

    fn now(&self) -> Moment {
        Moment(self.0.elapsed().as_nanos() as u64)
    }

    fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

/// What a [`Stutter`] does when it is read.
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing comes for so long.
    Silence(Duration),
    Fail(std::io::ErrorKind),
}

/// An input that comes in pieces, with silence between them.
pub(crate) struct Stutter {
    pub(crate) pieces: VecDeque<Piece>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Stutter {
    /// `bytes` in pieces of `size`, 1 ms apart.
    pub(crate) fn pieces(bytes: &[u8], size: usize, clock: &Arc<ManualClock>) -> Box<Stutter> {
        let mut pieces = VecDeque::new();
        for piece in bytes.chunks(size) {
            pieces.push_back(Piece::Bytes(piece.to_vec()));
            pieces.push_back(Piece::Silence(Duration::from_millis(1)));
        }
        Box::new(Stutter { pieces, clock: clock.clone() })
    }
}

impl Read for Stutter {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.pieces.pop_front() {
            None => Ok(0),
            Some(Piece::Bytes(mut bytes)) => {
                let n = bytes.len().min(buffer.len());
                buffer[..n].copy_from_slice(&bytes[..n]);
                if n < bytes.len() {
                    self.pieces.push_front(Piece::Bytes(bytes.split_off(n)));
                }
                Ok(n)
            }
            Some(Piece::Silence(span)) => {
                self.clock.advance(span);
                Err(std::io::ErrorKind::WouldBlock.into())
            }
            Some(Piece::Fail(kind)) => Err(kind.into()),
        }
    }
}

/// An output that stays readable.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The seed of a random test: `FOREBAY_SEED` if it is set, printed in any case.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("FOREBAY_SEED") {
        Ok(text) => text.parse().expect("FOREBAY_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64,
    };
    println!("replay with FOREBAY_SEED={seed}");
    seed
}

/// Random numbers for tests: splitmix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// What tshark prints for a capture; it must read it without a word of complaint.
pub(crate) fn tshark(capture: &[u8], arguments: &[&str]) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(capture).unwrap();
    let output =
        Command::new("tshark").arg("-n").arg("-r").arg(file.path()).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("install tshark ('cargo x test' does): {e}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = complaints.lines().filter(|l| !l.starts_with("Running as user \"root\"")).collect();
    assert!(output.status.success() && complaints.is_empty(), "tshark: {} {complaints:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `work` in a network of its own, which is gone when its thread and its sockets are.
pub(crate) fn in_own_network(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: this thread alone gets another network; it shares no descriptor of the old one.
            let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
            unshared.unwrap_or_else(|e| panic!("a network namespace for the test needs root: run as root ({e})"));
            for name in ["all", "default"] {
                // Without it, interfaces chatter when they come up. Kernels without IPv6 have no such file.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            }
            ip("link set lo up");
            work();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs `ip` in the network of this thread; gives what it prints.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("install iproute2 ('cargo x test' does): {e}"));
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the pair of interfaces `fb0` and `fb1`: what is sent through one arrives at the other.
pub(crate) fn pair() {
    ip("link add fb0 type veth peer name fb1");
    for name in ["fb0", "fb1"] {
        ip(&format!("link set {name} up"));
    }
    pair_is_up();
}

/// Waits until what is sent through one of the pair arrives at the other.
pub(crate) fn pair_is_up() {
    for name in ["fb0", "fb1"] {
        // A fresh interface silently drops what is sent until the kernel's own work has seen that it is connected.
        let mut asked = 0;
        while !ip(&format!("-o link show {name}")).contains("state UP") {
            asked += 1;
            assert!(asked < 10_000, "{name} does not come up");
        }
        // That work holds a lock that this takes, too: when it is through, so is the work.
        ip(&format!("link set {name} up"));
    }
}
