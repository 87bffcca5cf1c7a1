//! Under which keys things are kept. The first byte says what it is; numbers are big-endian, so that keys are in their
//! order. Bytes: `docs/format/metadata.md`.

use forebay_model::TargetId;
use forebay_wire::control::names::FileId;

/// The cluster: [`crate::records::Meta`].
pub(crate) const META: &[u8] = b"M";
/// Which manager is the one: [`crate::records::Term`].
pub(crate) const TERM: &[u8] = b"T";
/// Epochs of the cluster's map: [`crate::records::Epochs`].
pub(crate) const EPOCHS: &[u8] = b"E";
/// The numbers that are given next: [`crate::records::Next`].
pub(crate) const NEXT: &[u8] = b"X";

/// What copies on targets may lack: [`crate::records::Copied`].
pub(crate) const COPIED: &[u8] = b"Q";
/// Which targets have them: [`crate::records::CopiedOn`].
pub(crate) const COPIED_ON: &[u8] = b"Qon";
/// How far copies can have been written by who has this engine: [`crate::records::Written`].
pub(crate) const WRITTEN: &[u8] = b"Qat";
/// The target with a copy that is newer than this engine, once one was found: [`crate::records::CopiedOn`].
pub(crate) const OUTDATED: &[u8] = b"Qold";

/// What [`fences`] begins with.
pub(crate) const FENCES: u8 = b'F';
/// What [`removals`] begins with.
pub(crate) const REMOVALS: u8 = b'O';
/// What [`leftovers`] begins with.
pub(crate) const LEFTOVERS: u8 = b'P';
/// What [`layout`] begins with.
pub(crate) const LAYOUTS: u8 = b'L';
/// What [`degraded`] begins with.
pub(crate) const DEGRADED: u8 = b'A';
/// What [`moves`] begins with.
pub(crate) const MOVES: u8 = b'B';
/// What [`ring_moves`] begins with.
pub(crate) const RING_MOVES: u8 = b'J';

/// What [`caches`] begins with.
pub(crate) const CACHES: u8 = b'Z';
/// What [`shut_out`] begins with.
pub(crate) const SHUT_OUT: u8 = b'H';

/// A file or directory: [`crate::records::Inode`].
pub(crate) fn inode(file: FileId) -> Vec<u8> {
    numbered(b'I', file.0)
}

/// A name in a directory: [`crate::records::Named`].
pub(crate) fn name(directory: FileId, name: &str) -> Vec<u8> {
    let mut key = numbered(b'D', directory.0);
    key.extend_from_slice(name.as_bytes());
    key
}

/// What comes behind every name of a directory.
pub(crate) fn behind_names(directory: FileId) -> Vec<u8> {
    behind(numbered(b'D', directory.0))
}

/// Where the bytes of a file lie: [`crate::records::Layout`].
pub(crate) fn layout(file: FileId) -> Vec<u8> {
    numbered(LAYOUTS, file.0)
}

/// A volume: [`crate::records::VolumeRecord`].
pub(crate) fn volume(volume: u64) -> Vec<u8> {
    numbered(b'V', volume)
}

/// A user: [`crate::records::UserRecord`].
pub(crate) fn user(user: u32) -> Vec<u8> {
    let mut key = vec![b'U'];
    key.extend_from_slice(&user.to_be_bytes());
    key
}

/// The user of a name: [`crate::records::UserNumber`].
pub(crate) fn user_name(name: &str) -> Vec<u8> {
    let mut key = vec![b'u'];
    key.extend_from_slice(name.as_bytes());
    key
}

/// An access key: [`crate::records::KeyRecord`].
pub(crate) fn access_key(key: u64) -> Vec<u8> {
    numbered(b'K', key)
}

/// A client: [`crate::records::ClientRecord`].
pub(crate) fn client(client: u64) -> Vec<u8> {
    numbered(b'C', client)
}

/// What a client was answered: [`crate::records::Remembered`].
pub(crate) fn remembered(client: u64, slot: u16) -> Vec<u8> {
    let mut key = numbered(b'R', client);
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// What comes behind everything that a client was answered.
pub(crate) fn behind_remembered(client: u64) -> Vec<u8> {
    behind(numbered(b'R', client))
}

/// Who has a file open to write: [`crate::records::Writers`].
pub(crate) fn writers(file: FileId) -> Vec<u8> {
    numbered(b'W', file.0)
}

/// A file that has to be scrubbed: [`crate::records::ToScrub`].
pub(crate) fn to_scrub(file: FileId) -> Vec<u8> {
    numbered(b'S', file.0)
}

/// The version that the objects of a file have to have: [`crate::records::Orders`].
pub(crate) fn fences(file: FileId) -> Vec<u8> {
    numbered(FENCES, file.0)
}

/// The objects of a file that was removed: [`crate::records::Orders`].
pub(crate) fn removals(file: FileId) -> Vec<u8> {
    numbered(REMOVALS, file.0)
}

/// The objects of a file's components where these do not lie any more: [`crate::records::Orders`].
pub(crate) fn leftovers(file: FileId) -> Vec<u8> {
    numbered(LEFTOVERS, file.0)
}

/// A file of which components have to be rebuilt: nothing.
pub(crate) fn degraded(file: FileId) -> Vec<u8> {
    numbered(DEGRADED, file.0)
}

/// A file with components that are to lie elsewhere: [`crate::records::Moves`].
pub(crate) fn moves(file: FileId) -> Vec<u8> {
    numbered(MOVES, file.0)
}

/// A ring with parts that leave targets, or have left them: [`crate::records::RingMoves`].
pub(crate) fn ring_moves(file: FileId) -> Vec<u8> {
    numbered(RING_MOVES, file.0)
}

/// When a file was verified last: [`crate::records::VerifiedAt`].
pub(crate) fn verified(file: FileId) -> Vec<u8> {
    numbered(b'Y', file.0)
}

/// A client that keeps what it reads: [`crate::records::CachesRecord`].
pub(crate) fn caches(client: u64) -> Vec<u8> {
    numbered(CACHES, client)
}

/// A client whose access key was revoked while it had something: [`crate::records::ShutOutRecord`].
pub(crate) fn shut_out(client: u64) -> Vec<u8> {
    numbered(SHUT_OUT, client)
}

/// A node: [`crate::records::NodeRecord`].
pub(crate) fn node(node: u64) -> Vec<u8> {
    numbered(b'N', node)
}

/// A target: [`crate::records::TargetRecord`].
pub(crate) fn target(target: TargetId) -> Vec<u8> {
    let mut key = vec![b'G'];
    key.extend_from_slice(&target.0.to_be_bytes());
    key
}

/// Everything whose key begins with this byte: from the first, and before the second.
pub(crate) fn all(prefix: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![prefix], vec![prefix + 1])
}

/// The number behind the first byte of a key; 0 if there is none, which no number is.
pub(crate) fn number(key: &[u8]) -> u64 {
    key.get(1..9).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// The target of a key of [`target`]; `None` if it is another key.
pub(crate) fn target_of(key: &[u8]) -> Option<TargetId> {
    let bytes = key.get(1..)?.try_into().ok()?;
    Some(TargetId(u128::from_be_bytes(bytes)))
}

/// The user of a key of [`user`]; `None` if it is another key.
pub(crate) fn user_of(key: &[u8]) -> Option<u32> {
    let bytes = key.get(1..)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// What is under a key, as people are told.
pub(crate) fn in_words(key: &[u8]) -> String {
    let n = number(key);
    let rest = |from: usize| String::from_utf8_lossy(key.get(from..).unwrap_or_default()).escape_debug().to_string();
    match key.first().copied().unwrap_or_default() {
        b'M' => "what cluster this is".to_string(),
        b'T' => "how often the manager was opened".to_string(),
        b'E' => "the epochs of the map".to_string(),
        b'X' => "the numbers that are given next".to_string(),
        b'Q' if key == COPIED_ON => "which targets have copies".to_string(),
        b'Q' if key == WRITTEN => "how far copies were written".to_string(),
        b'Q' if key == OUTDATED => "which target has a newer copy".to_string(),
        b'Q' => "what copies may lack".to_string(),
        b'I' => format!("file or directory {n}"),
        b'D' => format!("the name {} in directory {n}", rest(9)),
        LAYOUTS => format!("where file {n} lies"),
        DEGRADED => format!("that file {n} lacks something"),
        MOVES => format!("what of file {n} is to lie elsewhere"),
        RING_MOVES => format!("what of ring {n} leaves targets"),
        b'V' => format!("volume {n}"),
        b'U' => format!("user {}", user_of(key).unwrap_or_default()),
        b'u' => format!("the user of the name {}", rest(1)),
        b'K' => format!("access key {n:016x}"),
        b'C' => format!("client {n:016x}"),
        b'R' => format!("what client {n:016x} was answered"),
        b'W' => format!("who writes file {n}"),
        CACHES => format!("that client {n:016x} keeps what it reads"),
        SHUT_OUT => format!("that client {n:016x} is shut out"),
        b'S' => format!("that file {n} has to be scrubbed"),
        b'Y' => format!("when file {n} was verified"),
        FENCES => format!("the version of the objects of file {n}"),
        REMOVALS => format!("the objects of file {n}, which was removed"),
        LEFTOVERS => format!("what file {n} left behind elsewhere"),
        b'N' => format!("node {n}"),
        b'G' => format!("target {}", target_of(key).unwrap_or(TargetId(0))),
        _ => format!("something under {}", key.escape_ascii()),
    }
}

fn numbered(prefix: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(24);
    key.push(prefix);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The first key behind all those that begin with `key`, whose first byte is no 255.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    while key.last() == Some(&u8::MAX) {
        key.pop();
    }
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}
