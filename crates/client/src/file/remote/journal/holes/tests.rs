use super::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

const SIZE: u64 = (1 << 30) + 512;
const LAST: u64 = SIZE / BLOCK;
/// As many blocks as one look has.
const LOOK: u64 = MOST_AT_ONCE.0 / BLOCK;

/// A journal of which blocks are taken.
#[derive(Default)]
struct Journal {
    taken: BTreeSet<u64>,
    /// Blocks of zeros that take space.
    zeros: u64,
    version: u64,
    /// What is settled as soon as it was said what the journal takes, one set each time.
    settled: Vec<BTreeSet<u64>>,
    /// Who answers what is read.
    by: u32,
    /// What was read.
    reads: Vec<(u64, u64)>,
}

impl Journal {
    fn of(taken: impl IntoIterator<Item = u64>) -> Journal {
        Journal { taken: taken.into_iter().collect(), ..Journal::default() }
    }

    /// What is said of it at this moment.
    fn extent(&mut self) -> Extent<u32> {
        let used = Bytes((self.taken.len() as u64 + self.zeros) * BLOCK);
        let extent = Extent { by: 0, size: SIZE, used, version: self.version };
        if let Some(settled) = self.settled.pop() {
            self.taken.retain(|block| !settled.contains(block));
            self.version += 1;
        }
        extent
    }

    fn read(&mut self, at: u64, length: u64) -> (Slice, Option<u32>) {
        assert!(at.is_multiple_of(BLOCK) && at + length <= SIZE && length <= MOST_AT_ONCE.0, "{at} {length}");
        self.reads.push((at, length));
        let mut bytes = vec![0; length as usize];
        for block in self.taken.range(at / BLOCK..(at + length).div_ceil(BLOCK)) {
            // One byte of each, somewhere.
            let within = (block * BLOCK - at + block * 37 % 512) as usize;
            bytes[within] = 1;
        }
        (bytes.into(), Some(self.by))
    }

    /// Where something begins, and how many bytes were read for that.
    fn passed(self, known: u64) -> (u64, u64) {
        let found = forebay_env::real::run_network(move |_| async move {
            let journal = RefCell::new(self);
            let extent = async || -> Result<Option<Extent<u32>>> { Ok(Some(journal.borrow_mut().extent())) };
            let read = async |at: u64, length: u64| -> Result<(Slice, Option<u32>)> {
                Ok(journal.borrow_mut().read(at, length))
            };
            let passed = passed(known, 0, extent, read).await.expect("nothing fails");
            let read = journal.borrow().reads.iter().map(|(_, length)| length).sum::<u64>();
            (passed, read)
        });
        found.expect("a loop")
    }
}

#[test]
fn of_a_long_journal_in_which_nothing_is_left_nothing_is_read() {
    assert_eq!(Journal::default().passed(65536), (LAST * BLOCK, 0));
}

#[test]
fn what_is_left_near_the_end_is_found_there_and_nothing_before_it_is_read() {
    let near = 64 << 10;
    for (taken, begins, looked) in [
        (vec![LAST], LAST, near),
        (vec![LAST - 3, LAST - 9], LAST - 9, near),
        (vec![LAST - 20, LAST], LAST - 20, near + MOST_AT_ONCE.0),
        (vec![LAST - LOOK], LAST - LOOK, near + MOST_AT_ONCE.0),
    ] {
        let (passed, read) = Journal::of(taken.clone()).passed(65536);
        assert_eq!(passed, begins * BLOCK, "{taken:?}");
        assert!(read <= looked + BLOCK, "{taken:?}: {read}");
    }
}

#[test]
fn what_is_not_found_near_the_end_is_looked_for_from_where_nothing_is_known() {
    // Far from the end, and what takes space although it has only zeros, as a part of an intent may.
    for journal in [Journal::of([17, LAST]), Journal { zeros: 1, ..Journal::of([LAST]) }] {
        let (passed, read) = journal.passed(65536);
        assert_eq!(passed, 65536);
        assert!(read <= 2 * MOST_AT_ONCE.0, "it is looked at once, as nobody changed it: {read}");
    }
    // By somebody else than what was known: the target was opened again meanwhile.
    assert_eq!(Journal { by: 1, ..Journal::of([LAST]) }.passed(65536).0, 65536);
}

#[test]
fn what_others_settle_meanwhile_takes_nothing_from_what_is_found() {
    // Of four blocks that it took one is gone when it is looked at: it is looked at again.
    let settled = |times: u64| (0..times).map(|n| BTreeSet::from([LAST - 5 - n])).collect();
    let taken = || (LAST - 12..LAST).step_by(2).chain([LAST - 5, LAST - 6, LAST - 7, LAST - 8]);
    assert_eq!(Journal { settled: settled(1), ..Journal::of(taken()) }.passed(65536).0, (LAST - 12) * BLOCK);
    // Where that does not end, all is read.
    assert_eq!(Journal { settled: settled(4), ..Journal::of(taken()) }.passed(65536).0, 65536);
    // What is far from the end is never passed over, whatever is settled.
    let far = || [17].into_iter().chain(taken());
    assert_eq!(Journal { settled: settled(2), ..Journal::of(far()) }.passed(65536).0, 65536);
}

#[test]
fn behind_what_is_known_only_that_is_looked_at_and_what_is_left_before_it_does_not_count() {
    let known = SIZE - MOST_AT_ONCE.0 - BLOCK;
    let (passed, read) = Journal::of([17, LAST - 40]).passed(known);
    assert_eq!((passed, read < MOST_AT_ONCE.0 + 3 * BLOCK), ((LAST - 40) * BLOCK, true));
    // What one read has is read once.
    assert_eq!(Journal::of([17, LAST - 40]).passed(SIZE - MOST_AT_ONCE.0), (SIZE - MOST_AT_ONCE.0, 0));
}
