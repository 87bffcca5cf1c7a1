//! What is listed of files and users: it may be of another time than these, where the newest copy was not written to its end.
//!
//! Always: what a file has in use is never on a list of what is to be removed.

use super::Component;
use super::tree::Tree;
use crate::keys;
use crate::records::{
    Inode, Layout, Moves, Named, Orders, RingMoves, UserNumber, UserRecord, component_of, decode, encode,
};
use forebay_model::{Result, TargetId, Timestamp};
use forebay_wire::control::names::{FileId, FileKind};
use std::collections::{BTreeMap, BTreeSet};

/// Has what is left be removed of files that were removed, though no list says so. What a name leads to was not: names are copied before
/// inodes, so what became of the inode is damage.
pub(super) fn remove(
    state: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    gone: &BTreeMap<Vec<u8>, Vec<u8>>,
    of_files: &BTreeMap<FileId, Vec<Component>>,
    now: Timestamp,
) -> Result<()> {
    let mut named = BTreeSet::new();
    if !gone.is_empty() {
        for key in of(state, b'D') {
            let Named { file, .. } = decode(key, &state[key])?;
            named.insert(file);
        }
    }
    for (key, value) in gone.iter().filter(|(key, _)| key.first() == Some(&b'I')) {
        let file = FileId(keys::number(key));
        let (removals, layout) = (keys::removals(file), keys::layout(file));
        if state.contains_key(key) || state.contains_key(&removals) || named.contains(&file) {
            continue;
        }
        let Inode { attributes, .. } = decode(key, value)?;
        let layout: Option<Layout> =
            state.get(&layout).or(gone.get(&layout)).map(|value| decode(&layout, value)).transpose()?;
        let there = of_files.get(&file).map_or(&[][..], Vec::as_slice);
        let there = || there.iter().filter(|it| it.object.volume == attributes.volume);
        let version = there().map(|it| it.fence).max().unwrap_or(0).max(attributes.version);
        // Also on targets that were not looked at.
        let lie = layout.iter().flat_map(Layout::components);
        let moves = keys::ring_moves(file);
        let ring: Option<RingMoves> =
            state.get(&moves).or(gone.get(&moves)).map(|value| decode(&moves, value)).transpose()?;
        let lie = lie.chain(ring.iter().flat_map(RingMoves::places));
        let pending: BTreeSet<(u32, TargetId)> =
            there().map(|it| (component_of(it.object).1, it.target)).chain(lie).collect();
        let orders = Orders { volume: attributes.volume, version, due: now, pending: pending.into_iter().collect() };
        if !orders.pending.is_empty() {
            let value = encode(&removals, &orders)?;
            state.insert(removals, value);
        }
    }
    Ok(())
}

/// Where components of files are that are not these, or not yet.
#[derive(Default)]
pub(super) struct Besides {
    /// Where they are copied to.
    pub(super) copied: BTreeSet<(FileId, u32, TargetId)>,
    /// Where they were left behind.
    pub(super) left: BTreeSet<(FileId, u32, TargetId)>,
}

/// What lists say of that.
pub(super) fn besides(state: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Besides> {
    let mut besides = Besides::default();
    for key in of(state, keys::MOVES) {
        let Moves(moves) = decode(key, &state[key])?;
        besides.copied.extend(moves.iter().map(|it| (FileId(keys::number(key)), it.component, it.to)));
    }
    for key in of(state, keys::LEFTOVERS) {
        let Orders { pending, .. } = decode(key, &state[key])?;
        besides
            .left
            .extend(pending.into_iter().map(|(component, target)| (FileId(keys::number(key)), component, target)));
    }
    Ok(besides)
}

/// Where parts of rings lie beside where their layouts say.
pub(super) fn ring_moves(state: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<BTreeMap<FileId, RingMoves>> {
    of(state, keys::RING_MOVES).map(|key| Ok((FileId(keys::number(key)), decode(key, &state[key])?))).collect()
}

/// Has lists name what is there, and nothing else.
pub(super) fn fit(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, tree: &Tree, now: Timestamp) -> Result<()> {
    let removed: Vec<FileId> = of(state, keys::REMOVALS).map(|key| FileId(keys::number(key))).collect();
    let is_there = |key: &Vec<u8>| {
        let file = FileId(keys::number(key));
        match key.first() {
            Some(&keys::MOVES | &keys::RING_MOVES | b'S' | b'Y') => tree.inodes.contains_key(&file),
            Some(&keys::FENCES) => tree.inodes.get(&file).is_some_and(|inode| inode.written) || removed.contains(&file),
            Some(&keys::DEGRADED) => false,
            _ => true,
        }
    };
    state.retain(|key, _| is_there(key));
    for (file, layout) in &tree.layouts {
        let is_file = tree.inodes.get(file).is_some_and(|inode| inode.attributes.kind == FileKind::File);
        if is_file && !layout.absent.is_empty() {
            let key = keys::degraded(*file);
            let value = encode(&key, &())?;
            state.insert(key, value);
        }
    }
    for Component { object, target, .. } in &tree.old {
        let (file, component) = component_of(*object);
        let key = keys::leftovers(file);
        let left: Option<Orders> = state.get(&key).map(|value| decode(&key, value)).transpose()?;
        let fresh = || Orders { volume: object.volume, version: 0, due: now, pending: Vec::new() };
        let mut left = left.unwrap_or_else(fresh);
        if !left.pending.contains(&(component, *target)) {
            left.pending.push((component, *target));
        }
        let value = encode(&key, &left)?;
        state.insert(key, value);
    }
    leave(state, tree)?;
    name_users(state)
}

/// Has nothing be removed that layouts name, and nothing copied to where something of its file lies or is to be removed.
fn leave(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, tree: &Tree) -> Result<()> {
    let moves = of(state, keys::MOVES).chain(of(state, keys::RING_MOVES));
    let files = of(state, keys::LEFTOVERS).chain(moves).map(|key| FileId(keys::number(key)));
    for file in files.collect::<BTreeSet<FileId>>() {
        let Some(layout) = tree.layouts.get(&file).filter(|_| tree.inodes.contains_key(&file)) else { continue };
        let (left, moves) = (keys::leftovers(file), keys::moves(file));
        let ring = keys::ring_moves(file);
        let mut beside = RingMoves::default();
        if let Some(value) = state.get(&ring) {
            beside = decode(&ring, value)?;
            beside.0.retain(|it| !layout.targets.contains(&it.target));
            let value = encode(&ring, &beside)?;
            state.insert(ring, value);
        }
        let mut removed = Vec::new();
        if let Some(value) = state.get(&left) {
            let mut orders: Orders = decode(&left, value)?;
            let is_beside = |there: &(u32, TargetId)| beside.places().any(|place| place == *there);
            orders.pending.retain(|there| layout.targets.get(there.0 as usize) != Some(&there.1) && !is_beside(there));
            removed.clone_from(&orders.pending);
            match orders.pending.is_empty() {
                true => drop(state.remove(&left)),
                false => drop(state.insert(left.clone(), encode(&left, &orders)?)),
            }
        }
        if let Some(value) = state.get(&moves) {
            let Moves(mut copied) = decode(&moves, value)?;
            copied.retain(|it| !layout.targets.contains(&it.to) && !removed.contains(&(it.component, it.to)));
            let value = encode(&moves, &Moves(copied))?;
            state.insert(moves, value);
        }
    }
    Ok(())
}

/// Has each user one name, and each name one user: of two with the same one, whoever has it by that list keeps it.
fn name_users(state: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let listed: BTreeMap<Vec<u8>, Vec<u8>> = state.extract_if(.., |key, _| key.first() == Some(&b'u')).collect();
    let mut users = Vec::new();
    for key in of(state, b'U') {
        let user: UserRecord = decode(key, &state[key])?;
        let by_name = keys::user_name(&user.name);
        let has: Option<UserNumber> = listed.get(&by_name).map(|value| decode(&by_name, value)).transpose()?;
        users.extend(keys::user_of(key).map(|number| (has.is_none_or(|has| has.0 != number), number, user)));
    }
    users.sort_by_key(|(is_other, number, _)| (*is_other, *number));
    for (_, number, mut user) in users {
        while state.contains_key(&keys::user_name(&user.name)) {
            user.name = format!("{}-{number}", user.name);
            let key = keys::user(number);
            let value = encode(&key, &user)?;
            state.insert(key, value);
        }
        let key = keys::user_name(&user.name);
        let value = encode(&key, &UserNumber(number))?;
        state.insert(key, value);
    }
    Ok(())
}

/// The files of which objects are to be removed.
pub(super) fn numbers(state: &BTreeMap<Vec<u8>, Vec<u8>>) -> impl Iterator<Item = FileId> {
    of(state, keys::REMOVALS).chain(of(state, keys::LEFTOVERS)).map(|key| FileId(keys::number(key)))
}

/// The keys of a kind.
fn of(state: &BTreeMap<Vec<u8>, Vec<u8>>, prefix: u8) -> impl Iterator<Item = &Vec<u8>> {
    let (from, to) = keys::all(prefix);
    state.range(from..to).map(|(key, _)| key)
}
