//! Heaps: small records under ids that say where they lie, in transactions.
//!
//! [`Heaps`] makes and finds them; a [`Heap`] is a way to the records of one, with a transaction of its own: what it puts
//! and frees is there for others, and lasts, once it commits, and is undone if it ends before, or the process that serves
//! goes away. Records go many at a time: [`Heap::send`] gathers them into requests, with some of these under way.

mod batch;
pub mod network;

pub use forebay_model::heap::{CommitInfo, HeapMode, HeapSettings, LARGEST_RECORD, RecordId};
pub use forebay_wire::heap::{HeapActivity, HeapClass, HeapInfo, HeapName, MOST_UNCOMMITTED, NewRoot};

use crate::cluster::unexpected;
use crate::objects::Objects;
use crate::peer::{HeapLink, Peer};
use batch::Batch;
use forebay_model::ring::check_name;
use forebay_model::{Error, Kind, Result, TargetId};
use forebay_wire::command::{Reply, Request};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapReply, HeapRequest, MOST_COMMITS, MOST_RECORDS};
use forebay_wire::object::{MOST_PENDING, WINDOW};
use std::collections::VecDeque;
use std::sync::Arc;

/// Links that may break one after another before one is given up.
const MOST_BROKEN: u32 = 20;
/// How often the root is asked for that was freed by the time its bytes were.
const LOOKS: u32 = 8;

/// A record: its id and its bytes.
pub type Record = (RecordId, Vec<u8>);

/// Which heaps there are.
#[derive(Debug, Clone, Default)]
pub struct HeapList {
    /// Those that can be used.
    pub heaps: Vec<HeapName>,
    /// The names of those that are lost with their targets, or whose targets cannot be asked, and why.
    pub lost: Vec<(String, Error)>,
}

/// The heaps of a cluster. Cheap to clone; shared by all threads.
#[derive(Clone)]
pub struct Heaps {
    peer: Arc<dyn Peer>,
}

impl Heaps {
    /// The heaps of the cluster that `peer` leads to.
    pub(crate) fn over(peer: Arc<dyn Peer>) -> Heaps {
        Heaps { peer }
    }

    /// Makes a heap, on the first target that has room for it.
    pub fn create(&self, name: &str, settings: HeapSettings) -> Result<HeapInfo> {
        check_name(name)?;
        let create = Request::CreateHeap { heap: name.to_string(), settings };
        if !self.peer.has_objects() {
            return self.info_of(create);
        }
        // Names are shared with objects.
        match Objects::over(self.peer.clone()).find(name) {
            Ok(_) => Err(Error::exists(format!("{name} is an object; take another name, or remove it first"))),
            Err(error) if error.kind != Kind::Missing => Err(error),
            Err(_) => self.info_of(create),
        }
    }

    /// Deletes a heap with everything in it. [`Kind::Missing`] if there is none of this name.
    pub fn delete(&self, name: &str) -> Result<()> {
        match self.peer.call(Request::DeleteHeap { heap: name.to_string() })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Which there are.
    pub fn list(&self) -> Result<HeapList> {
        if let Some(list) = self.peer.list_heaps()? {
            return Ok(list);
        }
        match self.peer.call(Request::Heaps)? {
            Reply::Heaps(heaps) => Ok(HeapList { heaps, lost: Vec::new() }),
            other => Err(unexpected(&other)),
        }
    }

    /// One, as it says of itself.
    pub fn info(&self, name: &str) -> Result<HeapInfo> {
        check_name(name)?;
        self.info_of(Request::HeapInfo { heap: name.to_string() })
    }

    fn info_of(&self, request: Request) -> Result<HeapInfo> {
        match self.peer.call(request)? {
            Reply::Heap(info) => Ok(*info),
            other => Err(unexpected(&other)),
        }
    }

    /// A way to the records of one.
    pub fn open(&self, name: &str) -> Result<Heap> {
        check_name(name)?;
        let target = self.peer.target_of_heap(name)?;
        let (peer, name) = (self.peer.clone(), name.to_string());
        let (sent, ids) = (VecDeque::new(), Vec::new());
        let (link, batch) = (None, Batch::default());
        Ok(Heap { peer, name, target, link, open: false, failed: false, batch, sent, bytes: 0, ids })
    }
}

/// A way to the records of a heap, with a transaction of its own.
pub struct Heap {
    peer: Arc<dyn Peer>,
    name: String,
    target: TargetId,
    link: Option<Box<dyn HeapLink>>,
    /// Something was put or freed since the last commit.
    open: bool,
    /// Some of that was refused or lost, so that a commit would be of a part of what was meant.
    failed: bool,
    /// What is gathered, and not yet sent.
    batch: Batch,
    /// What each request for which there is no answer yet weighs.
    sent: VecDeque<usize>,
    bytes: usize,
    /// Ids that were answered.
    ids: Vec<RecordId>,
}

impl Heap {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a record; its id.
    pub fn put(&mut self, record: &[u8]) -> Result<RecordId> {
        self.send(record)?;
        let ids = self.settle()?;
        ids.last().copied().ok_or_else(|| Error::damaged("a node gave a record no id: it is broken"))
    }

    /// Puts a record, together with those sent before and after it: [`Heap::settle`] has the ids, in this order. Waits
    /// while as much is under way as may be. After an error the transaction can only be aborted.
    pub fn send(&mut self, record: &[u8]) -> Result<()> {
        check_record(record.len())?;
        let mut rest = record;
        while let Some(full) = self.batch.add(&mut rest) {
            self.send_batch(full)?;
        }
        Ok(())
    }

    /// Waits until all records that were sent are put: the ids of those that were sent since the last call.
    pub fn settle(&mut self) -> Result<Vec<RecordId>> {
        if let Some(last) = self.batch.take() {
            self.send_batch(last)?;
        }
        while !self.sent.is_empty() {
            self.receive_ids()?;
        }
        Ok(std::mem::take(&mut self.ids))
    }

    fn send_batch(&mut self, (ask, payload): (HeapAsk, Vec<u8>)) -> Result<()> {
        self.check_whole()?;
        let request = self.request(ask);
        let weight = request.weight(payload.len());
        let has_room = |heap: &Heap| heap.bytes + weight <= WINDOW.0 as usize && heap.sent.len() < MOST_PENDING;
        while !self.sent.is_empty() && !has_room(self) {
            self.receive_ids()?;
        }
        self.open = true;
        self.send_request(&request, payload).map_err(|error| self.lost(error))
    }

    fn receive_ids(&mut self) -> Result<()> {
        let answer = self.receive().map_err(|error| self.lost(error))?;
        match answer.map(|answer| answer.reply) {
            Ok(HeapReply::Ids(ids)) => {
                self.ids.extend(ids);
                Ok(())
            }
            answer => {
                self.failed = true;
                Err(answer.map_or_else(|error| error, |other| strange(&other)))
            }
        }
    }

    /// The bytes of a record.
    pub fn get(&mut self, id: RecordId) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.get_each(&[id], None, |_, record| {
            bytes = record?;
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Hands over the bytes of records, in order, or why there are none; as of the last commit and what was put and freed
    /// here since, or as of the commit `as_of`.
    pub fn get_each(
        &mut self,
        ids: &[RecordId],
        as_of: Option<u64>,
        mut take: impl FnMut(RecordId, Result<Vec<u8>>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = ids;
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(MOST_RECORDS)];
            let (found, mut payload) = self.get_some(some, 0, as_of)?;
            let mut at = 0;
            if found.is_empty() || found.len() > some.len() {
                return Err(odd());
            }
            let lone = found.len() == 1;
            for (id, length) in some.iter().zip(found.iter().cloned()) {
                let record = match length {
                    Err(error) => Err(error),
                    Ok(length) if length > LARGEST_RECORD as u64 => return Err(odd()),
                    Ok(length) if length as usize <= payload.len() - at => {
                        // In memory of its own: who keeps one record does not keep all that came with it.
                        at += length as usize;
                        Ok(payload[at - length as usize..at].to_vec())
                    }
                    Ok(length) if lone && !payload.is_empty() => {
                        self.get_rest(*id, std::mem::take(&mut payload), length as usize, as_of)
                    }
                    Ok(_) => return Err(odd()),
                };
                take(*id, record)?;
            }
            rest = &rest[found.len()..];
        }
        Ok(())
    }

    /// The rest of a large record.
    fn get_rest(&mut self, id: RecordId, begin: Vec<u8>, length: usize, as_of: Option<u64>) -> Result<Vec<u8>> {
        let mut bytes = begin;
        while bytes.len() < length {
            let (found, payload) = self.get_some(&[id], bytes.len() as u64, as_of)?;
            match &found[..] {
                [Ok(now)] if *now == length as u64 && !payload.is_empty() => bytes.extend(payload),
                [Err(error)] => return Err(error.clone()),
                _ => return Err(odd()),
            }
        }
        if bytes.len() == length { Ok(bytes) } else { Err(odd()) }
    }

    fn get_some(&mut self, ids: &[RecordId], from: u64, as_of: Option<u64>) -> Result<(Vec<Result<u64>>, Vec<u8>)> {
        let answer = self.ask(HeapAsk::Get { ids: ids.to_vec(), from, as_of })?;
        match answer.reply {
            HeapReply::Records(found) => Ok((found, answer.payload)),
            other => Err(strange(&other)),
        }
    }

    /// Frees records, all or none; but if they are more than [`MOST_RECORDS`], the transaction can only be aborted after an
    /// error.
    pub fn free(&mut self, ids: &[RecordId]) -> Result<()> {
        self.settled()?;
        for (number, some) in ids.chunks(MOST_RECORDS).enumerate() {
            self.check_whole()?;
            self.open = true;
            let freed = self.ask(HeapAsk::Free { ids: some.to_vec() }).and_then(done);
            self.failed |= freed.is_err() && number > 0;
            freed?;
        }
        Ok(())
    }

    /// Makes durable what was put and freed, and the root, all of it or nothing; the number of the commit. [`Kind::Disconnected`] if
    /// it is not known whether it was; after [`Kind::Stale`] it was not, and never will be.
    pub fn commit(&mut self, root: NewRoot) -> Result<u64> {
        self.settled()?;
        self.check_whole()?;
        let was_open = self.open;
        match self.ask(HeapAsk::Commit { root }) {
            Ok(HeapAnswer { reply: HeapReply::Committed(commit), .. }) => {
                self.open = false;
                Ok(commit)
            }
            Ok(HeapAnswer { reply, .. }) => Err(strange(&reply)),
            // What was revoked is refused before anything is done: it is told what that means, and with the link all of it goes.
            Err(error) if error.kind == Kind::Stale => {
                self.disconnect();
                (self.open, self.failed) = (false, false);
                Err(error)
            }
            // The connection is given up, and what was asked over it may have been done.
            Err(_) if was_open && self.link.is_none() => {
                self.failed = false;
                Err(self.unknown())
            }
            Err(error) => Err(error),
        }
    }

    /// Undoes what was put and freed since the last commit.
    pub fn abort(&mut self) -> Result<()> {
        (self.batch, self.failed) = (Batch::default(), false);
        while !self.sent.is_empty() {
            // What is answered is undone.
            if self.receive().is_err() {
                self.disconnect();
            }
        }
        self.ids.clear();
        // With its link all of a transaction goes.
        if std::mem::take(&mut self.open) && self.link.is_some() {
            let undone = self.ask(HeapAsk::Abort).and_then(done);
            if undone.is_err() {
                // What may still be there is not to be part of a commit that comes after: that goes by another link.
                self.disconnect();
            }
            return undone;
        }
        Ok(())
    }

    /// A commit, the last if `None`: its number, and the id and the bytes of its root, if it has one.
    pub fn root(&mut self, as_of: Option<u64>) -> Result<(u64, Option<Record>)> {
        let mut looks = 0;
        loop {
            let (commit, root) = match self.ask(HeapAsk::Root { as_of })?.reply {
                HeapReply::Root { commit, root } => (commit, root),
                other => return Err(strange(&other)),
            };
            let Some(id) = root else { return Ok((commit, None)) };
            let mut bytes = Vec::new();
            let got = self.get_each(&[id], as_of, |_, record| {
                bytes = record?;
                Ok(())
            });
            looks += 1;
            match got {
                // Another commit came between.
                Err(error) if error.kind == Kind::Missing && looks < LOOKS => {}
                got => return got.map(|()| (commit, Some((id, bytes)))),
            }
        }
    }

    /// Hands over the commits that can be read, the newest first, `most` of them.
    pub fn history(&mut self, most: u64, mut take: impl FnMut(CommitInfo) -> Result<()>) -> Result<()> {
        let (mut before, mut rest) = (None, most);
        while rest > 0 {
            let some = rest.min(MOST_COMMITS as u64);
            let commits = match self.ask(HeapAsk::History { before, most: some as u32 })?.reply {
                HeapReply::History(commits) => commits,
                other => return Err(strange(&other)),
            };
            let count = commits.len() as u64;
            for commit in commits {
                if before.is_some_and(|before| commit.commit >= before) {
                    return Err(odd());
                }
                before = Some(commit.commit);
                take(commit)?;
            }
            rest = if count < some { 0 } else { rest.saturating_sub(count) };
        }
        Ok(())
    }

    /// Asks once, when nothing else is under way. Whoever serves now is asked if another one went away, unless what was
    /// put and freed went with it, or the root that another one has named meanwhile might be undone by that.
    fn ask(&mut self, ask: HeapAsk) -> Result<HeapAnswer> {
        self.settled()?;
        let names_root = matches!(&ask, HeapAsk::Commit { root } if *root != NewRoot::Same);
        let request = self.request(ask);
        let mut broken = 0;
        loop {
            let linked = self.connect();
            // What found no link was not asked.
            let is_asked = linked.is_ok();
            match linked.and_then(|()| self.send_request(&request, Vec::new())).and_then(|()| self.receive()) {
                Err(error) if is_asked && names_root && !self.open && error.kind != Kind::Stale => {
                    self.disconnect();
                    return Err(self.unknown());
                }
                // What was revoked, or is elsewhere by now, was refused before anything was done.
                Err(error)
                    if matches!(error.kind, Kind::Disconnected | Kind::Stale) && !self.open && broken < MOST_BROKEN =>
                {
                    self.disconnect();
                    broken += 1;
                }
                Err(error) => return Err(self.lost(error)),
                Ok(answer) => return answer,
            }
        }
    }

    /// A commit was asked for, and the connection ended before the answer.
    fn unknown(&self) -> Error {
        Error::disconnected(format!(
            "the process that served the cluster went away, or was silent, before it said whether {} was \
             committed; `forebay heap stat {}` tells the last commit",
            self.name, self.name
        ))
    }

    fn check_whole(&self) -> Result<()> {
        if !self.failed {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a part of what was to be put into {} or freed there was not; abort that before anything else",
            self.name
        )))
    }

    fn request(&self, ask: HeapAsk) -> HeapRequest {
        HeapRequest { target: self.target, heap: self.name.clone(), ask }
    }

    fn settled(&self) -> Result<()> {
        if self.sent.is_empty() && self.batch.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("records for {} were sent whose ids were not waited for", self.name)))
    }

    /// Sees to it that there is a link.
    fn connect(&mut self) -> Result<()> {
        if self.link.is_none() {
            self.link = Some(self.peer.heaps()?);
        }
        Ok(())
    }

    fn send_request(&mut self, request: &HeapRequest, payload: Vec<u8>) -> Result<()> {
        let weight = request.weight(payload.len());
        self.connect()?;
        let link = self.link.as_mut().ok_or_else(no_link)?;
        link.send(request, &Arc::new(payload))?;
        self.sent.push_back(weight);
        self.bytes += weight;
        Ok(())
    }

    fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        let link = self.link.as_mut().ok_or_else(no_link)?;
        let answer = link.receive()?;
        self.bytes -= self.sent.pop_front().unwrap_or(0);
        Ok(answer)
    }

    fn disconnect(&mut self) {
        (self.link, self.bytes) = (None, 0);
        self.sent.clear();
    }

    /// What a link that broke, for whatever reason, means for the transaction: the connection ends, and it with that.
    fn lost(&mut self, error: Error) -> Error {
        self.disconnect();
        if !std::mem::take(&mut self.open) {
            return error;
        }
        self.failed = true;
        let undone = format!(
            "with it went what was put into {} and freed there since the last commit; do that again",
            self.name
        );
        match error.kind {
            Kind::Disconnected => {
                Error::disconnected(format!("the process that served the cluster went away: {undone}"))
            }
            kind => Error::new(kind, format!("the connection was given up ({}): {undone}", error.message)),
        }
    }
}

/// Whether a record may have so many bytes.
pub fn check_record(length: usize) -> Result<()> {
    if (1..=LARGEST_RECORD).contains(&length) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "a record has 1 to {LARGEST_RECORD} bytes, and this one {length}; cut it into several, or keep it as an object"
    )))
}

fn done(answer: HeapAnswer) -> Result<()> {
    match answer.reply {
        HeapReply::Done => Ok(()),
        other => Err(strange(&other)),
    }
}

fn no_link() -> Error {
    Error::disconnected("the connection ended")
}

fn odd() -> Error {
    Error::damaged("a node sent other bytes of records than it announced: it is broken")
}

/// A reply of another shape than its request has.
fn strange(reply: &HeapReply) -> Error {
    let shape = match reply {
        HeapReply::Done => "done",
        HeapReply::Ids(_) => "ids",
        HeapReply::Records(_) => "records",
        HeapReply::Committed(_) => "a commit",
        HeapReply::Root { .. } => "a root",
        HeapReply::History(_) => "commits",
        HeapReply::Unread { .. } => "units",
    };
    Error::damaged(format!("a node answered with {shape} what it was not asked: use the same release on both sides"))
}

#[cfg(test)]
mod tests;
