//! Makes the catalog durable, whole, twice.
//!
//! Order of durable steps: area, flush, root, flush for one pair, then for the other. A power cut anywhere leaves at
//! least one root whose checkpoint is whole: the other pair, or the new one. Opening takes the newest whole pair and
//! writes the other one first, since that may be damaged or half written; so damage to one copy is repaired, and said.
//! Each area has a copy of its root behind the catalog, so that whoever has lost both roots finds it.
//!
//! A device may lose a write, or do it elsewhere, and say that it did it: where that was of one pair, and went over the
//! other one, neither is left. So what was written last is read back, and written again if it is not there. The pair
//! of which that is known is the one that the next commit writes last.
//!
//! Who looks beside an owner that commits sees copies that are only half written: [`load_beside`] tells them from damaged ones, which
//! stay as they are.

use crate::catalog::Catalog;
use crate::layout::{ROOT_LEN, ROOTS};
use crate::schedule::{Class, Scheduler};
use crate::superblock::Superblock;
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, Kind, Result};
use std::time::Duration;

/// How often it is looked at most beside an owner, and how often nothing may have changed since a look before that counts.
const LOOKS: u32 = 20;
const ALIKE: u32 = 6;
/// The pause after the first look. It doubles while nothing changes, so that what is damaged was so for longer than a second: a commit
/// may wait as long for the device.
const PAUSE: Duration = Duration::from_millis(20);

/// What opening found of the two copies.
pub struct Found {
    /// The newest whole superblock.
    pub superblock: Superblock,
    /// Its catalog.
    pub catalog: Catalog,
    /// Which pair this is: the other one may not be whole.
    pub pair: usize,
    /// What was wrong with a copy, in sentences; the copies are repaired by the next commit.
    pub complaints: Vec<String>,
}

/// When it is looked for what a commit wrote last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBack {
    /// Before the commit counts.
    First,
    /// By the caller, with [`is_there`].
    Later,
}

/// Writes both copies, pair `first` before the other. `superblock.generation` rises. Returns the pair that is to be
/// written last next time: if it was read back, the one that is known to be whole.
///
/// Where neither copy is there after it was written twice, nothing more is taken: the target stops.
pub async fn commit(
    disk: &Scheduler,
    superblock: &mut Superblock,
    catalog: &Catalog,
    first: usize,
    read_back: ReadBack,
) -> Result<usize> {
    let bytes = encode(superblock, catalog)?;
    superblock.generation += 1;
    superblock.checkpoint_len = bytes.len() as u64;
    superblock.checkpoint_crc = crc32c(&bytes);
    let bytes = area(superblock, bytes)?;
    let last = 1 - first;
    for which in [first, last] {
        write_pair(disk, superblock, &bytes, which).await?;
    }
    if read_back == ReadBack::Later {
        return Ok(last);
    }
    for which in [last, first] {
        if is_there(disk, superblock, which, Class::Metadata).await {
            return Ok(which);
        }
        disk.count_rewritten();
        write_pair(disk, superblock, &bytes, which).await?;
        if is_there(disk, superblock, which, Class::Metadata).await {
            return Ok(which);
        }
    }
    Err(disk.give_up(Error::device(format!(
        "neither copy of checkpoint {} is there when it is read back, after each was written twice; replace the device",
        superblock.generation
    ))))
}

/// Area, flush, root, flush of one pair.
async fn write_pair(disk: &Scheduler, superblock: &Superblock, area: &[u8], which: usize) -> Result<()> {
    write(disk, superblock.layout.area_at(which), area).await?;
    disk.flush_metadata().await?;
    write(disk, ROOTS[which], &root(superblock)?).await?;
    disk.flush_metadata().await
}

/// What lies in a root.
fn root(superblock: &Superblock) -> Result<Vec<u8>> {
    let mut root = vec![0; ROOT_LEN.0 as usize];
    superblock.encode(&mut root)?;
    Ok(root)
}

/// Whether pair `which` is on the device as the commit that `superblock` tells of wrote it: its root, the checkpoint and
/// the root's copy behind it. What cannot be read is not there.
pub async fn is_there(disk: &Scheduler, superblock: &Superblock, which: usize, class: Class) -> bool {
    let look = async {
        let is_root = read_as(disk, ROOTS[which], ROOT_LEN, class).await? == root(superblock)?;
        let end = superblock.beside(which) + Bytes(superblock.copy()?.len() as u64);
        let at = superblock.layout.area_at(which);
        let area = read_as(disk, at, end - at, class).await?;
        let (catalog, _) = area.split_at(superblock.checkpoint_len as usize);
        let behind = &area[(superblock.beside(which) - at).0 as usize..];
        Ok::<_, Error>(is_root && crc32c(catalog) == superblock.checkpoint_crc && behind == superblock.copy()?)
    };
    look.await.unwrap_or(false)
}

/// Writes the catalog that `superblock` tells of into area `which`, and nothing else.
pub async fn write_area(disk: &Scheduler, superblock: &Superblock, catalog: &Catalog, which: usize) -> Result<()> {
    let bytes = area(superblock, encode(superblock, catalog)?)?;
    write(disk, superblock.layout.area_at(which), &bytes).await?;
    disk.flush_metadata().await
}

/// What lies in the area of an encoded catalog: that, and a copy of the superblock behind it.
fn area(superblock: &Superblock, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let behind = superblock.beside(0) - superblock.layout.area_at(0);
    bytes.resize(behind.0 as usize, 0);
    bytes.extend_from_slice(&superblock.copy()?);
    Ok(bytes)
}

/// A catalog's bytes, if they fit its area with a copy of the superblock behind them.
pub fn encode(superblock: &Superblock, catalog: &Catalog) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(catalog).map_err(not_encoded)?;
    let most = most(superblock)?;
    if bytes.len() as u64 > most.0 {
        return Err(Error::full(format!(
            "the catalog would take {}, and its area has {most}; use larger segments or fewer pins",
            Bytes(bytes.len() as u64)
        )));
    }
    Ok(bytes)
}

/// The most that a catalog may take in its area, with a copy of the superblock behind it.
pub fn most(superblock: &Superblock) -> Result<Bytes> {
    // As long as it can become.
    let numbers =
        Superblock { generation: u64::MAX, checkpoint_len: u64::MAX, checkpoint_crc: u32::MAX, ..superblock.clone() };
    let beside = Bytes(numbers.copy()?.len() as u64);
    Ok(superblock.layout.area.saturating_sub(beside).align_down(Bytes(4096)))
}

/// What a catalog takes, or a part of one in it.
pub fn size(part: &impl serde::Serialize) -> Result<Bytes> {
    let bytes = postcard::experimental::serialized_size(part).map_err(not_encoded)?;
    Ok(Bytes(bytes as u64))
}

fn not_encoded(error: postcard::Error) -> Error {
    Error::usage(format!("the catalog cannot be encoded: {error}"))
}

/// The superblocks, without their checkpoints.
pub struct Roots {
    /// The whole ones, each with its number.
    pub whole: Vec<(usize, Superblock)>,
    /// What is wrong with the others.
    pub complaints: Vec<String>,
    /// Why one that was written cannot be read.
    pub failure: Option<Error>,
}

/// Reads both superblocks.
pub async fn roots(disk: &Scheduler) -> Result<Roots> {
    let geometry = disk.geometry().clone();
    let mut complaints = Vec::new();
    let mut whole = Vec::new();
    let mut failure: Option<Error> = None;
    for (which, offset) in ROOTS.into_iter().enumerate() {
        if offset + ROOT_LEN > geometry.size {
            return Err(Error::usage(format!(
                "{} has only {}; it is not a Forebay target",
                geometry.name, geometry.size
            )));
        }
        match read(disk, offset, ROOT_LEN).await.and_then(|b| Superblock::decode(&b)) {
            Ok(Some(superblock)) => {
                superblock.check_size(geometry.size, &geometry.name)?;
                whole.push((which, superblock));
            }
            Ok(None) => complaints.push(format!("superblock copy {which} is missing")),
            Err(error) => {
                // An unknown newer version is refused even if the other copy is older: nothing is converted silently.
                if error.kind == forebay_model::Kind::Version {
                    return Err(error.of(&geometry.name));
                }
                complaints.push(format!("superblock copy {which}: {error}"));
                failure = Some(error);
            }
        }
    }
    Ok(Roots { whole, complaints, failure })
}

/// Reads both copies and takes the newest whole one.
pub async fn load(disk: &Scheduler) -> Result<Found> {
    let Roots { whole: mut roots, mut complaints, mut failure } = roots(disk).await?;
    let name = &disk.geometry().name;
    roots.sort_by_key(|(_, s)| std::cmp::Reverse(s.generation));
    let mut found: Option<Found> = None;
    for (which, superblock) in roots {
        // The other copy of the same commit is looked at, too: damage that was repaired unseen would come again.
        if found.as_ref().is_some_and(|found| found.superblock.generation != superblock.generation) {
            break;
        }
        match load_catalog(disk, &superblock, which).await {
            Ok(catalog) => {
                if let Err(error) = check_beside(disk, &superblock, which).await {
                    complaints.push(format!("superblock behind checkpoint copy {which}: {error}"));
                }
                found.get_or_insert(Found { superblock, catalog, pair: which, complaints: Vec::new() });
            }
            Err(error) => {
                complaints.push(format!("checkpoint copy {which}: {error}"));
                failure = Some(error);
            }
        }
    }
    if let Some(found) = found {
        return Ok(Found { complaints, ..found });
    }
    Err(match failure {
        Some(error) => Error::damaged(format!(
            "{name}: no whole superblock and checkpoint is left ({error}); `forebay check {name} --rebuild` says what can be made anew (nothing was changed)"
        )),
        None => Error::usage(format!(
            "{name} is not formatted; use `forebay format`, or `forebay check {name} --rebuild` if it was a target"
        )),
    })
}

/// As [`load`], of a device that its owner may be writing: as damaged counts only what stays as it is. [`Kind::Busy`] where no copy is
/// whole, and what is there changes all the time.
pub async fn load_beside(disk: &Scheduler) -> Result<Found> {
    let (mut before, mut alike, mut pause) = (None, 0, PAUSE);
    let mut found = load(disk).await;
    for _ in 1..LOOKS {
        if !is_doubtful(&found) {
            return found;
        }
        let seen = Some(seen(disk).await);
        (alike, pause) = if before == seen { (alike + 1, pause * 2) } else { (0, PAUSE) };
        if alike == ALIKE {
            return found;
        }
        before = seen;
        disk.env().clock.sleep(pause).await;
        found = load(disk).await;
    }
    match found {
        // What is being written is not damaged.
        Ok(found) => Ok(Found { complaints: Vec::new(), ..found }),
        Err(error) if error.kind == Kind::Damaged => Err(Error::busy(format!(
            "{}: superblock and checkpoint are written all the time, and no copy of them was whole when it was looked ({error}); \
             look again",
            disk.geometry().name
        ))),
        Err(error) => Err(error),
    }
}

/// Whether what was found may look so because it is being written.
fn is_doubtful(found: &Result<Found>) -> bool {
    match found {
        Ok(found) => !found.complaints.is_empty(),
        Err(error) => error.kind == Kind::Damaged,
    }
}

/// What tells a look from another: the checksums of both roots, and of the areas that they tell of, as far as they can be read.
async fn seen(disk: &Scheduler) -> Vec<Option<u32>> {
    let mut seen = Vec::new();
    for (which, at) in ROOTS.into_iter().enumerate() {
        let root = read(disk, at, ROOT_LEN).await.ok();
        seen.push(root.as_deref().map(crc32c));
        let superblock = root.and_then(|root| Superblock::decode(&root).ok().flatten());
        if let Some(superblock) = superblock
            && superblock.checkpoint_len <= superblock.layout.area.0
            && let Ok(copy) = superblock.copy()
        {
            let at = superblock.layout.area_at(which);
            let end = superblock.beside(which) + Bytes(copy.len() as u64);
            seen.push(read(disk, at, end - at).await.ok().as_deref().map(crc32c));
        }
    }
    seen
}

/// The catalog that `superblock` tells of, from area `which`; both areas should hold it.
pub async fn load_catalog(disk: &Scheduler, superblock: &Superblock, which: usize) -> Result<Catalog> {
    if superblock.checkpoint_len > superblock.layout.area.0 {
        return Err(Error::damaged("a checkpoint is longer than its area"));
    }
    let length = Bytes(superblock.checkpoint_len);
    let bytes = read(disk, superblock.layout.area_at(which), length).await?;
    if crc32c(&bytes) != superblock.checkpoint_crc {
        return Err(Error::damaged("the checksum does not match"));
    }
    let catalog: Catalog =
        postcard::from_bytes(&bytes).map_err(|e| Error::damaged(format!("it cannot be decoded: {e}")))?;
    if catalog.groups.len() != superblock.layout.groups as usize {
        return Err(Error::damaged(format!(
            "it has {} groups where the layout has {}",
            catalog.groups.len(),
            superblock.layout.groups
        )));
    }
    Ok(catalog)
}

/// Whether the superblock behind the checkpoint in area `which` is this one.
async fn check_beside(disk: &Scheduler, superblock: &Superblock, which: usize) -> Result<()> {
    let copy = superblock.copy()?;
    match read(disk, superblock.beside(which), Bytes(copy.len() as u64)).await? == copy {
        true => Ok(()),
        false => Err(Error::damaged("it is not the one before it")),
    }
}

/// Writes `bytes`, padded with zeros to whole blocks.
async fn write(disk: &Scheduler, offset: Bytes, bytes: &[u8]) -> Result<()> {
    for (i, part) in bytes.chunks(Bytes::mib(1).0 as usize).enumerate() {
        let mut buffer = Buffer::alone(Bytes(part.len() as u64).align_up(Bytes(4096)))?;
        buffer[..part.len()].copy_from_slice(part);
        disk.write_metadata(offset + Bytes::mib(1) * i as u64, buffer).await.1?;
    }
    Ok(())
}

async fn read(disk: &Scheduler, offset: Bytes, length: Bytes) -> Result<Vec<u8>> {
    read_as(disk, offset, length, Class::Metadata).await
}

/// Reads before all else, or in the background when nothing else is done.
async fn read_as(disk: &Scheduler, offset: Bytes, length: Bytes, class: Class) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.0 as usize);
    while (bytes.len() as u64) < length.0 {
        let at = Bytes(bytes.len() as u64);
        let part = (length - at).align_up(Bytes(4096)).min(Bytes::mib(1));
        let buffer = Buffer::alone(part)?;
        let (buffer, result) = match class {
            Class::Background => disk.read_when_quiet(offset + at, buffer).await,
            _ => disk.read_metadata(offset + at, buffer).await,
        };
        result?;
        bytes.extend_from_slice(&buffer[..(length - at).min(part).0 as usize]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
