//! What the operating system lets this process have: open files, and memory.

use forebay_model::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// What the first version of control groups says where there is no limit, or more.
const NO_LIMIT: u64 = 1 << 62;

/// The memory that this process may have, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// How much.
    pub most: Bytes,
    /// What says so, as people know it.
    pub of: String,
    /// Whether that counts addresses, also those behind which there is no memory.
    pub is_of_addresses: bool,
}

/// Files and connections that this process may have open at once: as many as it may give itself, which it does.
pub fn files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        return maximum.unwrap_or(u64::MAX);
    }
    current.unwrap_or(u64::MAX)
}

/// The least limit of the memory of this process, if there is any.
pub fn memory() -> Option<MemoryLimit> {
    let of_process = [(Resource::Data, "RLIMIT_DATA", false), (Resource::As, "RLIMIT_AS", true)];
    let of_process = of_process.into_iter().filter_map(|(resource, of, is_of_addresses)| {
        let most = Bytes(getrlimit(resource).current?);
        Some(MemoryLimit { most, of: of.to_string(), is_of_addresses })
    });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups_files(&groups).into_iter().filter_map(|path| {
        let most = limit_in(&std::fs::read_to_string(&path).ok()?)?;
        Some(MemoryLimit { most, of: path.display().to_string(), is_of_addresses: false })
    });
    of_process.chain(of_groups).min_by_key(|limit| limit.most)
}

/// The files with limits of the control groups that `/proc/self/cgroup` names, and of all that these are in.
fn groups_files(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (mounts, file): (&[&str], _) = match controllers {
            "" => (&["", "unified"], "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => (&["memory"], "memory.limit_in_bytes"),
            _ => continue,
        };
        for mount in mounts {
            let place = |group: &Path| Path::new(GROUPS).join(mount).join(group).join(file);
            found.extend(Path::new(group.trim_start_matches('/')).ancestors().map(place));
        }
    }
    found
}

/// The limit in such a file, if it has any.
fn limit_in(text: &str) -> Option<Bytes> {
    text.trim().parse().ok().filter(|most| *most < NO_LIMIT).map(Bytes)
}

#[cfg(test)]
mod tests;
