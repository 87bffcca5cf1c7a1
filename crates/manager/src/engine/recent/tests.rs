use super::{LARGEST, MOST, Recent};
use crate::engine::conformance::{put, transaction};
use crate::engine::{Engine, Memory, Snapshot};
use crate::seeds::each;

#[test]
fn it_answers_as_the_snapshot_below_it_and_keeps_no_more_than_it_may() {
    each(3, |chance| {
        let mut engine = Memory::new();
        let key = |number: u64| number.to_be_bytes().to_vec();
        for first in (0..8000).step_by(100) {
            let value = || vec![7; chance.below(2 * LARGEST as u64) as usize];
            let writes = (first..first + 100).step_by(2).map(|number| put(&key(number), &value())).collect();
            engine.commit(&[transaction(vec![], writes)]).unwrap();
        }
        let plain = engine.snapshot().unwrap();
        let recent = Recent::new(engine.snapshot().unwrap());
        // What is committed later is not in a snapshot, whether it was asked before or not.
        engine.commit(&[transaction(vec![], vec![put(&key(1), b"later"), put(&key(2), b"later")])]).unwrap();
        for _ in 0..30_000 {
            let key = key(chance.below(8000) >> chance.below(12));
            assert_eq!(recent.get(&key).unwrap(), plain.get(&key).unwrap());
            assert!(recent.known.borrow().len() <= MOST);
        }
        assert_eq!(recent.scan(&key(0), &key(99), 9).unwrap(), plain.scan(&key(0), &key(99), 9).unwrap());
        assert!(recent.known.borrow().values().flatten().all(|value| value.len() <= LARGEST));
    });
}
