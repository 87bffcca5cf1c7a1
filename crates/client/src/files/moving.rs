//! Components that lie where nothing is to stay, or where targets are fuller than others: each is copied as it is, object by object, and lies elsewhere then.
//!
//! Whoever copies is alone with the file, and makes way for who wants to write it: then what it asks for is stale, and it begins
//! anew later. It is read meanwhile where it lies. What a reader may still be given where it lay, who writes next waits for.

mod heap;
mod ring;

use super::Files;
use super::listed::{Listed, Page};
use crate::control::strange;
use crate::granted::{self, strange_answer};
use crate::nodes::Request;
use bytes::Bytes as Slice;
use forebay_env::together::all;
use forebay_model::object::{Durability, LENGTHS, MOST_SET, Placement, Scope};
use forebay_model::{Bytes, Error, Kind, ObjectId, Rate, Result, TargetId};
use forebay_wire::control::files::{
    Close, Component, Displaced, FoundDamaged, Relocate, Relocated, Relocating, Relocation,
};
use forebay_wire::control::names::{FileId, FileKind, Place, Stat};
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::object::{
    Ask, DESCRIBED, LOST_TOGETHER, MOST_AT_ONCE, ObjectAnswer, ObjectReply, ObjectRequest, companion,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Files of which one client copies something at the same time.
const AT_ONCE: usize = 2;
/// The pages of attributes that go along: how long the file is, and what a component says of it.
const PAGES: [u32; 2] = [LENGTHS, DESCRIBED];
/// How often what a node has no room for, or has not heard of yet, is asked again, and after which time.
const AGAIN: (u32, Duration) = (100, Duration::from_millis(50));

/// What was moved of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Components that lie elsewhere.
    pub components: u32,
    /// Bytes that were written for that.
    pub written: Bytes,
    /// Bytes of these components that were lost where they lay, and are where they lie now.
    pub lost: Bytes,
}

/// What becomes of what is damaged where it lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// It can be made of the others first: the copy comes to nothing.
    Refused,
    /// Nothing can be made of it: it is lost where the copy lies, too.
    Kept,
}

fn page(reply: Reply) -> Result<Page> {
    match reply {
        Reply::Displaced(Displaced { files, more }) => Ok(Page { files, more }),
        other => Err(strange(&other)),
    }
}

impl Files {
    /// Moves what is on the manager's list, again and again, with a pause between two rounds; `told` of each file. Only root may ask
    /// for that. What does not hurry is copied no faster than at this rate each, and keeps nothing else from being moved.
    pub(super) async fn move_for_ever(&self, pause: Duration, rate: Rate, told: impl Fn(FileId, Result<Moved>)) {
        let env = self.nodes.env();
        let list = Listed::of(&*self.control, &*env.clock, Question::Displaced, page);
        let hand = || async {
            loop {
                list.again(pause);
                match list.next().await {
                    Ok(Some(file)) => self.move_next(&list, file, rate, &told).await,
                    // With the manager away nothing can be moved either.
                    _ => env.clock.sleep(pause).await,
                }
            }
        };
        all((0..AT_ONCE).map(|_| hand())).await;
    }

    async fn move_next(&self, list: &Listed<'_>, file: FileId, rate: Rate, told: impl FnOnce(FileId, Result<Moved>)) {
        let moved = self.move_away(file, rate).await;
        list.tried(file);
        match moved {
            // Somebody writes it, has removed it, or came first.
            Err(error) if matches!(error.kind, Kind::Missing | Kind::Busy | Kind::Stale) => {}
            moved => told(file, moved),
        }
    }

    /// Moves all that is to be moved of a file.
    pub async fn move_away(&self, file: FileId, rate: Rate) -> Result<Moved> {
        match self.kind_of(file).await? {
            FileKind::Heap => return self.move_heap(file).await,
            FileKind::Ring => return self.move_ring(file).await,
            FileKind::File | FileKind::Directory => {}
        }
        let moved = self.move_once(file, rate, Damage::Refused).await;
        if !moved.as_ref().is_err_and(|error| error.kind == Kind::Damaged) {
            return moved;
        }
        // What is damaged where it lies is made of the others first.
        match self.mend(file).await {
            Ok(Some(_)) => self.move_once(file, rate, Damage::Kept).await,
            _ => moved,
        }
    }

    async fn kind_of(&self, file: FileId) -> Result<FileKind> {
        match self.control.ask(Question::Stat(Stat { place: Place::of(file) })).await? {
            Reply::Entry(entry) => Ok(entry.attributes.kind),
            other => Err(strange(&other)),
        }
    }

    async fn move_once(&self, file: FileId, rate: Rate, damage: Damage) -> Result<Moved> {
        // The manager takes whoever copies for one who is alone with the file, and others of this client for the same one.
        let written = self.used(file).alone().await?;
        let moved = self.move_alone(file, rate, damage).await;
        // A copy that came to nothing keeps nobody out; after one that came to its end there is nothing to close.
        drop(written.close(None).await);
        if moved.as_ref().is_ok_and(|moved| moved.lost > Bytes::ZERO) {
            // Who scrubs the file says which bytes of it that are.
            self.control.change(Change::FoundDamaged(FoundDamaged { file })).await?;
        }
        moved
    }

    async fn move_alone(&self, file: FileId, rate: Rate, damage: Damage) -> Result<Moved> {
        let mut moved = Moved::default();
        loop {
            let copied = match self.control.change(Change::Relocate(Relocate { file, last: false })).await {
                Ok(_) => self.copied(file, rate, damage).await,
                Err(error) => Err(error),
            };
            match copied {
                Ok((written, lost)) => {
                    moved.components += 1;
                    moved.written += written;
                    moved.lost += lost;
                }
                // There is no more, or somebody came first: the rest is for later.
                Err(error) if moved.components > 0 && matches!(error.kind, Kind::Stale | Kind::Busy) => {
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Copies the component that this client was let copy; how much was written, and how much is lost.
    async fn copied(&self, file: FileId, rate: Rate, damage: Damage) -> Result<(Bytes, Bytes)> {
        let addresses = granted::addresses(granted::map(&*self.control).await?);
        let way = self.relocation(file).await?;
        let (written, lost, epoch) = (Bytes::ZERO, Bytes::ZERO, None);
        let mut copy = Copy { files: self, file, way, addresses, rate, damage, written, lost, epoch };
        let Relocation { component, version, .. } = copy.way;
        for id in [|object: ObjectId| object, companion] {
            copy.object(id).await?;
        }
        self.control.change(Change::Relocated(Relocated { file, component, version, recorded: false })).await?;
        Ok((copy.written, copy.lost))
    }

    /// Asks the manager again for what allows a copy, before it runs out.
    async fn renew_copy(&self, file: FileId, way: &mut Relocation) -> Result<()> {
        if !granted::is_due(way.until, self.nodes.env().clock.wall()) {
            return Ok(());
        }
        let before = way.version;
        *way = self.relocation(file).await?;
        if way.version != before {
            return Err(Error::stale(format!("{file} has another version by now; its copy is begun anew")));
        }
        Ok(())
    }

    /// Asks a node again for a while that has to hear of an epoch first, or has no room.
    async fn unless_busy<T>(&self, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
        for _ in 0..AGAIN.0 {
            match ask().await {
                Err(error) if error.kind == Kind::Busy => self.nodes.env().clock.sleep(AGAIN.1).await,
                answer => return answer,
            }
        }
        ask().await
    }

    /// Has the manager let this client copy what others use meanwhile, and copies it; how much that was.
    async fn move_beside(&self, file: FileId, copying: impl Future<Output = Result<Bytes>>) -> Result<Moved> {
        self.relocate(file, false).await?;
        let copied = copying.await;
        if copied.is_err() {
            // Nobody waits until the manager takes this client for gone.
            let close = Close { file, size: None, modified: None, upkeep: true, unfinished: false, cuts: None };
            drop(self.control.change(Change::Close(close)).await);
        }
        Ok(Moved { components: 1, written: copied?, lost: Bytes::ZERO })
    }

    async fn relocate(&self, file: FileId, last: bool) -> Result<()> {
        self.control.change(Change::Relocate(Relocate { file, last })).await.map(drop)
    }

    async fn relocation(&self, file: FileId) -> Result<Relocation> {
        match self.control.ask(Question::Relocating(Relocating { file })).await? {
            Reply::Relocation(relocation) => Ok(relocation),
            other => Err(strange(&other)),
        }
    }
}

/// A component that is copied.
struct Copy<'a> {
    files: &'a Files,
    file: FileId,
    way: Relocation,
    addresses: BTreeMap<TargetId, String>,
    /// If it does not hurry it goes no faster than this.
    rate: Rate,
    damage: Damage,
    written: Bytes,
    lost: Bytes,
    /// In which of its openings the target took the first bytes of an object.
    epoch: Option<u64>,
}

/// At which end of a copy something is asked.
#[derive(Clone, Copy)]
enum End {
    From,
    To,
}

impl End {
    /// What lies there, and allows to use it.
    fn of(self, way: &Relocation) -> &Component {
        match self {
            End::From => &way.from,
            End::To => &way.to,
        }
    }
}

impl Copy<'_> {
    /// Copies an object of the component as it is. One that is not there is none at the other end, or an empty one.
    async fn object(&mut self, id: fn(ObjectId) -> ObjectId) -> Result<()> {
        let from = |object| Ask::Stat { id: id(object), page: None };
        let found = match self.ask(End::From, from, None).await {
            Ok(ObjectAnswer { reply: ObjectReply::Info(info), .. }) => Some(info.head.size),
            Ok(answer) => return Err(strange_answer(&answer.reply)),
            Err(error) if error.kind == Kind::Missing => None,
            Err(error) => return Err(error),
        };
        // Whoever began to copy there before is shut out by this, and leaves nothing.
        let empty = |object| Ask::Truncate { id: id(object), size: 0 };
        let there = match self.ask(End::To, empty, None).await {
            Err(error) if error.kind == Kind::Missing => false,
            answer => answer.map(|_| true)?,
        };
        let size = match (found, there) {
            (None, false) => return Ok(()),
            (None, true) => 0,
            (Some(size), _) => size,
        };
        if !there {
            let create = |object| Ask::Create { id: id(object), attributes: Vec::new() };
            match self.ask(End::To, create, None).await {
                Err(error) if error.kind != Kind::Exists => return Err(error),
                _ => {}
            }
        }
        let clock = self.files.nodes.env().clock.clone();
        self.epoch = None;
        let mut at = 0;
        while at < size {
            let begun = clock.now();
            let length = (size - at).min(MOST_AT_ONCE.0);
            self.bytes(id, at, length).await?;
            at += length;
            // It may begin to hurry while it is copied.
            if !self.way.hurries && self.rate > Rate(0) {
                clock.sleep(self.rate.time_for(Bytes(length)).saturating_sub(clock.now().since(begun))).await;
            }
        }
        self.attributes(id, found.is_some()).await?;
        let truncate = |object| Ask::Truncate { id: id(object), size };
        self.ask(End::To, truncate, None).await?;
        // If its target was opened again meanwhile, some of it may be lost: then it is begun anew.
        let epoch = self.epoch;
        let flush = |object| Ask::Flush { scope: Scope::Object(id(object)), epoch };
        self.ask(End::To, flush, None).await.map(drop)
    }

    /// Copies a part of an object, but for what is zero.
    async fn bytes(&mut self, id: fn(ObjectId) -> ObjectId, offset: u64, length: u64) -> Result<()> {
        let mut left = vec![(offset, length)];
        while let Some((offset, length)) = left.pop() {
            let read = |object| Ask::Read { id: id(object), offset, length: length as u32 };
            match self.ask(End::From, read, None).await {
                Ok(answer) => {
                    let bytes = Slice::from(answer.payload.into_vec());
                    if bytes.iter().any(|byte| *byte != 0) {
                        self.written += Bytes(bytes.len() as u64);
                        let (placement, durability) = (Placement::Auto, Durability::Buffered);
                        let write = |object| Ask::Write { id: id(object), offset, placement, durability };
                        let answer = self.ask(End::To, write, Some(bytes)).await?;
                        self.epoch.get_or_insert(answer.receipt.epoch);
                    }
                }
                Err(error) if error.kind != Kind::Damaged || self.damage == Damage::Refused => return Err(error),
                Err(_) if length > LOST_TOGETHER.0 => {
                    let first = (length / 2).next_multiple_of(LOST_TOGETHER.0);
                    left.extend([(offset + first, length - first), (offset, first)]);
                }
                Err(_) => {
                    let lose = |object| Ask::Lose { id: id(object), offset, length };
                    self.ask(End::To, lose, None).await?;
                    self.lost += Bytes(length);
                }
            }
        }
        Ok(())
    }

    /// Has the copy have the attributes that the object has, and no others.
    async fn attributes(&mut self, id: fn(ObjectId) -> ObjectId, is_there: bool) -> Result<()> {
        let mut changes = Vec::new();
        for page in PAGES {
            let there = if is_there { self.page(End::From, id, page).await? } else { BTreeMap::new() };
            let before = self.page(End::To, id, page).await?;
            let ended = before.into_keys().filter(|number| !there.contains_key(number)).map(|number| (number, None));
            let ended: Vec<(u32, Option<Vec<u8>>)> = ended.collect();
            let all = there.into_iter().map(|(number, value)| (number, Some(value))).chain(ended);
            changes.extend(all.map(|(number, value)| (page, number, value)));
        }
        for some in changes.chunks(MOST_SET) {
            let set = |object| Ask::SetAttributes { id: id(object), changes: some.to_vec() };
            self.ask(End::To, set, None).await?;
        }
        Ok(())
    }

    async fn page(&mut self, end: End, id: fn(ObjectId) -> ObjectId, page: u32) -> Result<BTreeMap<u32, Vec<u8>>> {
        let (mut found, mut from) = (BTreeMap::new(), 0);
        loop {
            let asked = |object| Ask::Attributes { id: id(object), page, from };
            let ObjectAnswer { reply, .. } = self.ask(end, asked, None).await?;
            let ObjectReply::Attributes { values, next } = reply else { return Err(strange_answer(&reply)) };
            found.extend(values);
            match next {
                Some(next) => from = next,
                None => return Ok(found),
            }
        }
    }

    /// Asks at one end, with what allows it.
    async fn ask(&mut self, end: End, of: impl Fn(ObjectId) -> Ask, payload: Option<Slice>) -> Result<ObjectAnswer> {
        self.files.renew_copy(self.file, &mut self.way).await?;
        let component = end.of(&self.way);
        let (target, shown) = (component.target, granted::shown(component)?);
        let request = ObjectRequest::new(target, of(component.object));
        let most = match request.ask {
            Ask::Read { length, .. } => length as usize,
            _ => 0,
        };
        let payload = payload.into_iter().collect();
        let request = Request { command: request.command(), body: request.body()?, payload, most };
        let address = self.addresses.get(&target).ok_or_else(|| granted::nobody_knows(target))?;
        let ask = async || self.files.nodes.ask(address, &request, Some(&shown)).await;
        let (answer, ..) = self.files.unless_busy(ask).await?;
        ObjectAnswer::read(&answer.body, answer.payload)
    }
}
