//! Users, their access keys, and how a connection proves whose it is.
//!
//! Both sides choose a nonce; whoever has the key says a code over both that takes the key's secret to compute. The secret
//! itself is never sent after it was issued, and what was overheard is no use on another connection.

use forebay_model::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a proof is told from other codes by.
const OF_CONNECTIONS: &[u8] = b"forebay 2026-11 proof of an access key";

/// The user who may do everything.
pub const ROOT_USER: u32 = 0;
/// The most groups of a user.
pub const MOST_GROUPS: usize = 256;

/// Bytes that no message and no log shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden(pub Vec<u8>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(not told)")
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its number; 0 is root.
    pub user: u32,
    /// What people call it.
    pub name: String,
    /// Its groups; what it makes belongs to the first.
    pub groups: Vec<u32>,
}

/// Removes a user and its keys. What belongs to it stays, and belongs to a number without a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveUser {
    /// Which.
    pub user: u32,
}

/// Makes an access key for a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueKey {
    /// For whom.
    pub user: u32,
    /// What it is for, in people's words.
    pub label: String,
}

/// A key that was made just now: the only time that its secret is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedKey {
    /// Its id.
    pub key: u64,
    /// Its secret: 32 bytes.
    pub secret: Hidden,
}

/// An access key without what is secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its id.
    pub key: u64,
    /// Whose it is.
    pub user: u32,
    /// What it is for.
    pub label: String,
    /// When it was made.
    pub issued: Timestamp,
}

/// Asks for the keys of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Whose.
    pub user: u32,
}

/// Takes a key back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKey {
    /// Which.
    pub key: u64,
}

/// What a client says first: which key it has, and who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The key.
    pub key: u64,
    /// The client: a number by chance, the same for as long as it wants to be known.
    pub client: u64,
    /// Its nonce.
    pub nonce: [u8; 16],
}

/// What the manager answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The manager's nonce.
    pub nonce: [u8; 16],
}

/// That the client has the secret of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// [`proof`] of what was said.
    pub proof: [u8; 32],
}

/// The code that shows that somebody has the secret of a key.
pub fn proof(secret: &[u8; 32], hello: &Hello, challenge: &Challenge) -> [u8; 32] {
    let mut code = blake3::Hasher::new_keyed(secret);
    code.update(OF_CONNECTIONS).update(&hello.key.to_le_bytes()).update(&hello.client.to_le_bytes());
    code.update(&hello.nonce).update(&challenge.nonce);
    *code.finalize().as_bytes()
}

/// Whether two codes are the same, without telling by the time where they differ.
pub fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    blake3::Hash::from_bytes(*one) == blake3::Hash::from_bytes(*other)
}
