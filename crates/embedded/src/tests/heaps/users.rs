//! Users of one heap at once, by chance, beside a plain model.

use super::{HEAP, create, record, used};
use crate::tests::{enter, fresh};
use forebay_client::Cluster;
use forebay_client::heaps::{Heap, NewRoot, RecordId};
use forebay_model::{Error, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// A session, and what it knows that it put and freed.
struct User {
    heap: Heap,
    put: BTreeMap<RecordId, Vec<u8>>,
    freed: BTreeSet<RecordId>,
}

impl User {
    fn of(cluster: &Cluster) -> User {
        let heap = cluster.heaps().open(HEAP).expect("opened");
        User { heap, put: BTreeMap::new(), freed: BTreeSet::new() }
    }
}

/// Records that are committed, and the root.
#[derive(Default)]
struct Model {
    records: BTreeMap<RecordId, Vec<u8>>,
    root: Option<RecordId>,
}

impl Model {
    /// One of these ids, by chance.
    fn one(chance: &mut impl FnMut(u64) -> u64, mut ids: impl ExactSizeIterator<Item = RecordId>) -> Option<RecordId> {
        let count = ids.len() as u64;
        if count == 0 { None } else { ids.nth(chance(count) as usize) }
    }

    fn step(&mut self, user: &mut User, chance: &mut impl FnMut(u64) -> u64) {
        match chance(20) {
            0..8 => {
                let one = |_| {
                    let most = if chance(9) == 0 { 20_000 } else { 400 };
                    let length = 1 + chance(most);
                    record(length, length as usize)
                };
                let records: Vec<Vec<u8>> = (0..20).map(one).collect();
                records.iter().for_each(|record| user.heap.send(record).expect("taken in"));
                user.put.extend(user.heap.settle().expect("put").into_iter().zip(records));
            }
            8..12 => {
                let mut ids = BTreeSet::new();
                for _ in 0..1 + chance(20) {
                    ids.extend(Model::one(chance, self.records.keys().copied()));
                    ids.extend(Model::one(chance, user.put.keys().copied()));
                }
                let ids: Vec<RecordId> = ids.into_iter().collect();
                let missing = ids.iter().any(|id| user.freed.contains(id));
                match user.heap.free(&ids).map_err(|error| error.kind) {
                    Ok(()) => {
                        assert!(!missing);
                        for id in ids {
                            if user.put.remove(&id).is_none() {
                                user.freed.insert(id);
                            }
                        }
                    }
                    Err(Kind::Missing) => assert!(missing),
                    Err(other) => panic!("{other:?}"),
                }
            }
            12..15 => {
                let id = Model::one(chance, self.records.keys().copied()).filter(|id| !user.freed.contains(id));
                let root = match (chance(3), id) {
                    (0, Some(id)) => NewRoot::Record(id),
                    (1, _) => NewRoot::None,
                    _ => NewRoot::Same,
                };
                let named = match root {
                    NewRoot::Record(id) => Some(id),
                    NewRoot::None => None,
                    NewRoot::Same => self.root,
                };
                let committed = user.heap.commit(root).map_err(|error| error.kind);
                if named.is_some_and(|id| user.freed.contains(&id)) {
                    assert_eq!(committed, Err(Kind::Usage));
                    return;
                }
                if user.freed.iter().any(|id| !self.records.contains_key(id)) {
                    assert_eq!(committed, Err(Kind::Missing), "another one freed it, and has committed");
                    return;
                }
                committed.expect("committed");
                self.root = named;
                self.records.append(&mut user.put);
                std::mem::take(&mut user.freed).iter().for_each(|id| drop(self.records.remove(id)));
            }
            15 => {
                user.heap.abort().expect("aborted");
                user.put.clear();
                user.freed.clear();
            }
            _ => self.compare(user, chance),
        }
    }

    /// Some records, and the root.
    fn compare(&self, user: &mut User, chance: &mut impl FnMut(u64) -> u64) {
        let mut ids: Vec<RecordId> = self.records.keys().chain(user.put.keys()).copied().collect();
        ids.retain(|_| chance(3) == 0);
        let (put, freed, mut seen) = (&user.put, &user.freed, 0);
        let compare = |id, found: Result<Vec<u8>, Error>| {
            seen += 1;
            match found {
                Ok(found) => assert_eq!(Some(&found), self.records.get(&id).or(put.get(&id)), "{id}"),
                Err(error) => assert!(error.kind == Kind::Missing && freed.contains(&id), "{error}"),
            }
            Ok(())
        };
        user.heap.get_each(&ids, None, compare).expect("read");
        assert_eq!(seen, ids.len());
        if self.root.is_none_or(|id| !user.freed.contains(&id)) {
            let (_, root) = user.heap.root(None).expect("a root");
            assert_eq!(root, self.root.map(|id| (id, self.records[&id].clone())));
        }
    }
}

#[test]
fn users_at_once_see_what_is_committed_and_their_own_in_any_history() {
    for seed in 0..4_u64 {
        let mut state = seed;
        let mut chance = |bound: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ z >> 29) % bound
        };
        let dir = fresh();
        let mut model = Model::default();
        for life in 0..3 {
            let (owner, guest) = (enter(dir.path()), enter(dir.path()));
            if life == 0 {
                drop(create(&owner));
            }
            let mut users = [&owner, &guest, &guest].map(User::of);
            for _ in 0..120 {
                let at = chance(3) as usize;
                model.step(&mut users[at], &mut chance);
            }
            for user in &mut users {
                user.heap.abort().expect("aborted");
                (user.put, user.freed) = (BTreeMap::new(), BTreeSet::new());
                model.compare(user, &mut chance);
            }
            let parts = |record: &Vec<u8>| if record.len() > 8182 { 1 + record.len().div_ceil(8182) } else { 1 };
            assert_eq!(used(&guest, HEAP), model.records.values().map(parts).sum::<usize>() as u64, "seed {seed}");
            drop(users);
            for cluster in [guest, owner] {
                cluster.close().expect("closed");
            }
        }
    }
}
