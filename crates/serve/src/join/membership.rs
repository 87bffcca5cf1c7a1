//! As which node of which cluster a directory serves: two files in it.
//!
//! - [`MEMBER`]: one line, `forebay-node 1 NODE CLUSTER MANAGER`; the cluster in hexadecimal, the manager as it was reached last.
//! - [`KEY`]: the node's access key, for nobody else to read.

use crate::key;
use forebay_control::AccessKey;
use forebay_env::real::file;
use forebay_model::{Error, Result};
use std::path::Path;

/// The file that says as which node.
pub const MEMBER: &str = "node";
/// The file with the node's key.
pub const KEY: &str = "node.key";

const BEGINNING: &str = "forebay-node 1 ";

/// As which node of which cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The node.
    pub node: u64,
    /// The cluster.
    pub cluster: u128,
    /// Its manager, as it was reached last.
    pub manager: String,
}

/// What a directory remembers; nothing if it never joined, or not to the end.
pub fn read(dir: &Path) -> Result<Option<(Membership, AccessKey)>> {
    let path = dir.join(MEMBER);
    if !file::exists(&path) {
        return Ok(None);
    }
    let text = file::read_text(&path)?;
    let membership = parse(&text).ok_or_else(|| {
        Error::damaged(format!(
            "{} does not say as which node this serves: it is one line, {BEGINNING}NODE CLUSTER MANAGER; remove it, and join \
             anew",
            path.display()
        ))
    })?;
    Ok(Some((membership, key::read(&dir.join(KEY))?)))
}

impl Membership {
    /// Remembers it, and the key: last what says that there is one.
    pub(crate) fn write(&self, dir: &Path, key: &AccessKey) -> Result<()> {
        key::replace(&dir.join(KEY), key)?;
        file::replace(dir.join(MEMBER), self.line().as_bytes())
    }

    /// Remembers that the manager is at this address.
    pub(crate) fn moved(&self, dir: &Path, manager: &str) -> Result<()> {
        if self.manager == manager {
            return Ok(());
        }
        let moved = Membership { manager: manager.to_string(), ..self.clone() };
        file::replace(dir.join(MEMBER), moved.line().as_bytes())
    }

    fn line(&self) -> String {
        format!("{BEGINNING}{} {:032x} {}\n", self.node, self.cluster, self.manager)
    }
}

fn parse(text: &str) -> Option<Membership> {
    let mut words = text.strip_suffix('\n')?.strip_prefix(BEGINNING)?.split(' ');
    let (node, cluster, manager) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || manager.is_empty() || cluster.len() != 32 {
        return None;
    }
    let cluster = u128::from_str_radix(cluster, 16).ok()?;
    Some(Membership { node: node.parse().ok()?, cluster, manager: manager.to_string() })
}

#[cfg(test)]
mod tests;
