//! Making the metadata anew of what targets have: a copy of it ([`crate::copies`]), and what each component says of its file.
//!
//! The copy has all that was answered. What targets have besides is newer, or of files that the copy does not know: where both are
//! there the newer one holds, and what has no name is put into `/lost+found` of its volume. What volumes are charged, and how many
//! entries directories have, is counted anew. Keys are made anew, since no target may have them: so nothing counts any more that was
//! allowed before.

mod tree;

use crate::copies::Chain;
use crate::engine::{Engine, MOST_BYTES, Transaction, Write};
use crate::keys;
use crate::manager::Manager;
use crate::records::{Epochs, Next, NodeRecord, Term, UserRecord, Writers, component_of, decode, encode};
use forebay_env::Random;
use forebay_model::{Bytes, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::access::{IssuedKey, ROOT_USER};
use forebay_wire::control::names::{FileId, FileKind};
use forebay_wire::control::volumes::Policy;
use forebay_wire::object::Described;
use std::collections::{BTreeMap, BTreeSet};
use tree::Tree;

/// Epochs that may have been told and are in no copy.
const EPOCHS: u64 = 1024;
/// What has a number less than so far behind those that were given is of a file that no copy knows.
const NEAR: u64 = 1 << 32;
/// Keys and values of a transaction.
const TOGETHER: usize = 100;

/// What was found on targets.
#[derive(Debug, Default)]
pub struct Seen {
    /// The copy that counts, if there is any.
    pub chain: Option<Chain>,
    /// The cluster that copies say, also those that do not count.
    pub cluster: Option<u128>,
    /// The last opening of a manager of which copies say anything, also those that do not count.
    pub term: u64,
    /// The components of files.
    pub components: Vec<Component>,
    /// The rings of the cluster's tree.
    pub rings: BTreeSet<(TargetId, ObjectId)>,
    /// Its heaps.
    pub heaps: BTreeSet<(TargetId, ObjectId)>,
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
    seen: Seen,
    policy: Policy,
    now: Timestamp,
    random: &dyn Random,
) -> Result<Recovered> {
    let Seen { chain, cluster, term, components, rings, heaps } = seen;
    let fresh = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let cluster = cluster.unwrap_or_else(fresh);
    let issued = Manager::create(engine, cluster, policy, now, random)?;
    let made = engine.snapshot()?.scan(&[], &[u8::MAX], usize::MAX)?;
    let mut state: BTreeMap<Vec<u8>, Vec<u8>> = made.into_iter().collect();
    let at = chain.as_ref().map(Chain::at);
    state.extend(chain.map(|chain| chain.state).unwrap_or_default());
    keys_anew(&mut state, &issued)?;
    nodes_away(&mut state)?;
    let writers = left(&mut state, now)?;
    let mut tree = Tree::load(&mut state, now)?;
    let mut of_files: BTreeMap<FileId, Vec<Component>> = BTreeMap::new();
    for component in components {
        let (file, _) = component_of(component.object);
        // What was removed is not there any more, whoever has not heard of that.
        if !state.contains_key(&keys::removals(file)) {
            of_files.entry(file).or_default().push(component);
        }
    }
    let Next { file, volume } = decode(keys::NEXT, &state[keys::NEXT])?;
    // Whoever made a ring or a heap under a number that is taken would have what is there. Objects with names of their own have numbers
    // by chance, nearly all of them far behind those of files.
    let by_name = rings.iter().chain(&heaps).map(|(_, object)| component_of(*object).0);
    let near = of_files.keys().copied().chain(by_name).filter(|taken| taken.0 < file + NEAR).max();
    tree.next = tree.next.max(near.map_or(0, |taken| taken.0 + 1));
    tree.make_unknown(&of_files);
    tree.name_all();
    tree.take_newer(&of_files, &writers);
    tree.find_lacking(&of_files, &rings, &heaps);
    tree.count();
    let epochs: Epochs = decode(keys::EPOCHS, &state[keys::EPOCHS])?;
    // Whoever was told of any before hears of a newer one, and of keys behind the last two.
    let epoch = epochs.epoch + EPOCHS;
    let epochs = Epochs { epoch, least: epoch, rolled: epochs.rolled + 2, rolled_at: now };
    state.insert(keys::EPOCHS.to_vec(), encode(keys::EPOCHS, &epochs)?);
    state.insert(keys::TERM.to_vec(), encode(keys::TERM, &Term(term + 1))?);
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
    tree.store(&mut state)?;
    write(engine, state)?;
    Ok(recovered)
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
