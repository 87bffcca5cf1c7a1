//! Making the metadata anew of what targets have: a copy of it ([`crate::copies`]), and what each component says of its file.
//!
//! The copy has all that was answered. What targets have besides is newer, or of files that the copy does not know: where both are
//! there the newer one holds, and what has no name is put into `/lost+found` of its volume. What volumes are charged, and how many
//! entries directories have, is counted anew. Keys are made anew, since no target may have them: so nothing counts any more that was
//! allowed before.

mod lists;
pub mod look;
mod rings;
mod tree;

use crate::copies::{self, Chain};
use crate::engine::{Engine, MOST_BYTES, Transaction, Write};
use crate::keys;
use crate::manager::Manager;
use crate::operations::is_used_meanwhile;
use crate::records::{
    Copied, Epochs, Inode, Next, NodeRecord, Term, UserRecord, Writers, Written, component_of, decode, encode,
};
use forebay_env::Random;
use forebay_model::ring::{RingSpec, RingStatus};
use forebay_model::{Bytes, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::access::{IssuedKey, ROOT_USER};
use forebay_wire::control::names::{FileId, FileKind};
use forebay_wire::control::volumes::Policy;
use forebay_wire::object::Described;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tree::Tree;

/// Epochs that may have been told in a second and are in no copy, and openings of a manager that may have been.
const EPOCHS: u64 = 1024;
const TERMS: u64 = 1024;
/// Openings have numbers of 24 bits: eight years between two times that all is made anew.
const MOST_MINUTES: u64 = 1 << 22;
/// What has a number less than so far behind those that were given is of a file that no copy knows.
const NEAR: u64 = 1 << 32;
/// Keys and values of a transaction.
const TOGETHER: usize = 100;

/// What is kept of a value to know another one from it.
type Hash = [u8; 16];

/// What was found on targets.
#[derive(Debug, Default)]
pub struct Seen {
    /// Those that were looked at.
    pub targets: BTreeSet<TargetId>,
    /// What copies say together.
    pub chain: Chain,
    /// The components of files.
    pub components: Vec<Component>,
    /// The parts of rings of the cluster's tree.
    pub rings: BTreeMap<(TargetId, ObjectId), RingPart>,
    /// Its heaps, and the number of the last commit of each that is on several targets.
    pub heaps: BTreeMap<(TargetId, ObjectId), u64>,
}

/// A part of a ring, as its target has it.
#[derive(Debug, Clone, PartialEq)]
pub struct RingPart {
    /// How it was made.
    pub spec: RingSpec,
    /// The numbers of its elements.
    pub elements: Range<u64>,
    /// The number of the first that was ever in it, or will be.
    pub begins: u64,
    /// The time of its oldest element.
    pub oldest: Option<Timestamp>,
    /// The time of its newest one that is durable.
    pub newest: Option<Timestamp>,
    /// The number of the last pin that is held there; 0 without any.
    pub last_pin: u64,
}

impl RingPart {
    /// As it says of itself.
    pub fn of(status: &RingStatus) -> RingPart {
        RingPart {
            spec: status.spec.clone(),
            elements: status.first_sequence..status.next_sequence,
            begins: status.begins,
            oldest: status.oldest,
            newest: status.newest,
            last_pin: status.pins.iter().map(|pin| pin.id).max().unwrap_or(0),
        }
    }

    /// Whether nothing is in it.
    fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}

/// A component of a file, as its target has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Where it is.
    pub target: TargetId,
    /// Which one.
    pub object: ObjectId,
    /// Bytes of it.
    pub size: Bytes,
    /// When they were written last.
    pub modified: Timestamp,
    /// Of which version capabilities for it have to be.
    pub fence: u64,
    /// How often its file was cut, and how long it says that this is.
    pub said: Option<(u64, Bytes)>,
    /// What else it says of it.
    pub described: Option<Described>,
}

/// What was made of it.
#[derive(Debug)]
pub struct Recovered {
    /// A key of root.
    pub issued: IssuedKey,
    /// The cluster.
    pub cluster: u128,
    /// When the copy was written last, if there was one.
    pub at: Option<Timestamp>,
    /// How many there are, without the first.
    pub directories: u64,
    /// How many there are.
    pub files: u64,
    /// How many there are.
    pub rings: u64,
    /// How many there are.
    pub heaps: u64,
    /// How many there are.
    pub volumes: u64,
    /// What is not as it was, or lacks something.
    pub findings: Vec<Finding>,
}

/// Something of which people have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub file: FileId,
    /// Where it is now.
    pub path: String,
    /// What it is.
    pub what: What,
}

/// What there is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Components that should be there and were not found, and where they lay.
    Lacks {
        /// Which, and on which target.
        components: Vec<(u32, TargetId)>,
        /// Whether the others make up for them.
        is_enough: bool,
    },
    /// Components of a file that are not on their targets, which were looked at: they are holes, to which nothing was ever written, or
    /// what was on these targets is lost.
    Unwritten {
        /// Which, and on which target.
        components: Vec<(u32, TargetId)>,
    },
    /// It had no name, and has one in `/lost+found`.
    Nameless,
    /// No copy knew it: it was made anew of what its components say, without its name.
    Unknown,
    /// Its components are newer than the copy, and say that it is so long.
    Newer {
        /// How long.
        size: Bytes,
    },
    /// A name that led nowhere, and was dropped.
    Dangling,
}

/// Makes metadata of what was found, in an engine that has none.
pub fn recover(
    engine: &mut dyn Engine,
    mut seen: Seen,
    policy: Policy,
    now: Timestamp,
    random: &dyn Random,
) -> Result<Recovered> {
    let (chain, components) = (std::mem::take(&mut seen.chain), std::mem::take(&mut seen.components));
    let fresh = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let cluster = chain.cluster().unwrap_or_else(fresh);
    // Nor has one that was made of the same copies, and is in none, the same openings.
    let minutes = chain.cluster().map_or(0, |_| now.since(chain.at()).as_secs() / 60).min(MOST_MINUTES);
    let term = chain.term();
    // One that was never whole has only a part of what there was, and so is none.
    let mut chain = chain.counts().then_some(chain);
    let issued = Manager::create(engine, cluster, policy, now, random)?;
    let made = engine.snapshot()?.scan(&[], &[u8::MAX], usize::MAX)?;
    let mut state: BTreeMap<Vec<u8>, Vec<u8>> = made.into_iter().collect();
    let at = chain.as_ref().map(Chain::at);
    let is_whole = chain.as_ref().is_some_and(Chain::is_whole);
    let gone = chain.as_mut().map(Chain::gone).unwrap_or_default();
    let mut copied = chain.as_ref().map(|_| BTreeMap::new());
    for (key, value) in chain.into_iter().flat_map(|chain| chain.state) {
        copied.iter_mut().for_each(|copied| copied.extend([(key.clone(), hash(&value))]));
        state.insert(key, value);
    }
    keys_anew(&mut state, &issued)?;
    nodes_away(&mut state)?;
    let writers = left(&mut state, now)?;
    let mut of_files: BTreeMap<FileId, Vec<Component>> = BTreeMap::new();
    for component in components {
        let (file, _) = component_of(component.object);
        of_files.entry(file).or_default().push(component);
    }
    lists::remove(&mut state, &gone, &of_files, now)?;
    let mut tree = Tree::load(&mut state, now)?;
    // What was removed is not there any more, whoever has not heard of that.
    of_files.retain(|file, _| !state.contains_key(&keys::removals(*file)));
    // Nor is what was left behind of it before, which is to be removed as well.
    let listed = lists::besides(&state)?;
    let is_left = |object: ObjectId, target: TargetId| {
        let (file, component) = component_of(object);
        !tree.inodes.contains_key(&file) && listed.left.contains(&(file, component, target))
    };
    of_files.values_mut().for_each(|there| there.retain(|it| !is_left(it.object, it.target)));
    of_files.retain(|_, there| !there.is_empty());
    seen.rings.retain(|(target, ring), _| !is_left(*ring, *target));
    seen.heaps.retain(|(target, heap), _| !is_left(*heap, *target));
    let Next { file, volume } = decode(keys::NEXT, &state[keys::NEXT])?;
    // Whoever made a ring or a heap under a number that is taken would have what is there. Objects with names of their own have numbers
    // by chance, nearly all of them far behind those of files.
    let by_name = seen.rings.keys().chain(seen.heaps.keys()).map(|(_, object)| component_of(*object).0);
    let near = of_files.keys().copied().chain(by_name).filter(|taken| taken.0 < file + NEAR).max();
    // No number is given twice, also that of what was removed.
    let gone = lists::numbers(&state).max();
    tree.next = tree.next.max(file).max(near.max(gone).map_or(0, |taken| taken.0 + 1));
    tree.make_unknown(&of_files);
    let mut besides =
        rings::make_unknown(&mut tree, &seen, &of_files, |file| state.contains_key(&keys::removals(file)))?;
    tree.name_all();
    tree.take_newer(&of_files, &writers, &listed, &seen.targets, is_whole);
    besides.extend(rings::take_newer(&mut tree, &seen, &of_files, &lists::ring_moves(&state)?, is_whole));
    tree.find_lacking(&of_files, &seen);
    tree.give_up_unfound();
    tree.count();
    let epochs: Epochs = decode(keys::EPOCHS, &state[keys::EPOCHS])?;
    // Whoever was told of any before hears of a newer one, and of keys behind the last two: also by a manager that was made anew like
    // this, and is in no copy, since that was earlier. When what copies say of them was so, they need not say.
    let seconds = now.since(Timestamp(0)).as_secs();
    let epoch = epochs.epoch.saturating_add(EPOCHS).max(EPOCHS.saturating_mul(seconds));
    let rolled = epochs.rolled.saturating_add(2).max(u32::try_from(seconds).unwrap_or(u32::MAX / 2));
    let epochs = Epochs { epoch, least: epoch, rolled, rolled_at: now };
    state.insert(keys::EPOCHS.to_vec(), encode(keys::EPOCHS, &epochs)?);
    state.insert(keys::TERM.to_vec(), encode(keys::TERM, &Term(term + TERMS + minutes))?);
    // Copies of another manager that was made anew of the same ones are not newer, whatever their numbers: this one goes over them.
    let written = Written { term: u64::MAX, object: 0, at: 0, batch: u64::MAX };
    state.insert(keys::WRITTEN.to_vec(), encode(keys::WRITTEN, &written)?);
    let next = Next { file: file.max(tree.next), volume: volume.max(tree.next_volume()) };
    state.insert(keys::NEXT.to_vec(), encode(keys::NEXT, &next)?);
    let count = |kind: FileKind| tree.inodes.values().filter(|inode| inode.attributes.kind == kind).count() as u64;
    let recovered = Recovered {
        issued,
        cluster,
        at,
        directories: count(FileKind::Directory) - 1,
        files: count(FileKind::File),
        rings: count(FileKind::Ring),
        heaps: count(FileKind::Heap),
        volumes: tree.volumes.len() as u64,
        findings: tree.findings(),
    };
    for (ring, moves) in besides {
        let key = keys::ring_moves(ring);
        match moves.0.is_empty() {
            true => drop(state.remove(&key)),
            false => drop(state.insert(key.clone(), encode(&key, &moves)?)),
        }
    }
    lists::fit(&mut state, &tree, now)?;
    tree.store(&mut state)?;
    if let Some(copied) = copied {
        next_copy(&mut state, &copied)?;
    }
    write(engine, state)?;
    Ok(recovered)
}

/// The next copy begins with what is not as copies say: until it is whole, that is what it has besides these.
fn next_copy(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, copied: &BTreeMap<Vec<u8>, Hash>) -> Result<()> {
    let is_same = |key: &Vec<u8>| state.get(key).map(|value| hash(value)).as_ref() == copied.get(key);
    let is_other = |key: &&Vec<u8>| copies::is_copied(key) && !is_same(key);
    let changed: BTreeSet<Vec<u8>> = state.keys().chain(copied.keys()).filter(is_other).cloned().collect();
    // More of them are not waited for; what becomes of those when this is made anew once more is found out once more.
    if changed.iter().map(Vec::len).sum::<usize>() <= copies::MOST_KEYS {
        let copied = Copied { base: 0, batch: 0, keys: changed.into_iter().collect() };
        state.insert(keys::COPIED.to_vec(), encode(keys::COPIED, &copied)?);
    }
    Ok(())
}

fn hash(value: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&blake3::hash(value).as_bytes()[..16]);
    hash
}

/// Nobody has a key but root, whose is new.
fn keys_anew(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, issued: &IssuedKey) -> Result<()> {
    let (from, to) = keys::all(b'U');
    for (key, value) in state.range_mut(from..to) {
        let mut user: UserRecord = decode(key, value)?;
        user.keys = if keys::user_of(key) == Some(ROOT_USER) { vec![issued.key] } else { Vec::new() };
        *value = encode(key, &user)?;
    }
    Ok(())
}

/// Of no node it is known whether it is there, nor whether it has the targets that it had, until it reports.
fn nodes_away(state: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let (from, to) = keys::all(b'N');
    for (key, value) in state.range_mut(from..to) {
        let node: NodeRecord = decode(key, value)?;
        *value = encode(key, &NodeRecord { up: false, ..node })?;
    }
    Ok(())
}

/// Whoever had files open to write is gone: these are looked through like those of any client that is.
fn left(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, now: Timestamp) -> Result<BTreeSet<FileId>> {
    let (from, to) = keys::all(b'W');
    let open: Vec<Vec<u8>> = state.range(from..to).map(|(key, _)| key.clone()).collect();
    let mut files = BTreeSet::new();
    for key in open {
        let file = FileId(keys::number(&key));
        let value = state.remove(&key).unwrap_or_default();
        let Writers(_) = decode(&key, &value)?;
        let inode = keys::inode(file);
        let there: Option<Inode> = state.get(&inode).map(|value| decode(&inode, value)).transpose()?;
        if there.is_some_and(|inode| is_used_meanwhile(inode.attributes.kind)) {
            // Somebody copied the last of it, and it lies where it lay.
            continue;
        }
        let scrub = keys::to_scrub(file);
        let value = encode(&scrub, &crate::records::ToScrub { since: now })?;
        state.entry(scrub).or_insert(value);
        files.insert(file);
    }
    Ok(files)
}

/// Puts all of it.
fn write(engine: &mut dyn Engine, state: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let (mut transactions, mut writes, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (key, value) in state {
        let write = Write { key, value: Some(value) };
        if writes.len() == TOGETHER || bytes + write.bytes() > MOST_BYTES {
            transactions.push(Transaction { conditions: Vec::new(), writes: std::mem::take(&mut writes) });
            bytes = 0;
        }
        if transactions.len() == TOGETHER {
            engine.commit(&std::mem::take(&mut transactions))?;
        }
        bytes += write.bytes();
        writes.push(write);
    }
    transactions.push(Transaction { conditions: Vec::new(), writes });
    engine.commit(&transactions).map(drop)
}

#[cfg(test)]
mod tests;
