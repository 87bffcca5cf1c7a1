use super::state::{Choice, Expected, Started, State};
use super::{Class, Direction, Outcome, Pending, StreamId, Waiting};
use crate::promise::{Promise, promise};
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result, RingId};
use std::collections::VecDeque;
use std::time::Duration;

const RING: RingId = RingId(1);
const OTHER: RingId = RingId(2);

/// What the scheduler did, with offsets in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Write(u64),
    Read(u64),
    Metadata(u64),
    Log(u64),
    Background(u64),
    Flush,
    Refuse,
    Wait,
}

/// A scheduler's state without a device: I/Os end when a test says so, in the order of their start.
struct Rig {
    state: State,
    profile: Profile,
    now: Moment,
    in_flight: VecDeque<(Started, Option<StreamId>)>,
    awaited: Vec<Promise<Outcome>>,
    flushes: Vec<Promise<Result<()>>>,
}

impl Rig {
    /// A device of 1 TB at 40 MB/s that takes 15 to 40 ms to position, or flash at 100 MB/s.
    fn new(rotates: bool) -> Rig {
        Rig {
            state: State::default(),
            profile: Profile::guess(Bytes(1_000_000_000_000), rotates),
            now: after(10_000),
            in_flight: VecDeque::new(),
            awaited: Vec::new(),
            flushes: Vec::new(),
        }
    }

    fn pending(&mut self, direction: Direction, mib: u64, length: Bytes, deadline: Moment) -> Pending {
        let mut buffer = Buffer::alone(length).unwrap();
        buffer.set_len(length.0 as usize);
        let (pending, awaited) = Pending::new(direction, Bytes::mib(mib), buffer);
        self.awaited.push(awaited);
        Pending { deadline, ..pending }
    }

    /// A MiB of a ring that has to be durable in so many milliseconds.
    fn write(&mut self, ring: RingId, mib: u64, within: u64) {
        let deadline = self.now + Duration::from_millis(within);
        let pending = self.pending(Direction::Write, mib, Bytes::mib(1), deadline);
        self.state.guaranteed.entry(ring).or_default().push_back(pending);
    }

    fn read(&mut self, stream: u64, mib: u64) {
        let pending = self.pending(Direction::Read, mib, Bytes::mib(1), Moment(u64::MAX));
        let stream = StreamId(stream);
        self.state.streams.push(stream, Pending { stream: Some(stream), ..pending }, self.profile.rotates);
    }

    /// A small read, or a large write.
    fn normal(&mut self, direction: Direction, stream: u64, mib: u64) {
        let length = if direction == Direction::Read { Bytes::kib(16) } else { Bytes::kib(512) };
        let pending = self.pending(direction, mib, length, Moment(u64::MAX));
        let stream = StreamId(stream);
        self.state.streams.push(stream, Pending { stream: Some(stream), ..pending }, self.profile.rotates);
    }

    fn log(&mut self, mib: u64) {
        let pending = self.pending(Direction::Write, mib, Bytes::kib(8), Moment(u64::MAX));
        self.state.log.push_back(pending);
    }

    fn metadata(&mut self, mib: u64, patience: u64) {
        let deadline = self.now + Duration::from_millis(patience);
        let pending = self.pending(Direction::Write, mib, Bytes::kib(4), deadline);
        self.state.metadata.push_back(pending);
    }

    fn ask_flush(&mut self) {
        let (done, awaited) = promise();
        self.state.flushes.push_back(done);
        self.flushes.push(awaited);
    }

    fn next(&mut self) -> Did {
        match self.state.choose(&self.profile, self.now) {
            Choice::Start(class, pending) => {
                let started = self.state.started(class, &pending, &self.profile, self.now);
                let mib = pending.offset.0 >> 20;
                self.in_flight.push_back((started, pending.stream));
                match class {
                    Class::Guaranteed => Did::Write(mib),
                    Class::Normal => Did::Read(mib),
                    Class::Latency => Did::Log(mib),
                    Class::Metadata => Did::Metadata(mib),
                    Class::Background => Did::Background(mib),
                }
            }
            Choice::Flush(_) => Did::Flush,
            Choice::Refuse(_) => Did::Refuse,
            Choice::Wait(_) => Did::Wait,
        }
    }

    /// All that is done at once.
    fn all(&mut self) -> Vec<Did> {
        std::iter::from_fn(|| Some(self.next()).filter(|did| *did != Did::Wait)).collect()
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// The oldest I/O under way ends.
    fn end(&mut self) {
        let (started, stream) = self.in_flight.pop_front().expect("something is under way");
        self.state.ended(&started, &Ok(()), self.now);
        if let Some(stream) = stream {
            self.state.streams.ended(stream, self.now);
        }
    }

    fn end_flush(&mut self) {
        self.state.flushed(&Ok(()), self.now);
    }
}

fn after(millis: u64) -> Moment {
    Moment(0) + Duration::from_millis(millis)
}

#[test]
fn readers_have_the_arm_until_what_was_promised_needs_it_and_the_sweep_has_it_until_it_is_durable() {
    let mut rig = Rig::new(true);
    let deadline = rig.now + Duration::from_secs(1);
    (0..4).for_each(|n| rig.write(RING, n, 1000));
    (0..100).for_each(|n| rig.read(1, 1000 + n));
    let (mut reads, mut writes) = (0, 0);
    while writes == 0 {
        match rig.next() {
            Did::Read(_) => reads += 1,
            Did::Write(_) => writes += 1,
            Did::Wait => {
                // A MiB takes 26 ms at 40 MB/s.
                rig.pass(27);
                rig.end();
            }
            did => panic!("{did:?}"),
        }
    }
    // The arm has to come back, and four MiB take 105 ms.
    assert!(rig.now + Duration::from_millis(40 + 105) <= deadline, "the sweep began too late, at {:?}", rig.now);
    assert!(reads >= 20, "readers got {reads} MiB of what fits in most of a second");
    while !rig.in_flight.is_empty() {
        rig.all().iter().for_each(|did| assert!(matches!(did, Did::Write(_)), "{did:?} in the middle of a sweep"));
        rig.pass(27);
        rig.end();
    }
    assert_eq!(rig.next(), Did::Wait, "what is written is not durable yet");
    rig.ask_flush();
    assert_eq!(rig.all(), [Did::Flush]);
    rig.end_flush();
    assert!(matches!(rig.next(), Did::Read(_)));
}

/// A sweep that is under way and has been flushed on its way, with 1 MiB written and the next ones at `following`.
fn flushed_on_the_way(following: &[u64]) -> Rig {
    let mut rig = Rig::new(true);
    rig.write(RING, 0, 100);
    following.iter().for_each(|mib| rig.write(RING, *mib, 100));
    assert_eq!(rig.next(), Did::Write(0));
    rig.pass(27);
    rig.end();
    rig.ask_flush();
    assert_eq!(rig.next(), Did::Flush);
    rig
}

#[test]
fn a_sweep_goes_on_beside_its_flush_for_a_while_where_the_arm_need_not_move() {
    let mut rig = flushed_on_the_way(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let mut beside = Vec::new();
    for _ in 0..20 {
        beside.extend(rig.all());
        rig.pass(27);
        (0..rig.in_flight.len()).for_each(|_| rig.end());
    }
    // 60 ms are reached with the third MiB.
    assert_eq!(beside, [Did::Write(1), Did::Write(2), Did::Write(3)]);
    rig.end_flush();
    // What the flush did not cover takes the platters 79 ms more.
    assert_eq!(rig.next(), Did::Wait);
    rig.pass(79);
    assert_eq!(rig.next(), Did::Write(4));
    assert_eq!(flushed_on_the_way(&[9]).next(), Did::Wait, "the arm moved while the drive emptied its cache");
}

#[test]
fn metadata_rides_in_a_sweep_or_waits_for_a_lull_unless_it_is_hurried_or_out_of_patience() {
    let mut rig = Rig::new(true);
    rig.write(RING, 0, 5000);
    rig.write(RING, 1, 5000);
    assert_eq!(rig.next(), Did::Write(0));
    rig.metadata(500, 1000);
    assert_eq!(rig.next(), Did::Metadata(500), "a sweep that has time takes it along");
    let mut rig = Rig::new(true);
    rig.write(RING, 0, 5000);
    assert_eq!(rig.next(), Did::Write(0));
    rig.pass(27);
    rig.end();
    rig.ask_flush();
    assert_eq!(rig.next(), Did::Flush);
    rig.end_flush();
    rig.metadata(500, 1000);
    assert_eq!(rig.next(), Did::Wait, "another sweep is to come soon");
    rig.pass(999);
    assert_eq!(rig.next(), Did::Wait);
    rig.pass(1);
    assert_eq!(rig.next(), Did::Metadata(500), "out of patience");
    rig.end();
    rig.metadata(600, 1000);
    assert_eq!(rig.next(), Did::Wait);
    rig.state.hurry(Waiting::Ring, true);
    assert_eq!(rig.next(), Did::Metadata(600), "somebody cannot go on before");
    rig.end();
    rig.state.hurry(Waiting::Ring, true);
    rig.state.hurry(Waiting::Ring, false);
    rig.metadata(650, 1000);
    assert_eq!(rig.next(), Did::Metadata(650), "one of two cannot go on yet");
    rig.end();
    rig.state.hurry(Waiting::Ring, false);
    rig.metadata(700, 10_000);
    rig.pass(1500);
    assert_eq!(rig.next(), Did::Metadata(700), "nothing was written for a while");
}

#[test]
fn while_a_ring_needs_metadata_in_time_it_waits_no_longer_than_that_and_others_leave_it_the_time() {
    let expected = Expected { rate: Rate::mb(10), ..Expected::NOTHING };
    // How long before the latest start of a sweep it begins, where readers want all they can have.
    let spared = |needed| {
        let mut rig = Rig::new(true);
        rig.state.expected.insert(RING, expected);
        rig.state.need(needed, rig.now + Duration::from_millis(370));
        let latest = rig.now + Duration::from_millis(1000 - 40 - 105);
        (0..4).for_each(|n| rig.write(RING, n, 1000));
        (0..100).for_each(|n| rig.read(1, 1000 + n));
        loop {
            match rig.next() {
                Did::Read(_) => {}
                Did::Write(_) => break latest.since(rig.now),
                Did::Wait => {
                    rig.pass(27);
                    rig.end();
                }
                did => panic!("{did:?}"),
            }
        }
    };
    let (needed, not) = (spared(true), spared(false));
    assert!(needed >= not + Duration::from_millis(220) && not < Duration::from_millis(200), "{needed:?} and {not:?}");

    let mut rig = Rig::new(true);
    rig.state.expected.insert(RING, expected);
    rig.write(RING, 0, 1000);
    while rig.next() != Did::Write(0) {
        rig.pass(10);
    }
    rig.pass(27);
    rig.end();
    rig.ask_flush();
    assert_eq!(rig.next(), Did::Flush);
    rig.end_flush();
    rig.metadata(500, 2000);
    assert_eq!(rig.next(), Did::Wait, "only others wait for it, and another sweep is to come");
    rig.state.need(true, rig.now + Duration::from_millis(370));
    rig.pass(369);
    assert_eq!(rig.next(), Did::Wait);
    rig.pass(1);
    assert_eq!(rig.next(), Did::Metadata(500), "a ring reckons with it");
}

#[test]
fn what_a_drive_owes_is_owed_until_a_flush_and_metadata_of_others_waits_for_a_promise_to_have_time() {
    let mut rig = Rig::new(true);
    let expected = Expected { rate: Rate::mb(10), ..Expected::NOTHING };
    rig.state.expected.insert(RING, expected);
    rig.state.hurry(Waiting::Objects, true);
    (0..60).for_each(|n| rig.metadata(500 * (n % 20), 1000));
    rig.write(RING, 0, 1000);
    let mut written = 0;
    while let Did::Metadata(_) = rig.next() {
        rig.end();
        written += 1;
    }
    // Each takes the arm up to 40 ms, out of a second in which the ring's write has to be durable.
    assert!((5..60).contains(&written), "{written} written");
    let owed = |rig: &Rig| rig.state.owed_until.since(rig.now);
    let before = owed(&rig);
    assert!(before > Duration::from_millis(200), "{before:?} owed");
    rig.state.hurry(Waiting::Ring, true);
    assert!(matches!(rig.next(), Did::Metadata(_)), "one that a ring waits for asks for no time");
    rig.end();
    rig.state.hurry(Waiting::Ring, false);
    let before = owed(&rig);
    while rig.next() != Did::Wait {
        rig.end();
        assert!(owed(&rig) >= before, "a sweep works off nothing of it");
    }
    rig.ask_flush();
    while rig.next() != Did::Flush {
        rig.end();
    }
    rig.end_flush();
    assert_eq!(owed(&rig), Duration::ZERO, "a flush has written it");
}

#[test]
fn flash_writes_at_once_and_reads_only_while_little_is_owed() {
    let mut rig = Rig::new(false);
    rig.read(1, 1000);
    rig.write(RING, 0, 1000);
    assert_eq!(rig.all(), [Did::Read(1000), Did::Write(0)]);
    // 40 MiB take 0.42 s, count twice as owed and twice as arriving, and are due in a second.
    (1..8).for_each(|n| rig.write(RING, n, 1000));
    assert_eq!(rig.all().len(), 7);
    (8..41).for_each(|n| rig.write(RING, n, 1000));
    rig.read(1, 1001);
    assert_eq!(rig.next(), Did::Wait, "as much as devices take is under way, and no slack is left for a read");
    while let Some(did) = Some(rig.next()).filter(|_| !rig.in_flight.is_empty()) {
        assert!(!matches!(did, Did::Read(_)), "a read went before what is owed");
        if did == Did::Wait {
            rig.end();
        }
    }
    assert_eq!(rig.next(), Did::Wait, "a drive's cache has it, and the drive owes it");
    rig.ask_flush();
    assert_eq!(rig.next(), Did::Flush);
    rig.end_flush();
    assert_eq!(rig.next(), Did::Read(1001));
}

#[test]
fn two_rings_are_written_in_runs_unless_one_becomes_urgent() {
    let mut rig = Rig::new(true);
    for n in 0..3 {
        rig.write(RING, n, 400);
        rig.write(OTHER, 2000 + n, 450);
    }
    let mut order = Vec::new();
    for _ in 0..50 {
        order.extend(rig.all());
        rig.pass(27);
        (0..rig.in_flight.len()).for_each(|_| rig.end());
    }
    let expected = [0, 1, 2, 2000, 2001, 2002].map(Did::Write);
    assert_eq!(order, expected, "each change of place costs two positionings");
    let mut rig = Rig::new(true);
    (0..20).for_each(|n| rig.write(RING, n, 400));
    assert_eq!(rig.next(), Did::Write(0));
    rig.write(OTHER, 2000, 60);
    rig.pass(27);
    assert_eq!(rig.next(), Did::Write(2000), "its deadline comes before the rest");
}

#[test]
fn what_is_still_to_arrive_is_part_of_how_long_a_sweep_takes() {
    let slack_of = |expected: Option<Expected>| {
        let mut rig = Rig::new(true);
        (0..4).for_each(|n| rig.write(RING, n, 1000));
        if let Some(expected) = expected {
            rig.state.expected.insert(RING, expected);
        }
        super::slack::slack(&rig.state, &rig.profile, rig.now)
    };
    let expected = |rate| Expected { rate: Rate::mb(rate), run: Bytes::mib(64), lag: Duration::from_secs(1) };
    let (none, half, nearly) = (slack_of(None), slack_of(Some(expected(20))), slack_of(Some(expected(38))));
    // 4 MiB take 105 ms, of which 30 run ahead; twice as long while half the rate arrives, but for a first flush that
    // comes after 125 ms.
    assert!(none > half, "{none:?} {half:?}");
    assert!(nearly <= half, "{half:?} {nearly:?}");
    assert!(half >= Duration::from_millis(1000 - 40 - 150), "{half:?}");
}

#[test]
fn what_nobody_wants_any_more_is_not_read() {
    let mut rig = Rig::new(true);
    rig.read(1, 10);
    rig.read(1, 11);
    // Whoever asked first is gone.
    drop(rig.awaited.remove(0));
    assert_eq!(rig.all(), [Did::Refuse, Did::Read(11)]);
}

#[test]
fn streams_take_turns_with_slices_and_a_new_one_comes_next_with_a_short_one() {
    let mut rig = Rig::new(true);
    (0..160).for_each(|n| rig.read(1, n));
    let mut order = Vec::new();
    while order.len() < 243 {
        let Did::Read(mib) = rig.next() else {
            rig.pass(27);
            (0..rig.in_flight.len().min(1)).for_each(|_| rig.end());
            continue;
        };
        order.push(mib);
        if order.len() == 10 {
            (0..80).for_each(|n| rig.read(2, 5000 + n));
        }
        if order.len() == 80 {
            (0..2).for_each(|n| rig.read(3, 9000 + n));
            rig.read(4, 9500);
        }
    }
    let turns: Vec<(u64, usize)> = order.chunk_by(|a, b| a + 1 == *b).map(|turn| (turn[0], turn.len())).collect();
    let expected = [(0, 68), (5000, 4), (68, 64), (9000, 2), (9500, 1), (5004, 64), (132, 28), (5068, 12)];
    assert_eq!(turns, expected);
}

#[test]
fn turns_are_short_where_the_arm_leaves_for_sweeps_after_little_and_long_where_it_does_not() {
    let turns = |swept: &[Option<Bytes>]| {
        let mut rig = Rig::new(true);
        swept.iter().for_each(|had| rig.state.streams.swept(*had));
        (0..200).for_each(|n| [1, 2].into_iter().for_each(|stream| rig.read(stream, stream * 5000 + n)));
        let mut order = Vec::new();
        while order.len() < 200 {
            match rig.next() {
                Did::Read(mib) => order.push(mib),
                _ => rig.end(),
            }
        }
        order.chunk_by(|a, b| a + 1 == *b).map(<[u64]>::len).max().expect("there are some")
    };
    let little = Some(Bytes::mib(6));
    assert_eq!(turns(&[]), 64);
    // Of what was done before the last sweep at least half counts: one that called early says little.
    assert_eq!(turns(&[little]), 64);
    assert_eq!(turns(&[little, little, little, little]), 12);
    assert_eq!(turns(&[Some(Bytes::ZERO); 9]), 8);
    assert_eq!(turns(&[little, little, little, little, None]), 64);
}

#[test]
fn a_short_pause_keeps_the_turn() {
    let mut rig = Rig::new(true);
    rig.read(1, 0);
    assert_eq!(rig.next(), Did::Read(0));
    rig.end();
    rig.read(2, 5000);
    assert_eq!(rig.next(), Did::Wait, "the first may ask for more in a moment");
    rig.read(1, 1);
    assert_eq!(rig.next(), Did::Read(1));
    rig.end();
    rig.pass(3);
    assert_eq!(rig.next(), Did::Read(5000));
}

#[test]
fn after_a_failure_reads_have_all_the_time_and_say_nothing_of_deadlines() {
    let mut rig = Rig::new(true);
    rig.write(RING, 0, 100);
    assert_eq!(rig.next(), Did::Write(0));
    let (started, _) = rig.in_flight.pop_front().unwrap();
    rig.state.ended(&started, &Err(Error::device("broken")), rig.now);
    let told = rig.state.failed.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(told.contains("broken") && told.contains("open the target again"), "{told}");
    assert_eq!(super::slack::slack(&rig.state, &rig.profile, rig.now), Duration::MAX);
}

impl Rig {
    fn background(&mut self, mib: u64, length: Bytes) {
        let pending = self.pending(Direction::Read, mib, length, Moment(u64::MAX));
        self.state.background.push_back(pending);
    }

    fn read_of(&mut self, stream: u64, mib: u64, length: Bytes) {
        let pending = self.pending(Direction::Read, mib, length, Moment(u64::MAX));
        let stream = StreamId(stream);
        self.state.streams.push(stream, Pending { stream: Some(stream), ..pending }, self.profile.rotates);
    }
}

#[test]
fn what_is_read_and_written_is_counted_for_its_class() {
    let mut rig = Rig::new(true);
    rig.write(RING, 0, 1000);
    rig.read(1, 10);
    rig.background(20, Bytes::mib(4));
    for _ in 0..10 {
        rig.all();
        while !rig.in_flight.is_empty() {
            rig.end();
        }
        rig.pass(1000);
    }
    let moved = |class: Class| (rig.state.moved[class as usize].read, rig.state.moved[class as usize].written);
    let read = rig.state.counters.normal;
    assert_eq!(moved(Class::Guaranteed), (Bytes::ZERO, Bytes::mib(1)));
    assert_eq!(moved(Class::Normal), (read, Bytes::ZERO));
    assert!(read > Bytes::ZERO);
    assert_eq!(moved(Class::Background), (Bytes::mib(4), Bytes::ZERO));
    assert_eq!(moved(Class::Metadata), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn what_nobody_waits_for_begins_when_nothing_else_was_done_for_a_while() {
    for rotates in [true, false] {
        let mut rig = Rig::new(rotates);
        rig.read(1, 10);
        assert_eq!(rig.all(), [Did::Read(10)]);
        (20..24).for_each(|mib| rig.background(mib, Bytes::mib(1)));
        rig.pass(1);
        // Its share of the time is due after a start: then it waits for quiet, or for the next one.
        rig.state.choose(&rig.profile.clone(), rig.now);
        rig.end();
        rig.pass(100);
        let begun = rig.all().len();
        assert!((1..=2).contains(&begun), "{begun} at once");
        let mut ended = begun;
        while !rig.in_flight.is_empty() {
            rig.pass(30);
            rig.end();
            ended += rig.all().len();
        }
        assert!(ended >= 3, "the rest follows at once: {ended}");
    }
}

#[test]
fn what_nobody_waits_for_gets_a_small_share_beside_readers_and_not_less() {
    for rotates in [true, false] {
        let mut rig = Rig::new(rotates);
        (0..1000).for_each(|n| rig.background(10_000 + n, Bytes::kib(512)));
        let (mut reads, mut others) = (0, 0);
        for n in 0..2000 {
            rig.read(1, n);
            for did in rig.all() {
                match did {
                    Did::Read(_) => reads += 1,
                    Did::Background(_) => others += 1,
                    did => panic!("{did:?}"),
                }
            }
            rig.pass(10);
            // The device keeps up, however much it may have at once.
            (0..rig.in_flight.len()).for_each(|_| rig.end());
        }
        // Half a MiB takes 13 ms and up to 40 ms of seek, or 5 ms; of 20 s one part in 32 is for that.
        let due = if rotates { 11..=48 } else { 100..=125 };
        assert!(reads >= 1900 && due.contains(&others), "rotates {rotates}: {reads} reads beside {others}");
    }
}

#[test]
fn what_waits_for_quiet_has_no_share_beside_readers_and_keeps_nothing_from_its_own() {
    for rotates in [true, false] {
        let mut rig = Rig::new(rotates);
        let pending = rig.pending(Direction::Read, 9000, Bytes::kib(512), Moment(u64::MAX));
        rig.state.when_quiet.push_back(pending);
        let mut others = 0;
        for n in 0..2000 {
            if n == 1000 {
                rig.background(10_000, Bytes::kib(512));
            }
            rig.read(1, n);
            others += rig.all().into_iter().filter(|did| *did == Did::Background(10_000)).count();
            assert_eq!(rig.state.when_quiet.len(), 1, "rotates {rotates}: begun beside read {n}");
            rig.pass(10);
            (0..rig.in_flight.len()).for_each(|_| rig.end());
        }
        assert_eq!(others, 1, "rotates {rotates}");
        rig.pass(100);
        assert_eq!(rig.all(), [Did::Background(9000)], "rotates {rotates}");
    }
}

#[test]
fn what_nobody_waits_for_never_takes_slack_that_a_promise_needs() {
    for rotates in [true, false] {
        let mut rig = Rig::new(rotates);
        // 500 ms of writes within 560 ms: 4 MiB at 40 or 100 MB/s do not fit beside them.
        let mib = if rotates { 19 } else { 21 };
        (0..mib).for_each(|n| rig.write(RING, n, 560));
        rig.background(10_000, Bytes::mib(4));
        let mut written = 0;
        while written < mib {
            for did in rig.all() {
                match did {
                    Did::Write(_) => written += 1,
                    did => panic!("rotates {rotates}: {did:?} after {written} of {mib}"),
                }
            }
            rig.pass(27);
            if !rig.in_flight.is_empty() {
                rig.end();
            }
        }
    }
}

#[test]
fn streams_get_equal_bytes_whatever_they_ask_for_at_once() {
    for rotates in [true, false] {
        let mut rig = Rig::new(rotates);
        let sizes = [Bytes::kib(64), Bytes::kib(768), Bytes::mib(3)];
        let mut got = [0; 3];
        for round in 0..40_000 {
            for (stream, size) in (0..).zip(sizes) {
                if round % (size / Bytes::kib(64)) == 0 {
                    rig.read_of(stream, 1000 * stream, size);
                }
            }
        }
        while got.iter().sum::<u64>() < Bytes::mib(2000).0 {
            for did in rig.all() {
                assert!(matches!(did, Did::Read(_)), "{did:?}");
            }
            let (started, stream) = rig.in_flight.front().expect("something is under way");
            got[stream.expect("it is a stream's").0 as usize] += started.length().0;
            rig.pass(1);
            rig.end();
        }
        let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
        let slice = if rotates { Bytes::mib(67) } else { Bytes::mib(4) };
        assert!(most - least <= slice.0, "rotates {rotates}: {got:?}");
    }
}

#[test]
fn a_stream_that_ends_is_forgotten_when_what_it_asked_for_has_ended() {
    let mut rig = Rig::new(false);
    rig.read(1, 10);
    rig.all();
    rig.read(1, 11);
    rig.state.streams.end(StreamId(1));
    rig.all();
    rig.end();
    assert_eq!(rig.state.streams.len(), 1);
    rig.end();
    assert_eq!(rig.state.streams.len(), 0);
}

#[test]
fn the_next_record_and_what_is_written_home_go_out_beside_a_flush_unless_something_is_promised() {
    let mut rig = Rig::new(true);
    rig.ask_flush();
    assert_eq!(rig.all(), [Did::Flush]);
    rig.log(7);
    assert_eq!(rig.all(), [Did::Log(7)]);
    rig.end();
    rig.normal(Direction::Write, 1, 50);
    assert_eq!(rig.all(), [Did::Read(50)], "it is normal I/O");
    rig.read(1, 60);
    assert_eq!(rig.all(), [], "a long read would hold up the flush");
    rig.end();
    rig.end_flush();
    assert_eq!(rig.all(), [Did::Read(60)]);
    rig.end();
    let expected = Expected { rate: Rate::mb(1), run: Bytes::mib(64), lag: Duration::from_secs(1) };
    rig.state.expected.insert(RING, expected);
    rig.ask_flush();
    assert_eq!(rig.all(), [Did::Flush]);
    rig.log(8);
    rig.normal(Direction::Write, 1, 70);
    assert_eq!(rig.all(), [], "a ring's flush is not to last longer");
    rig.end_flush();
    assert_eq!(rig.all()[0], Did::Log(8));
}

#[test]
fn small_reads_pass_large_writes_of_their_stream_but_not_for_ever() {
    let mut rig = Rig::new(true);
    (0..3).for_each(|n| rig.normal(Direction::Write, 1, 100 + n));
    (0..40).for_each(|n| rig.normal(Direction::Read, 1, n));
    let mut order = Vec::new();
    while order.len() < 43 {
        order.extend(rig.all());
        rig.end();
    }
    let places: Vec<usize> = (100..103).filter_map(|mib| order.iter().position(|did| *did == Did::Read(mib))).collect();
    assert_eq!(places, [16, 33, 42]);
    // Reads keep their order: one that is long is not passed.
    rig.normal(Direction::Write, 1, 200);
    rig.read(1, 201);
    rig.normal(Direction::Read, 1, 202);
    let mut order = Vec::new();
    while order.len() < 3 {
        order.extend(rig.all());
        rig.end();
    }
    assert_eq!(order, [200, 201, 202].map(Did::Read));
}

/// MiB that eight readers who always want more get until a stream has had 64 that it asked for.
fn before_others_had_64(hastened: bool, every_turn: bool) -> usize {
    let mut rig = Rig::new(true);
    (1..=8).for_each(|stream| (0..3).for_each(|n| rig.read(stream, stream * 10_000 + n)));
    (0..64).for_each(|n| rig.read(9, 90_000 + n));
    rig.state.streams.hasten(hastened.then_some(StreamId(9)), every_turn);
    let (mut others, mut own) = (0, 0);
    while own < 64 {
        for did in rig.all() {
            let Did::Read(mib) = did else { panic!("{did:?}") };
            if mib >= 90_000 {
                own += 1;
            } else {
                others += 1;
                rig.read(mib / 10_000, mib + 3);
            }
        }
        rig.end();
    }
    others
}

#[test]
fn a_stream_for_which_others_wait_has_every_second_turn_and_these_are_short() {
    let (hastened, usual) = (before_others_had_64(true, false), before_others_had_64(false, false));
    assert!((24..=80).contains(&hastened), "{hastened} MiB");
    assert!(usual > 400, "{usual} MiB");
    let every_turn = before_others_had_64(true, true);
    assert!(every_turn < 16, "{every_turn} MiB");
}

#[test]
fn a_ring_without_a_promise_has_turns_alone_as_long_as_another_one_has_one() {
    let expected = |rate| Expected { rate, ..Expected::NOTHING };
    let mut rig = Rig::new(true);
    rig.state.expected.insert(RING, expected(Rate(0)));
    let push = |rig: &mut Rig, mib| {
        let deadline = rig.now + Duration::from_millis(900);
        let pending = rig.pending(Direction::Write, mib, Bytes::mib(1), deadline);
        rig.state.push_of_ring(RING, pending, true);
    };
    rig.ask_flush();
    assert_eq!(rig.next(), Did::Flush);
    push(&mut rig, 1);
    assert_eq!(rig.next(), Did::Wait);
    rig.state.flushed(&Ok(()), rig.now);
    // It waited for the flush with a deadline, and has turns from now on, all in their order.
    rig.state.expected.insert(OTHER, expected(Rate::mb(10)));
    push(&mut rig, 2);
    assert_eq!(rig.all(), [Did::Read(1), Did::Read(2)]);
    while rig.in_flight.front().is_some() {
        rig.end();
    }
    // That it had turns before keeps nobody waiting.
    rig.pass(10);
    rig.read(7, 500);
    assert_eq!(rig.next(), Did::Read(500));
    rig.end();
    push(&mut rig, 3);
    rig.state.expected.remove(&OTHER);
    rig.state.see_promises();
    rig.pass(100);
    assert_eq!(rig.next(), Did::Write(3));
}
