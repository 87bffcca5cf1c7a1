//! Making the metadata of a directory anew from its targets, while nobody serves it.
//!
//! Always: what is there is left beside it, and whatever goes wrong before the end leaves everything as it was.

use crate::copies::{OnHosts, strange};
use crate::key;
use crate::limits::METADATA_CACHE;
use crate::server::{METADATA, ROOT_KEY, policy};
use forebay_embedded::{Owned, own};
use forebay_env::real::random::KernelRandom;
use forebay_env::real::{self, file};
use forebay_manager::Redb;
use forebay_manager::copies::{Chain, VOLUME};
use forebay_manager::recover::{Component, Seen, recover as put_together};
pub use forebay_manager::recover::{Finding, Recovered, What};
use forebay_model::object::{FENCE, FENCES, FIRST_FENCE, LENGTHS};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::command::{Reply, Request};
use forebay_wire::heap::network::heap_of;
use forebay_wire::object::{Ask, COMPANION, DESCRIBED, Described, MOST_AT_ONCE, ObjectAnswer, ObjectInfo, ObjectReply};
use forebay_wire::ring::ring_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As many nodes as are served by one process.
const MOST_NODES: u32 = 1000;

/// What came of it.
#[derive(Debug)]
pub struct Recovery {
    /// What was made.
    pub recovered: Recovered,
    /// The newest copy that it was made of, by its target.
    pub copy: Option<TargetId>,
    /// Whether copies have all that there was when it was written last; if not, some of it is as it was when another one was.
    pub is_whole: bool,
    /// Copies that are older, or none while no copy counts, and when each was written last.
    pub behind: Vec<(TargetId, Timestamp)>,
    /// The targets that were looked at.
    pub targets: Vec<TargetId>,
    /// Directories whose targets could not be opened, and why.
    pub lost: Vec<(PathBuf, Error)>,
    /// Where the metadata is now that was there before.
    pub old: Option<PathBuf>,
    /// The file with root's key.
    pub key: PathBuf,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Targets that were looked at, and all.
    pub targets: (usize, usize),
    /// Objects that were found.
    pub objects: u64,
}

/// Makes metadata anew in `dir`, which is served by nobody; in place of what is there only if that was said. Targets are looked for
/// there and in `also`.
pub fn recover(
    dir: &Path,
    also: &[PathBuf],
    over: bool,
    told: impl FnMut(Progress) + Send + 'static,
) -> Result<Recovery> {
    let path = dir.join(METADATA);
    let there = file::exists(&path);
    if there && !over {
        return Err(Error::exists(format!(
            "{} is there: `forebay serve {}` uses it; if that cannot be, say --over, and it is left beside the new one (nothing was \
             changed)",
            path.display(),
            dir.display()
        )));
    }
    let (mut owned, mut lost) = (Vec::new(), Vec::new());
    for dir in directories(dir, also.is_empty())?.into_iter().chain(also.iter().cloned()) {
        match own(&dir) {
            Ok(one) => owned.push(one),
            Err(error) if error.kind == Kind::Busy => return Err(error),
            Err(error) => lost.push((dir, error)),
        }
    }
    if owned.is_empty() {
        let why = lost.into_iter().next().map(|(_, error)| error);
        return Err(why.unwrap_or_else(|| {
            Error::missing(format!("{} has no targets; name the directory that was served", dir.display()))
        }));
    }
    let hosts = OnHosts::new(owned.iter().map(Owned::host));
    let targets = hosts.targets();
    let looked = real::run_network(move |_| async move { look(&hosts, told).await })?;
    let mut seen = looked?;
    for one in &owned {
        seen.rings.extend(rings(one)?);
        seen.heaps.extend(heaps(one)?);
    }
    let counts = seen.chain.counts();
    let (furthest, behind): (Vec<_>, Vec<_>) =
        seen.chain.targets().partition(|(_, is_furthest, _)| counts && *is_furthest);
    let copy = furthest.first().map(|(target, ..)| *target);
    let behind = behind.into_iter().map(|(target, _, at)| (target, at)).collect();
    let is_whole = seen.chain.is_whole();
    for one in &owned {
        one.close()?;
    }
    let draft = dir.join(format!("{METADATA}.draft"));
    file::remove(&draft)?;
    file::create_secret(&draft, &[])?;
    let mut engine = Redb::open(&draft, METADATA_CACHE)?;
    let now = real::clock::wall();
    let recovered = put_together(&mut engine, seen, policy(None, targets.len()), now, &KernelRandom::default())?;
    drop(engine);
    let old = there.then(|| beside(&path));
    if let Some(old) = &old {
        file::rename(&path, old)?;
    }
    // The key first: without it nobody could use what is there, and with it nothing is there yet that it opens.
    let key = dir.join(ROOT_KEY);
    if file::exists(&key) {
        file::rename(&key, beside(&key))?;
    }
    key::create(&key, &key::of_issued(&recovered.issued)?)?;
    file::rename(&draft, &path)?;
    Ok(Recovery { recovered, copy, is_whole, behind, targets, lost, old, key })
}

/// The directories with targets: this one, or those of its nodes. A manager's directory need not have any, if others do.
fn directories(dir: &Path, is_alone: bool) -> Result<Vec<PathBuf>> {
    if !file::is_directory(dir) {
        return Err(Error::missing(format!("there is no directory {}; name the one that was served", dir.display())));
    }
    let nodes = (1..=MOST_NODES).map(|node| dir.join(format!("node-{node}"))).filter(|dir| file::is_directory(dir));
    let nodes: Vec<PathBuf> = nodes.collect();
    let own = file::exists(dir.join("cluster.toml")) || nodes.is_empty() && is_alone;
    Ok(own.then(|| dir.to_path_buf()).into_iter().chain(nodes).collect())
}

/// A name that nothing has.
fn beside(path: &Path) -> PathBuf {
    let named = |number: u64| PathBuf::from(format!("{}.old-{number}", path.display()));
    (1..).map(named).find(|path| !file::exists(path)).unwrap_or_else(|| named(0))
}

/// Looks at all that is on targets but rings and heaps.
async fn look(hosts: &OnHosts, mut told: impl FnMut(Progress)) -> Result<Seen> {
    let targets = hosts.targets();
    let (mut seen, mut copies) = (Seen::default(), BTreeMap::new());
    for (at, target) in targets.iter().copied().enumerate() {
        told(Progress { targets: (at, targets.len()), objects: seen.components.len() as u64 });
        for info in hosts.list(target, VOLUME, None).await? {
            copies.insert((info.id.object, target), Bytes(info.head.size));
        }
        let volumes = hosts.list(target, 0, None).await?;
        for volume in volumes.into_iter().map(|info| info.id.volume).filter(|volume| *volume != VOLUME) {
            seen.components.extend(components(hosts, target, volume).await?);
        }
    }
    told(Progress { targets: (targets.len(), targets.len()), objects: seen.components.len() as u64 });
    // What one of them lacks another one may have.
    for ((object, target), size) in copies {
        seen.chain.begin(target, object);
        read_copy(hosts, target, object, size, &mut seen.chain).await?;
    }
    Ok(seen)
}

/// Reads an object of copies.
async fn read_copy(hosts: &OnHosts, target: TargetId, object: u64, size: Bytes, chain: &mut Chain) -> Result<()> {
    let id = ObjectId { volume: VOLUME, object };
    let mut offset = 0;
    while offset < size.0 {
        let length = (size.0 - offset).min(MOST_AT_ONCE.0) as u32;
        match hosts.ask(target, Ask::Read { id, offset, length }, Arc::default()).await {
            Ok(ObjectAnswer { reply: ObjectReply::Bytes, payload, .. }) => chain.take(&payload.into_vec())?,
            Ok(answer) => return Err(strange(target, &answer.reply)),
            // What follows counts only with what is damaged; another target may have it.
            Err(error) if error.kind == Kind::Damaged => return Ok(()),
            Err(error) => {
                return Err(error.of(format!(
                    "reading a copy of metadata on target {target}; to do without it, move its directory away"
                )));
            }
        }
        offset += u64::from(length);
    }
    Ok(())
}

/// What may be components of files in a volume of a target.
async fn components(hosts: &OnHosts, target: TargetId, volume: u64) -> Result<Vec<Component>> {
    let mut found: BTreeMap<ObjectId, Component> = BTreeMap::new();
    for ObjectInfo { id, head, attributes } in hosts.list(target, volume, Some(DESCRIBED)).await? {
        if id.object & COMPANION == 0 {
            let described = Described::find(&attributes);
            let (size, modified) = (Bytes(head.size), head.modified);
            found.insert(
                id,
                Component { target, object: id, size, modified, fence: FIRST_FENCE, said: None, described },
            );
        }
    }
    for ObjectInfo { id, attributes, .. } in hosts.list(target, volume, Some(FENCES)).await? {
        let fence = attributes.iter().find(|(number, _)| *number == FENCE).and_then(|(_, value)| number(value, 0));
        if let (Some(component), Some(fence)) = (found.get_mut(&id), fence) {
            component.fence = fence;
        }
    }
    for ObjectInfo { id, attributes, .. } in hosts.list(target, volume, Some(LENGTHS)).await? {
        let said = attributes.iter().filter_map(|(_, value)| Some((number(value, 0)?, Bytes(number(value, 8)?)))).max();
        found.entry(id).and_modify(|component| component.said = said);
    }
    Ok(found.into_values().collect())
}

fn number(value: &[u8], at: usize) -> Option<u64> {
    value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The rings of the cluster's tree on the targets of a directory.
fn rings(owned: &Owned) -> Result<Vec<(TargetId, ObjectId)>> {
    let mut all = Vec::new();
    for (target, reply) in owned.host().call_each(&Request::Status { ring: None })? {
        let Reply::Rings(rings) = reply else {
            return Err(Error::damaged(format!("target {target} told of something else than its rings")));
        };
        all.extend(rings.iter().filter_map(|ring| ring_of(&ring.spec.name)).map(|ring| (target, ring)));
    }
    Ok(all)
}

/// Its heaps there.
fn heaps(owned: &Owned) -> Result<Vec<(TargetId, ObjectId)>> {
    let mut all = Vec::new();
    for (target, reply) in owned.host().call_each(&Request::Heaps)? {
        let Reply::Heaps(heaps) = reply else {
            return Err(Error::damaged(format!("target {target} told of something else than its heaps")));
        };
        all.extend(heaps.iter().filter_map(|heap| heap_of(&heap.name)).map(|heap| (target, heap)));
    }
    Ok(all)
}
