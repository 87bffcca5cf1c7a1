//! What is listed of files and users: it may be of another time than these, where the newest copy was not written to its end.

use super::tree::Tree;
use crate::keys;
use crate::records::{UserNumber, UserRecord, decode, encode};
use forebay_model::Result;
use forebay_wire::control::names::{FileId, FileKind};
use std::collections::BTreeMap;

/// Has lists name what is there, and nothing else.
pub(super) fn fit(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, tree: &Tree) -> Result<()> {
    let removed: Vec<FileId> = of(state, keys::REMOVALS).map(|key| FileId(keys::number(key))).collect();
    let is_there = |key: &Vec<u8>| {
        let file = FileId(keys::number(key));
        match key.first() {
            Some(&keys::MOVES | b'S' | b'Y') => tree.inodes.contains_key(&file),
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
    name_users(state)
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
