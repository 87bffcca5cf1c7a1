use super::{Batch, Draft, View};
use crate::engine::{Condition, Engine, MOST_OPERATIONS, Memory, Outcome, Transaction, Write};
use crate::seeds::each;
use forebay_model::Kind;
use std::collections::BTreeMap;

fn fence() -> Condition {
    Condition::Absent(b"fence".to_vec())
}

fn kept(key: &[u8], value: u8) -> Vec<u8> {
    crate::records::encode(key, &value).unwrap()
}

/// An engine with these keys; the value of each is its own first byte.
fn engine(keys: &[&[u8]]) -> Memory {
    let mut engine = Memory::new();
    let writes = keys.iter().map(|key| Write { key: key.to_vec(), value: Some(kept(key, key[0])) }).collect();
    engine.commit(&[Transaction { conditions: vec![], writes }]).unwrap();
    engine
}

#[test]
fn a_draft_sees_what_is_committed_what_the_batch_does_and_what_it_does_itself() {
    let engine = engine(&[b"a", b"b", b"c"]);
    let view = engine.snapshot().unwrap();
    let mut batch = Batch::new(fence());
    let mut draft = Draft::new(&*view, &batch);
    draft.put(b"a".to_vec(), &7u8).unwrap();
    draft.delete(b"b".to_vec());
    let ready = draft.ready().unwrap();
    batch.take(ready);
    let mut draft = Draft::new(&*view, &batch);
    draft.put(b"d".to_vec(), &8u8).unwrap();
    assert_eq!(draft.read::<u8>(b"a").unwrap(), Some(7));
    assert_eq!(draft.read::<u8>(b"b").unwrap(), None);
    assert_eq!(draft.read::<u8>(b"c").unwrap(), Some(b'c'));
    assert_eq!(draft.read::<u8>(b"d").unwrap(), Some(8));
    draft.clear();
    assert_eq!(draft.read::<u8>(b"d").unwrap(), None);
    assert_eq!(draft.require::<u8>(b"d").unwrap_err().kind, Kind::Damaged);
}

#[test]
fn a_scan_of_a_draft_is_one_of_all_that_it_sees() {
    each(50, |chance| {
        let key = || vec![b'k', chance.below(16) as u8];
        let mut plain = BTreeMap::new();
        let mut engine = Memory::new();
        for _ in 0..chance.below(12) {
            let key = key();
            plain.insert(key.clone(), kept(&key, 0));
        }
        let writes = plain.iter().map(|(key, value)| Write { key: key.clone(), value: Some(value.clone()) }).collect();
        engine.commit(&[Transaction { conditions: vec![], writes }]).unwrap();
        let view = engine.snapshot().unwrap();
        let mut batch = Batch::new(fence());
        for last in [false, true] {
            let mut draft = Draft::new(&*view, &batch);
            for _ in 0..chance.below(8) {
                let (key, value) = (key(), chance.below(9) as u8);
                if chance.once_in(2) {
                    draft.delete(key.clone());
                    plain.remove(&key);
                } else {
                    draft.put(key.clone(), &value).unwrap();
                    plain.insert(key.clone(), kept(&key, value));
                }
            }
            let (from, most) = (key(), chance.below(18) as usize);
            let expected: Vec<_> =
                plain.range(from.clone()..).take(most).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(draft.scan(&from, b"l", most).unwrap(), expected);
            if !last {
                let ready = draft.ready().unwrap();
                batch.take(ready);
            }
        }
    });
}

#[test]
fn drafts_are_packed_into_as_few_transactions_as_hold_them_and_none_into_two() {
    let mut engine = engine(&[b"a"]);
    let view = engine.snapshot().unwrap();
    let mut batch = Batch::new(fence());
    for number in 0..100u8 {
        let mut draft = Draft::new(&*view, &batch);
        // Two of their own, and one that all share.
        draft.put(vec![b'x', number], &number).unwrap();
        draft.put(vec![b'y', number], &number).unwrap();
        draft.put(b"shared".to_vec(), &number).unwrap();
        let ready = draft.ready().unwrap();
        batch.take(ready);
    }
    drop(view);
    let transactions = batch.finish();
    assert_eq!(transactions.len(), 2);
    for transaction in &transactions {
        transaction.check().unwrap();
        assert_eq!(transaction.conditions, [fence()]);
        let of =
            |prefix| transaction.writes.iter().filter(move |write| write.key[0] == prefix).map(|write| write.key[1]);
        assert!(of(b'x').eq(of(b'y')));
    }
    assert!(transactions[0].writes.len() + 1 >= MOST_OPERATIONS - 2);
    assert_eq!(engine.commit(&transactions).unwrap(), [Outcome::Committed; 2]);
    let last = engine.snapshot().unwrap().get(b"shared").unwrap();
    assert_eq!(last, Some(kept(b"shared", 99)));
}

#[test]
fn a_draft_that_no_transaction_holds_is_refused() {
    let engine = engine(&[b"a"]);
    let view = engine.snapshot().unwrap();
    let batch = Batch::new(fence());
    let mut many = Draft::new(&*view, &batch);
    (0..MOST_OPERATIONS as u8).for_each(|key| many.delete(vec![key]));
    assert_eq!(many.ready().err().unwrap().kind, Kind::Refused);
    let mut large = Draft::new(&*view, &batch);
    large.put(b"k".to_vec(), &vec![7u8; 1 << 20]).unwrap();
    assert_eq!(large.ready().err().unwrap().kind, Kind::Refused);
}
