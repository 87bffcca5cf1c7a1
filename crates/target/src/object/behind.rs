//! Write-behind: bytes that were acknowledged as buffered, in memory until they go home together.
//!
//! Owns what is buffered: for each object whole blocks, with the size that it has by them. Reads and all that is said of an
//! object take them in at once. Bounded in bytes ([`MOST_BUFFERED`]): who writes beyond that waits. At home there is room for
//! all of it before it is acknowledged, and a flush writes it through [`super::gather`], each object's in one record; small
//! objects go into rows instead ([`super::inline`]) where these have room. So of what is lost in a crash, each write is whole
//! or absent, and no write of an object is there without those before it.
//!
//! Nothing that an object's other commands do comes before what was buffered: they flush it first ([`Objects::settle`]).
//! A flush takes a layer of blocks and locks nothing; what is written meanwhile begins the next layer.

mod layer;

use super::apply::needs;
use super::gather::{Chunk, Loose, newest, pieces};
use super::given::{Given, Kept};
use super::journal::Content;
use super::read::missing;
use super::record::{Change, Draft, Write};
use super::rows::{BLOCK, Crcs, Head};
use super::write::{Taken, known};
use super::{Objects, Work};
use crate::catalog::GroupClass;
use forebay_model::object::Scope;
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Result};
use layer::Layer;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// The most bytes that are buffered on a target (Panasas, FAST 2008, section 4.2: 32 MB).
pub const MOST_BUFFERED: Bytes = Bytes::mib(32);
/// Buffered at which a flush begins, so that there is room while it is under way.
const MANY: Bytes = Bytes(MOST_BUFFERED.0 / 2);
/// The same where nothing rotates: nothing is gained there by longer ways, and whoever waits for all of it waits for less.
const MANY_FLAT: Bytes = Bytes::mib(4);
/// How long bytes stay buffered at most when nobody asks for a flush.
const LONGEST: Duration = Duration::from_secs(5);
/// How often that is looked at; bytes go home when nothing else was done for so long.
const LOOK: Duration = Duration::from_secs(1);
/// How often who writes looks for room beside what cannot go home since it is damaged.
const MOST_ATTEMPTS: u32 = 8;
/// Places of blocks in memory begin here: behind every device.
const IN_MEMORY: u64 = 1 << 48;
/// Bytes that a block takes in a record at most, when it lies apart from all others.
const IN_RECORD: u64 = 28;

/// What is wanting before bytes can be taken in.
enum Room {
    /// What is buffered there has to go home.
    InMemory(Scope),
    /// Blocks that are free.
    AtHome,
}

#[derive(Default)]
struct Layers {
    now: Layer,
    /// On its way home.
    going: Option<Layer>,
}

/// What is buffered.
#[derive(Default)]
pub(super) struct Behind {
    objects: BTreeMap<ObjectId, Layers>,
    blocks: u64,
    /// Blocks of memory that these take, with what they replaced.
    weight: u64,
    next_at: u64,
    flushing: bool,
    /// Objects that are being removed: what is buffered of them ends with them.
    held: BTreeSet<ObjectId>,
    /// Nothing more is taken in.
    closed: bool,
}

impl Behind {
    /// Blocks that are buffered: as many are promised room at home.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    fn layers(&self, id: ObjectId) -> impl Iterator<Item = &Layer> {
        let layers = self.objects.get(&id);
        layers.into_iter().flat_map(|layers| layers.going.iter().chain([&layers.now]))
    }

    /// Since when what is buffered for longest has been.
    fn since(&self) -> Option<Moment> {
        let layers = self.objects.values().flat_map(|layers| layers.going.iter().chain([&layers.now]));
        layers.filter_map(|layer| layer.since).min()
    }

    fn has(&self, id: ObjectId, block: u64) -> bool {
        self.layers(id).any(|layer| layer.blocks().contains_key(&block))
    }

    /// Shows the blocks `first..end` of an object that are buffered, the oldest first: with what they are in, their place
    /// and checksum.
    pub(super) fn look(&self, id: ObjectId, first: u64, end: u64, mut look: impl FnMut(u64, &Rc<Content>, u64, u32)) {
        for layer in self.layers(id) {
            for (number, block) in layer.blocks().range(first..end) {
                look(*number, block.content(), block.at, block.crc);
            }
        }
    }

    fn is_in(&self, id: ObjectId, scope: Scope) -> bool {
        match scope {
            Scope::Target => true,
            Scope::Volume(volume) => id.volume == volume,
            Scope::Object(of) => id == of,
            Scope::Range(of, offset, length) => {
                let (first, end) = (offset / BLOCK.0, offset.saturating_add(length).div_ceil(BLOCK.0));
                id == of && first < end && self.layers(id).any(|l| l.blocks().range(first..end).next().is_some())
            }
        }
    }
}

impl Work {
    /// What is known of an object, with what is buffered of it.
    pub(super) fn head(&self, id: ObjectId) -> Option<Head> {
        let mut head = self.meta.head(id)?.clone();
        for layer in self.behind.layers(id).filter(|layer| layer.commands > 0) {
            head.size = head.size.max(layer.size);
            head.blocks += layer.grows;
            head.version += layer.commands;
            (head.modified, head.changed) = (layer.time, layer.time);
        }
        if let Some(volume) = &mut head.volume {
            volume.blocks += self.meta.buffered.get(&id.volume).copied().unwrap_or(0);
        }
        Some(head)
    }

    fn end_layer(&mut self, id: ObjectId, layer: &Layer) {
        self.behind.blocks -= layer.count();
        self.behind.weight -= layer.weight();
        let of_volume = self.meta.buffered.entry(id.volume).or_default();
        *of_volume -= layer.grows;
        if *of_volume == 0 {
            self.meta.buffered.remove(&id.volume);
        }
    }

    /// Drops what is buffered of an object that was removed.
    fn drop_buffered(&mut self, id: ObjectId) {
        if let Some(layers) = self.behind.objects.get_mut(&id) {
            let now = std::mem::take(&mut layers.now);
            self.end_layer(id, &now);
            self.behind.objects.remove(&id);
        }
    }
}

/// Layers on their way home; what did not arrive is buffered as before.
struct Going<'a> {
    objects: &'a Objects,
    ids: Vec<ObjectId>,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut work = self.objects.work.borrow_mut();
        for id in &self.ids {
            let Some(layers) = work.behind.objects.get_mut(id) else { continue };
            let Some(mut old) = layers.going.take() else { continue };
            let now = std::mem::take(&mut layers.now);
            let (count, weight) = (old.count() + now.count(), old.weight() + now.weight());
            old.absorb(now);
            let (same, freed) = (count - old.count(), weight - old.weight());
            layers.now = old;
            work.behind.blocks -= same;
            work.behind.weight -= freed;
        }
        work.behind.flushing = false;
        drop(work);
        self.objects.changed.notify();
    }
}

/// Keeps what is buffered of an object from going home while the object is removed.
pub(super) struct Held<'a> {
    objects: &'a Objects,
    id: ObjectId,
}

impl Held<'_> {
    /// It is removed.
    pub(super) fn removed(self) {
        self.objects.work.borrow_mut().drop_buffered(self.id);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.objects.work.borrow_mut().behind.held.remove(&self.id);
        self.objects.changed.notify();
    }
}

impl Objects {
    /// The boot epoch: it changes whenever the target is opened. What was buffered in an earlier one may be lost.
    pub fn boot_epoch(&self) -> u64 {
        self.core.epoch()
    }

    /// Bytes that are buffered.
    pub fn buffered(&self) -> Bytes {
        BLOCK * self.work.borrow().behind.blocks
    }

    /// Makes durable what was buffered in `scope` before. With the boot `epoch` of the acknowledgements that is counted
    /// on, if any: where the target was opened anew since, what they were for may be lost, and that is said as
    /// [`Kind::Restarted`]. The boot epoch.
    pub async fn flush_buffered(&self, scope: Scope, epoch: Option<u64>) -> Result<u64> {
        self.ready().await?;
        let now = self.boot_epoch();
        if let Some(then) = epoch.filter(|epoch| *epoch != now) {
            return Err(Error::restarted(format!(
                "the target was opened again (boot epoch {now}) since these bytes were buffered (boot epoch {then}); \
                 what was not flushed before may be lost: send it again"
            )));
        }
        match scope {
            Scope::Object(id) | Scope::Range(id, ..) => self.head(id).await.map(|_| ())?,
            Scope::Volume(volume) => self.head(ObjectId::volume(volume)).await.map(|_| ())?,
            Scope::Target => {}
        }
        let home = self.bring_home(scope).await;
        let last = self.work.borrow().last;
        self.durable(last).await?;
        home.map(|()| now)
    }

    /// What was buffered of a locked object goes home, so that a record about it may follow.
    pub(super) async fn settle(&self, id: ObjectId) -> Result<()> {
        self.bring_home(Scope::Object(id)).await
    }

    /// Waits until nothing of a locked object is on its way home, and keeps it so.
    pub(super) async fn hold(&self, id: ObjectId) -> Result<Held<'_>> {
        loop {
            {
                let mut work = self.work.borrow_mut();
                if work.behind.objects.get(&id).is_none_or(|layers| layers.going.is_none()) {
                    work.behind.held.insert(id);
                    return Ok(Held { objects: self, id });
                }
            }
            self.alive()?;
            self.changed.changed().await;
        }
    }

    /// Takes nothing more in, and makes durable what there is.
    pub(super) async fn end_buffering(&self) -> Result<()> {
        self.work.borrow_mut().behind.closed = true;
        self.taken_in.notify();
        self.bring_home(Scope::Target).await
    }

    /// Takes in a write to a locked object.
    pub(super) async fn buffer(
        &self,
        id: ObjectId,
        offset: u64,
        bytes: Given<'_>,
        size: u64,
        crcs: &[u32],
    ) -> Result<()> {
        let behind = offset + bytes.len() as u64;
        let (first, end) = (offset / BLOCK.0, behind.div_ceil(BLOCK.0));
        let time = self.core.disk.env().clock.wall();
        let write =
            Write { id, time, size, commands: 1, dropped: None, logged: Vec::new(), inline: None, pieces: Vec::new() };
        let mut dropped = write.clone();
        dropped.dropped = Some((first, end));
        let changes = [Change::Write(dropped)];
        let known = known(offset, &bytes, crcs);
        let mut content = self.widened(id, offset, bytes, size).await?.keep();
        let computed;
        let crcs = match known {
            Some(crcs) => crcs,
            None => {
                computed = Crcs::of(&content).0;
                &computed
            }
        };
        let ranges: Vec<_> = changes.iter().flat_map(needs).collect();
        self.room_for_rows(&ranges, Draft::of(&changes)?.blocks(), false).await?;
        for attempt in 1.. {
            self.prepared_for(&changes, &ranges).await?;
            let Some(room) = self.try_to_take_in(&write, behind, first, &mut content, crcs)? else { break };
            match self.make_room_for(room).await {
                // Of other objects; what could go home did, and may be enough.
                Err(error) if error.kind == Kind::Damaged && attempt < MOST_ATTEMPTS => {}
                made => made?,
            }
        }
        Ok(())
    }

    fn most_buffered(&self) -> Bytes {
        self.memory.get().buffered
    }

    /// Takes blocks in, which end at byte `end` of their object, and `content` with them, or says what has to be done
    /// before. The rows must be in memory.
    fn try_to_take_in(
        &self,
        write: &Write,
        end: u64,
        first: u64,
        content: &mut Kept,
        crcs: &[u32],
    ) -> Result<Option<Room>> {
        let (id, blocks) = (write.id, crcs.len() as u64);
        let mut work = self.work.borrow_mut();
        if work.behind.closed {
            return Err(Error::busy("the target is being closed; open it again"));
        }
        if work.meta.head(id).is_none() {
            return Err(missing(id));
        }
        let present = work.meta.present(id, first, first + blocks);
        let fresh = |(block, present): &(u64, bool)| !present && !work.behind.has(id, *block);
        let grows = (first..).zip(present).filter(fresh).count() as u64;
        super::quota::within(&work.meta, id, 0, grows)?;
        let held = work.behind.objects.get(&id).map_or(0, |layers| layers.now.count());
        let most_held = BLOCK.0 * u64::from(work.meta.logs.largest().saturating_sub(1)) / IN_RECORD;
        if held > 0 && held + blocks > most_held {
            return Ok(Some(Room::InMemory(Scope::Object(id))));
        }
        if work.behind.weight + blocks > self.most_buffered().0 / BLOCK.0 {
            return Ok(Some(Room::InMemory(Scope::Target)));
        }
        if work.available() < blocks {
            return Ok(Some(Room::AtHome));
        }
        let now = self.core.disk.env().clock.now();
        work.take_in(write, end, first, (std::mem::take(content), now), crcs, grows);
        drop(work);
        self.taken_in.notify();
        Ok(None)
    }

    async fn make_room_for(&self, room: Room) -> Result<()> {
        match room {
            Room::InMemory(scope) => self.bring_home(scope).await,
            Room::AtHome => self.take_groups(GroupClass::Objects).await,
        }
    }

    /// Takes blocks of a locked object as they are into what is buffered, so that they go home anew.
    pub(super) async fn rewrite(&self, id: ObjectId, first: u64, content: Vec<u8>) -> Result<()> {
        let blocks = content.len() as u64 / BLOCK.0;
        let crcs = Crcs::of(&content).0;
        let mut content = content.into();
        let Head { size, modified: time, .. } = self.head(id).await?;
        let write =
            Write { id, time, size, commands: 0, dropped: None, logged: Vec::new(), inline: None, pieces: Vec::new() };
        loop {
            self.prepared(&[Change::Write(Write { dropped: Some((first, first + blocks)), ..write.clone() })]).await?;
            match self.try_to_take_in(&write, size, first, &mut content, &crcs)? {
                None => return Ok(()),
                Some(room) => self.make_room_for(room).await?,
            }
        }
    }

    /// Takes home what is buffered in `scope` now; its records are queued when this returns.
    async fn bring_home(&self, scope: Scope) -> Result<()> {
        loop {
            self.alive()?;
            let (going, held) = {
                let mut work = self.work.borrow_mut();
                let behind = &mut work.behind;
                let ids: Vec<ObjectId> = behind.objects.keys().copied().filter(|id| behind.is_in(*id, scope)).collect();
                if ids.is_empty() {
                    return Ok(());
                }
                // What is being removed is gone soon, or still there.
                let (held, free): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| behind.held.contains(id));
                let begins = !behind.flushing && !free.is_empty();
                if begins {
                    behind.flushing = true;
                    for id in &free {
                        let layers = behind.objects.get_mut(id).expect("it is there");
                        layers.going = Some(std::mem::take(&mut layers.now));
                    }
                }
                (begins.then(|| Going { objects: self, ids: free }), !held.is_empty())
            };
            match going {
                None => self.changed.changed().await,
                Some(going) => {
                    match self.write_layers(&going).await {
                        Err(error) if error.kind == Kind::Damaged && going.ids.len() > 1 => {
                            let ids = going.ids.clone();
                            drop(going);
                            self.bring_each_home(&ids).await?;
                        }
                        Err(error) => {
                            if self.core.disk.failure().is_some() {
                                self.fail(error.clone());
                            }
                            return Err(error);
                        }
                        Ok(()) => {}
                    }
                    if !held {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes home what is buffered of objects, one after the other: what cannot go there since it lies beside what is damaged
    /// is in the way of nothing else. What is damaged is said when all others are home.
    async fn bring_each_home(&self, ids: &[ObjectId]) -> Result<()> {
        let mut result = Ok(());
        for id in ids {
            match Box::pin(self.bring_home(Scope::Object(*id))).await {
                Err(error) if error.kind != Kind::Damaged => return Err(error),
                home => result = result.and(home),
            }
        }
        result
    }

    /// Whether what is small of these layers finds room in rows. Blocks at home are promised to it anyway.
    async fn rows_for_small(&self, going: &Going<'_>) -> Result<bool> {
        let small: Vec<Change> = {
            let work = self.work.borrow();
            let layers = going.ids.iter().filter_map(|id| Some((id, work.behind.objects.get(id)?.going.as_ref()?)));
            let small = layers.filter_map(|(id, layer)| Some(Change::Write(layer.small(*id)?)));
            small.collect()
        };
        if small.is_empty() {
            return Ok(false);
        }
        let ranges: Vec<_> = small.iter().flat_map(needs).collect();
        match self.room_for_rows(&ranges, Draft::of(&small)?.blocks(), false).await {
            Err(error) if error.kind == Kind::Full => Ok(false),
            result => result.map(|()| true),
        }
    }

    async fn write_layers(&self, going: &Going<'_>) -> Result<()> {
        let rows = self.rows_for_small(going).await?;
        let (blocks, writes) = {
            let work = self.work.borrow();
            let mut blocks: Vec<(ObjectId, u64, layer::Block)> = Vec::new();
            let mut writes = Vec::new();
            for id in &going.ids {
                let Some(layer) = work.behind.objects.get(id).and_then(|layers| layers.going.as_ref()) else {
                    continue;
                };
                if let Some(write) = layer.small(*id).filter(|_| rows) {
                    writes.push(write);
                    continue;
                }
                writes.push(layer.write(*id));
                blocks.extend(layer.blocks().iter().map(|(n, block)| (*id, *n, block.clone())));
            }
            (blocks, writes)
        };
        let mut loose: Vec<Loose<'_>> = blocks
            .iter()
            .map(|(id, n, block)| Loose { id: *id, block: *n, at: block.at, crc: block.crc, from: block.origin() })
            .collect();
        newest(&mut loose);
        let chunk = |of: &[Loose<'_>], write: &Write| Chunk {
            id: write.id,
            first: of[0].block,
            blocks: of.len() as u64,
            at_end: of.last().is_some_and(|last| last.block + 1 == write.size.div_ceil(BLOCK.0)),
        };
        let at_home = |write: &&Write| write.inline.is_none();
        let chunks: Vec<Chunk> = loose
            .chunk_by(|a, b| a.id == b.id)
            .zip(writes.iter().filter(at_home))
            .map(|(of, write)| chunk(of, write))
            .collect();
        let taken = self.places(&chunks, true).await?;
        let homes = taken.iter().flat_map(|taken| &taken.runs).flat_map(|run| run.at..run.end());
        let placed: Vec<(u64, Loose<'_>)> = homes.zip(loose.iter().copied()).collect();
        self.write_placed(self.behind, &placed).await?;
        let mut pieces = pieces(placed.iter().map(|(home, l)| (*home, l)));
        let mut taken = taken.into_iter();
        for write in writes {
            let id = write.id;
            let own = write.inline.is_none().then(|| taken.next()).flatten();
            let write = Write { pieces: pieces.remove(&id).unwrap_or_default(), ..write };
            self.enacted(&[Change::Write(write)], Vec::new(), |meta| super::commands::exists(meta, id)).await?;
            own.iter().for_each(Taken::keep);
            let mut work = self.work.borrow_mut();
            let layers = work.behind.objects.get_mut(&id).expect("what is on its way is not dropped");
            let gone = layers.going.take().expect("it was on its way");
            let empty = layers.now.blocks().is_empty();
            work.end_layer(id, &gone);
            if empty {
                work.behind.objects.remove(&id);
            }
            drop(work);
            self.changed.notify();
        }
        Ok(())
    }

    /// Begins flushes in time, so that who writes need not wait, for as long as the target is open.
    pub(super) async fn flush_when_full(&self) {
        let many = if self.core.disk.rotates() { MANY } else { MANY_FLAT };
        loop {
            let is_due = || {
                let many = many.min(self.most_buffered() / 2);
                self.work.borrow().behind.blocks >= many.0 / BLOCK.0 || self.ends_buffering()
            };
            self.taken_in.until(is_due).await;
            if self.ends_buffering() {
                return;
            }
            if let Err(error) = self.bring_home(Scope::Target).await {
                self.not_home(error);
                self.core.disk.env().clock.sleep(LOOK).await;
            }
        }
    }

    /// Flushes what has been buffered for long, or when nothing else is done, for as long as the target is open.
    pub(super) async fn flush_in_time(&self) {
        loop {
            self.taken_in.until(|| !self.work.borrow().behind.objects.is_empty() || self.ends_buffering()).await;
            if self.ends_buffering() {
                return;
            }
            let moved = || {
                let counters = self.core.disk.counters();
                counters.guaranteed + counters.normal + counters.logged
            };
            let (before, taken_in) = (moved(), self.work.borrow().behind.next_at);
            self.core.disk.env().clock.sleep(LOOK).await;
            let due = {
                let work = self.work.borrow();
                let quiet = moved() == before && work.behind.next_at == taken_in;
                let now = self.core.disk.env().clock.now();
                work.behind.since().is_some_and(|since| quiet || now >= since + LONGEST) && !work.behind.closed
            };
            if due && let Err(error) = self.bring_home(Scope::Target).await {
                self.not_home(error);
                // What stays is old from now on: the others are not to go home with each look at it.
                self.core.disk.env().clock.sleep(LONGEST).await;
            }
        }
    }

    fn ends_buffering(&self) -> bool {
        let work = self.work.borrow();
        work.behind.closed || work.failure.is_some()
    }

    /// Nobody waits for it: what has no room, or lies beside what is damaged, stays buffered, and the next who flushes is
    /// told.
    fn not_home(&self, error: Error) {
        if !matches!(error.kind, Kind::Full | Kind::Busy | Kind::Damaged) {
            self.fail(error);
        }
    }
}

impl Work {
    fn take_in(
        &mut self,
        write: &Write,
        end: u64,
        first: u64,
        (content, now): (Kept, Moment),
        crcs: &[u32],
        grows: u64,
    ) {
        let id = write.id;
        let behind = &mut self.behind;
        let layer = &mut behind.objects.entry(id).or_default().now;
        let (count, weight) = (layer.count(), layer.weight());
        layer.take_in(first, Content { at: IN_MEMORY + behind.next_at, bytes: content }, crcs);
        behind.next_at += crcs.len() as u64;
        behind.blocks += layer.count() - count;
        behind.weight = behind.weight + layer.weight() - weight;
        layer.size = layer.size.max(write.size).max(end);
        layer.time = write.time;
        layer.since.get_or_insert(now);
        layer.commands += write.commands;
        layer.grows += grows;
        *self.meta.buffered.entry(id.volume).or_default() += grows;
    }
}

#[cfg(test)]
mod tests;
