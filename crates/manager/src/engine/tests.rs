//! Every engine does the same.

use super::conformance::{self, Plain, by_chance};
use super::{Condition, Engine, Memory, Redb, Transaction, Write};
use crate::seeds::each;
use forebay_model::Bytes;

fn redb() -> Redb {
    Redb::on(redb::backends::InMemoryBackend::new(), Bytes::mib(4)).unwrap()
}

#[test]
fn memory_does_what_every_engine_does() {
    conformance::all(&|| Box::new(Memory::new()));
}

#[test]
fn redb_does_what_every_engine_does() {
    conformance::all(&|| Box::new(redb()));
}

#[test]
fn engines_do_the_same_as_a_plain_map_whatever_is_asked() {
    each(20, |chance| {
        let mut engines: [Box<dyn Engine>; 2] = [Box::new(Memory::new()), Box::new(redb())];
        let mut plain = Plain { map: Default::default() };
        for _ in 0..60 {
            let group = by_chance(chance);
            let outcomes = plain.commit(&group);
            for engine in &mut engines {
                assert_eq!(engine.commit(&group).unwrap(), outcomes);
                assert_eq!(engine.snapshot().unwrap().scan(b"", b"\xff", 99).unwrap(), plain.pairs());
            }
        }
    });
}

#[test]
fn a_crash_leaves_the_first_transactions_of_a_commit_and_kills_what_was_open() {
    let engine = Memory::new();
    let group: Vec<_> =
        [b"a", b"b", b"c"].map(|key| conformance::transaction(vec![], vec![conformance::put(key, b"")])).into();
    let mut open = engine.clone();
    open.commit(&group[..1]).unwrap();
    engine.crash_at(0, 1);
    open.commit(&group[1..]).unwrap_err();
    open.commit(&group).unwrap_err();
    assert!(open.snapshot().is_err());
    let after = engine.reopened();
    assert_eq!(after.snapshot().unwrap().scan(b"", b"z", 9).unwrap().len(), 2);
    assert_eq!(engine.commits(), 2);
}

#[test]
fn values_are_in_no_message() {
    let (key, value) = (b"K1".to_vec(), vec![200, 201, 202]);
    let conditions = vec![Condition::Is(key.clone(), value.clone()), Condition::Absent(key.clone())];
    let writes = vec![Write { key: key.clone(), value: Some(value) }, Write { key, value: None }];
    let shown = format!("{:?}", Transaction { conditions, writes });
    assert!(shown.contains("K1, 3 bytes") && shown.contains("Delete(K1)"), "{shown}");
    assert!(!shown.contains("200") && !shown.contains("c8"), "{shown}");
}
