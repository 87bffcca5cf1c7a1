//! Making the metadata of a directory anew from its targets, while nobody serves it.
//!
//! Always: what is there is left beside it, and whatever goes wrong before the end leaves everything as it was.

use crate::copies::OnHosts;
use crate::key;
use crate::limits::METADATA_CACHE;
use crate::server::{METADATA, ROOT_KEY, policy};
use forebay_embedded::{Owned, own};
use forebay_env::real::random::KernelRandom;
use forebay_env::real::{self, file};
use forebay_manager::Redb;
pub use forebay_manager::recover::look::Progress;
use forebay_manager::recover::look::{Targets, look};
pub use forebay_manager::recover::{Finding, Recovered, What};
use forebay_manager::recover::{RingPart, recover as put_together};
use forebay_model::ring::{RingState, RingStatus};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::command::{Reply, Request};
use forebay_wire::heap::network::{heap_of, name_of as heap_name};
use forebay_wire::ring::ring_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    /// Targets of whose copies something is damaged; others may have had it.
    pub damaged: Vec<TargetId>,
    /// The targets that were looked at.
    pub targets: Vec<TargetId>,
    /// Directories whose targets could not be opened, and why.
    pub lost: Vec<(PathBuf, Error)>,
    /// Where the metadata is now that was there before.
    pub old: Option<PathBuf>,
    /// The file with root's key.
    pub key: PathBuf,
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
    // A manager that runs would go on with what is left beside the new one, and forget that at its next start.
    let lock = there.then(|| file::Lock::try_take(&path)).transpose()?;
    if lock.as_ref().is_some_and(Option::is_none) {
        return Err(Error::busy(format!(
            "a manager uses {}; stop it first, or its clients go on with what is replaced (nothing was changed)",
            path.display()
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
    }
    seen.heaps = heaps_of_all(&owned)?;
    let counts = seen.chain.counts();
    let (furthest, behind): (Vec<_>, Vec<_>) =
        seen.chain.targets().partition(|(_, is_furthest, _)| counts && *is_furthest);
    let copy = furthest.first().map(|(target, ..)| *target);
    let behind = behind.into_iter().map(|(target, _, at)| (target, at)).collect();
    let is_whole = seen.chain.is_whole();
    let damaged = seen.chain.damaged().into_iter().collect();
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
    Ok(Recovery { recovered, copy, is_whole, behind, damaged, targets, lost, old, key })
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

/// The parts of rings of the cluster's tree on the targets of a directory.
fn rings(owned: &Owned) -> Result<Vec<((TargetId, ObjectId), RingPart)>> {
    let mut all = Vec::new();
    for (target, reply) in owned.host().call_each(&Request::Status { ring: None })? {
        for name in statuses(target, reply)?.into_iter().map(|ring| ring.spec.name) {
            if let Some(ring) = ring_of(&name) {
                all.push(((target, ring), part(owned, target, &name)?));
            }
        }
    }
    Ok(all)
}

/// What a target has of a ring, once it knows how far that goes.
fn part(owned: &Owned, target: TargetId, name: &str) -> Result<RingPart> {
    loop {
        // That waits for a while.
        let reply = owned.host().call_at(target, &Request::Status { ring: Some(name.to_string()) })?;
        match statuses(target, reply)?.first() {
            Some(ring) if ring.state == RingState::Recovering => {}
            Some(ring) => return Ok(RingPart::of(ring)),
            None => return Err(Error::damaged(format!("target {target} told nothing of its ring {name}"))),
        }
    }
}

fn statuses(target: TargetId, reply: Reply) -> Result<Vec<RingStatus>> {
    match reply {
        Reply::Rings(rings) => Ok(rings),
        _ => Err(Error::damaged(format!("target {target} told of something else than its rings"))),
    }
}

/// Its heaps on all of them, and how far those are that are on several.
fn heaps_of_all(all: &[Owned]) -> Result<BTreeMap<(TargetId, ObjectId), u64>> {
    let mut found = Vec::new();
    for owned in all {
        found.extend(heaps(owned)?.into_iter().map(|place| (owned, place)));
    }
    let is_on_others =
        |(target, heap): (TargetId, ObjectId)| found.iter().any(|(_, other)| other.1 == heap && other.0 != target);
    let far = |owned: &Owned, place| if is_on_others(place) { last_commit(owned, place) } else { 0 };
    Ok(found.iter().map(|(owned, place)| (*place, far(owned, *place))).collect())
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

/// How far a heap is; 0 if it cannot be opened.
fn last_commit(owned: &Owned, (target, heap): (TargetId, ObjectId)) -> u64 {
    match owned.host().call_at(target, &Request::HeapInfo { heap: heap_name(heap) }) {
        Ok(Reply::Heap(info)) => info.last.commit,
        _ => 0,
    }
}
