//! What every engine is held to. Each is made anew for each demand.

use super::{Condition, Engine, MOST_OPERATIONS, Outcome, Pair, Transaction, Write};
use crate::seeds::Chance;
use forebay_model::Kind;
use std::collections::BTreeMap;

pub(crate) fn put(key: &[u8], value: &[u8]) -> Write {
    Write { key: key.to_vec(), value: Some(value.to_vec()) }
}

pub(crate) fn delete(key: &[u8]) -> Write {
    Write { key: key.to_vec(), value: None }
}

pub(crate) fn transaction(conditions: Vec<Condition>, writes: Vec<Write>) -> Transaction {
    Transaction { conditions, writes }
}

fn absent(key: &[u8]) -> Condition {
    Condition::Absent(key.to_vec())
}

fn is(key: &[u8], value: &[u8]) -> Condition {
    Condition::Is(key.to_vec(), value.to_vec())
}

/// All of it.
pub(crate) fn all(make: &dyn Fn() -> Box<dyn Engine>) {
    what_is_put_is_there_and_what_is_deleted_is_not(&mut *make());
    a_transaction_takes_effect_only_if_all_of_its_conditions_hold(&mut *make());
    each_transaction_of_a_group_sees_those_before_it(&mut *make());
    a_snapshot_stays_as_it_is(&mut *make());
    a_scan_is_in_order_and_bounded(&mut *make());
    what_is_too_large_is_refused_and_does_nothing(&mut *make());
}

fn what_is_put_is_there_and_what_is_deleted_is_not(engine: &mut dyn Engine) {
    let writes = vec![put(b"a", b"1"), put(b"b", b""), put(b"", b"empty key")];
    assert_eq!(engine.commit(&[transaction(vec![], writes)]).unwrap(), [Outcome::Committed]);
    let view = engine.snapshot().unwrap();
    assert_eq!(view.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(view.get(b"b").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(view.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(view.get(b"c").unwrap(), None);
    drop(view);
    engine.commit(&[transaction(vec![], vec![delete(b"a"), delete(b"not there"), put(b"b", b"2")])]).unwrap();
    let view = engine.snapshot().unwrap();
    assert_eq!(view.get(b"a").unwrap(), None);
    assert_eq!(view.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(engine.commit(&[]).unwrap(), []);
}

fn a_transaction_takes_effect_only_if_all_of_its_conditions_hold(engine: &mut dyn Engine) {
    let mut outcome = |conditions: Vec<Condition>, key: &[u8]| {
        engine.commit(&[transaction(conditions, vec![put(key, b"new")])]).unwrap()[0]
    };
    assert_eq!(outcome(vec![absent(b"k")], b"k"), Outcome::Committed);
    assert_eq!(outcome(vec![absent(b"k")], b"no1"), Outcome::Refused);
    assert_eq!(outcome(vec![is(b"k", b"old")], b"no2"), Outcome::Refused);
    assert_eq!(outcome(vec![is(b"x", b"")], b"no3"), Outcome::Refused);
    assert_eq!(outcome(vec![is(b"k", b"new"), absent(b"k")], b"no4"), Outcome::Refused);
    assert_eq!(outcome(vec![is(b"k", b"new"), absent(b"x")], b"yes"), Outcome::Committed);
    let found = engine.snapshot().unwrap().scan(b"", b"z", 99).unwrap();
    let found: Vec<&[u8]> = found.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(found, [&b"k"[..], b"yes"]);
}

fn each_transaction_of_a_group_sees_those_before_it(engine: &mut dyn Engine) {
    let group = [
        transaction(vec![absent(b"k")], vec![put(b"k", b"1")]),
        transaction(vec![absent(b"k")], vec![put(b"k", b"2")]),
        transaction(vec![is(b"k", b"1")], vec![put(b"k", b"3"), put(b"l", b"3")]),
        transaction(vec![is(b"k", b"3")], vec![delete(b"k")]),
    ];
    let (yes, no) = (Outcome::Committed, Outcome::Refused);
    assert_eq!(engine.commit(&group).unwrap(), [yes, no, yes, yes]);
    let view = engine.snapshot().unwrap();
    assert_eq!((view.get(b"k").unwrap(), view.get(b"l").unwrap()), (None, Some(b"3".to_vec())));
}

fn a_snapshot_stays_as_it_is(engine: &mut dyn Engine) {
    engine.commit(&[transaction(vec![], vec![put(b"a", b"1"), put(b"b", b"1")])]).unwrap();
    let before = engine.snapshot().unwrap();
    engine.commit(&[transaction(vec![], vec![delete(b"a"), put(b"b", b"2"), put(b"c", b"2")])]).unwrap();
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(before.scan(b"", b"z", 9).unwrap(), [pair(b"a", b"1"), pair(b"b", b"1")]);
    assert_eq!(before.get(b"c").unwrap(), None);
    let after = engine.snapshot().unwrap();
    assert_eq!(after.scan(b"", b"z", 9).unwrap(), [pair(b"b", b"2"), pair(b"c", b"2")]);
}

fn a_scan_is_in_order_and_bounded(engine: &mut dyn Engine) {
    let keys: Vec<Vec<u8>> =
        vec![b"D\x00".to_vec(), b"D\x00a".to_vec(), b"D\x00a\x00".to_vec(), b"D\x00\xff".to_vec(), b"D\x01".to_vec()];
    let writes = keys.iter().rev().map(|key| put(key, b"v")).collect();
    engine.commit(&[transaction(vec![], writes)]).unwrap();
    let view = engine.snapshot().unwrap();
    let found = |from: &[u8], to: &[u8], most| -> Vec<Vec<u8>> {
        view.scan(from, to, most).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(found(b"", b"E", 99), keys);
    assert_eq!(found(b"D\x00", b"D\x01", 99), keys[..4]);
    assert_eq!(found(b"D\x00a", b"D\x01", 2), keys[1..3]);
    assert_eq!(found(b"D\x00a\x01", b"E", 1), keys[3..4]);
    assert!(found(b"D", b"E", 0).is_empty());
    assert!(found(b"E", b"D", 9).is_empty());
    assert!(found(b"D", b"D", 9).is_empty());
}

fn what_is_too_large_is_refused_and_does_nothing(engine: &mut dyn Engine) {
    let many = (0..=MOST_OPERATIONS as u8).map(|key| put(&[key], b"")).collect();
    let large = vec![put(b"large", &[0; 1 << 20])];
    for writes in [many, large] {
        let group = [transaction(vec![], vec![put(b"before", b"")]), transaction(vec![], writes)];
        assert_eq!(engine.commit(&group).unwrap_err().kind, Kind::Refused);
    }
    assert!(engine.snapshot().unwrap().scan(b"", b"\xff", 9).unwrap().is_empty());
    let most = (0..MOST_OPERATIONS as u8).map(|key| put(&[key], b"")).collect();
    assert_eq!(engine.commit(&[transaction(vec![], most)]).unwrap(), [Outcome::Committed]);
}

/// What groups of transactions by chance should leave, beside a plain map.
pub(crate) struct Plain {
    pub(crate) map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Plain {
    /// Carries a group out, and says what becomes of each.
    pub(crate) fn commit(&mut self, group: &[Transaction]) -> Vec<Outcome> {
        let one = |transaction: &Transaction| {
            let holds = |condition: &Condition| match condition {
                Condition::Absent(key) => !self.map.contains_key(key),
                Condition::Is(key, value) => self.map.get(key) == Some(value),
            };
            if !transaction.conditions.iter().all(holds) {
                return Outcome::Refused;
            }
            for write in &transaction.writes {
                match &write.value {
                    Some(value) => drop(self.map.insert(write.key.clone(), value.clone())),
                    None => drop(self.map.remove(&write.key)),
                }
            }
            Outcome::Committed
        };
        group.iter().map(one).collect()
    }

    /// As a scan of everything returns it.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        self.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// A group by chance, on few keys.
pub(crate) fn by_chance(chance: &Chance) -> Vec<Transaction> {
    let key = || vec![b'k', chance.below(24) as u8];
    let value = || vec![chance.below(3) as u8; 1 + chance.below(900) as usize];
    let one = || {
        let conditions = match chance.below(4) {
            0 => vec![Condition::Absent(key())],
            1 => vec![Condition::Is(key(), value())],
            _ => vec![],
        };
        let writes: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
            (0..1 + chance.below(4)).map(|_| (key(), (!chance.once_in(3)).then(value))).collect();
        let writes = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
        Transaction { conditions, writes }
    };
    (0..1 + chance.below(3)).map(|_| one()).collect()
}
