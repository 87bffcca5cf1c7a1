use super::*;
use forebay_model::Timestamp;
use std::future::Future;
use std::pin::Pin;

const ALL: Bytes = Bytes::kib(192);

/// Time that the test moves.
#[derive(Default)]
pub(in crate::network) struct Hand(pub(in crate::network) Cell<Moment>);

impl Clock for Hand {
    fn now(&self) -> Moment {
        self.0.get()
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep_until(&self, _: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

/// A connection whose client sends as much as it may.
struct Writer {
    window: Window,
    came: u64,
}

impl Writer {
    fn new(intake: &Rc<Intake>) -> Writer {
        Writer { window: intake.window(FrameSink::default(), false), came: 0 }
    }

    fn under_way(&self) -> u64 {
        self.window.edge.get() - self.came
    }

    fn come(&mut self, bytes: u64) {
        assert!(bytes <= self.under_way());
        self.came += bytes;
        self.window.came(self.came);
    }
}

fn intake() -> (Rc<Intake>, Rc<Hand>) {
    let clock = Rc::new(Hand(Cell::new(Moment(1))));
    (Intake::new(ALL, clock.clone()), clock)
}

/// splitmix64
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

#[test]
fn what_all_may_send_together_fits_the_port_however_many_write_and_nobody_waits_for_another() {
    for seed in 1..100 {
        let mut state = seed;
        let (intake, _) = intake();
        let count = 1 + next(&mut state) % 40;
        let mut writers: Vec<Writer> = (0..count).map(|_| Writer::new(&intake)).collect();
        writers.iter().for_each(|writer| writer.window.begins(1 << 20));
        for writer in &mut writers {
            // What it may send from the start, which nobody has shared out.
            writer.come(OPENING);
        }
        for step in 0..2000 {
            let together: u64 = writers.iter().map(Writer::under_way).sum();
            assert!(together <= ALL.0.max(count * LEAST), "{together} of {count} after {step} steps, seed {seed}");
            let writer = &mut writers[(next(&mut state) % count) as usize];
            let bytes = 1 + next(&mut state) % writer.under_way();
            writer.come(bytes);
            assert!(writer.under_way() > 0, "it may send more, whatever others do");
        }
    }
}

#[test]
fn who_has_written_gives_its_share_back_a_little_later_or_when_its_connection_ends() {
    let (intake, clock) = intake();
    let mut writers: Vec<Writer> = (0..3).map(|_| Writer::new(&intake)).collect();
    writers.iter().for_each(|writer| writer.window.begins(1 << 20));
    assert_eq!(intake.share(), ALL.0 / 4);
    writers[0].window.ends();
    assert_eq!(intake.share(), ALL.0 / 4, "it soon has more");
    clock.0.set(clock.0.get() + PAUSE + Duration::from_nanos(1));
    assert_eq!(intake.share(), ALL.0 / 3);
    drop(writers.pop());
    assert_eq!(intake.share(), ALL.0 / 2);
    writers[1].come(OPENING);
    assert_eq!(writers[1].under_way(), ALL.0 / 2);
}

#[test]
fn small_requests_take_no_share_and_are_let_come_without_end() {
    let (intake, _) = intake();
    let mut writer = Writer::new(&intake);
    for _ in 0..10_000 {
        writer.window.begins(4096);
        writer.come(4200);
        writer.window.ends();
    }
    assert_eq!(intake.share(), ALL.0);
    assert!(writer.under_way() >= OPENING / 2);
}

#[test]
fn who_does_not_write_and_has_a_small_share_is_not_told_of_each_piece_that_comes() {
    let (intake, _) = intake();
    let writing: Vec<Writer> = (0..30).map(|_| Writer::new(&intake)).collect();
    writing.iter().for_each(|one| one.window.begins(1 << 20));
    let share = intake.share();
    assert!(share < OPENING);
    let mut small = Writer::new(&intake);
    let (mut told, mut edge) = (0, small.window.edge.get());
    let pieces = (OPENING + 8 * share) / 512;
    for _ in 0..pieces {
        small.come(512);
        told += u64::from(small.window.edge.get() != edge);
        edge = small.window.edge.get();
    }
    assert!((8..=20).contains(&told), "{told} times for {pieces} pieces");
}

#[test]
fn who_is_on_this_machine_sends_more_at_once_and_takes_nothing_from_those_behind_the_port() {
    let (intake, _clock) = intake();
    let mut near = Writer { window: intake.window(FrameSink::default(), true), came: 0 };
    let mut far = Writer::new(&intake);
    for writer in [&mut near, &mut far] {
        writer.window.begins(1 << 20);
        writer.come(writer.under_way());
    }
    assert_eq!((near.under_way(), far.under_way()), (NEAR, ALL.0 / 2));
    near.window.ends();
    far.come(far.under_way());
    assert_eq!(far.under_way(), ALL.0 / 2);
}
