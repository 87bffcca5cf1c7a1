//! What is asked of a target's heaps. What one connection asks about one heap takes effect in the order in which it came.

mod begun;
mod large;
mod moves;

use super::objects::LinkId;
use super::transaction::Transaction;
use super::{Fenced, Service, fences};
use crate::turns::{Ticket, Turns};
use begun::Begun;
use forebay_env::pipe::Inlet;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::ring::check_name;
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Result};
use forebay_target::Heap;
use forebay_target::heap::{HeapOptions, Session as Look};
use forebay_wire::heap::network::name_of;
use forebay_wire::heap::{HeapActivity, HeapAnswer, HeapAsk, HeapClass, HeapInfo, HeapName, HeapReply, HeapRequest};
use forebay_wire::heap::{MOST_HEAPS, NewRoot};
use forebay_wire::object::MOST_AT_ONCE;
use large::{Large, Part};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Records that are read together before it is known how large they are.
const AT_FIRST: usize = 256;
/// How often it is looked at most which commits nobody asks about any more.
const LOOK_OVER: Duration = Duration::from_secs(5);

/// Heaps that are used, and by whom.
#[derive(Default)]
pub(super) struct Heaps {
    sessions: RefCell<BTreeMap<(LinkId, String), Rc<Session>>>,
    /// Of each heap with transactions, who commits.
    commits: RefCell<BTreeMap<String, Weak<Turns>>>,
    /// When it was last looked which commits nobody asks about any more.
    looked_over: Cell<Moment>,
    /// Bytes of records that are put in parts and have not come to their end.
    begun: Rc<Cell<usize>>,
    large: Large,
}

impl Heaps {
    /// Who commits in a heap, the same for all its transactions.
    fn commits_of(&self, heap: &str) -> Rc<Turns> {
        let mut commits = self.commits.borrow_mut();
        if let Some(known) = commits.get(heap).and_then(Weak::upgrade) {
            return known;
        }
        commits.retain(|_, turns| turns.strong_count() > 0);
        let turns = Rc::default();
        commits.insert(heap.to_string(), Rc::downgrade(&turns));
        turns
    }

    /// Lets go of the commits that nobody asks about any more: what is looked at keeps its room, which who writes may need, and others
    /// who look.
    fn let_looks_go(&self, now: Moment) {
        if now.since(self.looked_over.get()) < LOOK_OVER {
            return;
        }
        self.looked_over.set(now);
        for session in self.sessions.borrow().values() {
            if let Some(transaction) = &*session.transaction.borrow() {
                transaction.let_look_go(now);
            }
        }
    }

    /// Gives up records in parts of which nothing more came for a while. That of who asks now is not among them.
    fn give_begun_up(&self, now: Moment) {
        self.sessions.borrow().values().for_each(|session| session.begun.borrow_mut().give_up(now));
    }

    /// Adds to a record that is put in parts, in the room of those that were given up if there is no other.
    fn add(&self, begun: &mut Begun, part: &[u8], now: Moment) -> Result<()> {
        match begun.add(part, now) {
            Err(error) if error.kind == Kind::Busy => {
                self.give_begun_up(now);
                begun.add(part, now)
            }
            added => added,
        }
    }
}

/// A heap, as one connection uses it.
struct Session {
    link: LinkId,
    heap: String,
    /// What was shown when it began.
    fenced: Option<Fenced>,
    turns: Turns,
    transaction: RefCell<Option<Rc<Transaction>>>,
    begun: RefCell<Begun>,
}

/// Creates a heap.
pub(super) async fn create(service: &Service, name: &str, settings: HeapSettings) -> Result<HeapInfo> {
    check_name(name)?;
    service.target.create_heap(name, settings, HeapOptions::default()).await?;
    info(service, name).await
}

/// Deletes a heap. Whoever has put something into it, or freed there, is told so until an abort; others go on with the next
/// heap of this name.
pub(super) async fn delete(service: &Service, name: &str) -> Result<()> {
    service.target.delete_heap(name).await?;
    service.heaps.large.let_go(|part| part.heap == name);
    let sessions = service.heaps.sessions.borrow();
    for session in sessions.iter().filter(|((_, of), _)| of == name).map(|(_, session)| session) {
        if session.begun.borrow().is_empty() {
            let _ = session.transaction.borrow_mut().take_if(|transaction| transaction.is_idle());
        }
    }
    Ok(())
}

/// Which there are.
pub(super) fn names(service: &Service) -> Vec<HeapName> {
    let target = service.target.id();
    let named = |(name, space)| HeapName { name, target, space };
    service.target.heap_names().into_iter().map(named).collect()
}

/// What a heap says of itself.
pub(super) async fn info(service: &Service, name: &str) -> Result<HeapInfo> {
    let heap = open(service, name).await?;
    let status = heap.status();
    let space = service.target.heap_names().into_iter().find(|(other, _)| other == name);
    let classes = status.classes.iter().map(|class| HeapClass {
        slot: class.slot,
        allocators: class.allocators,
        slots: class.slots,
        used: class.used,
        kept: class.kept,
        taken: class.taken,
        recycled: class.recycled,
        freed: class.freed,
    });
    let activity = HeapActivity {
        commits: status.output.commits,
        put: status.elisions.put,
        dropped: status.elisions.dropped,
        hits: status.elisions.hits,
        hot_reads: status.hot_reads,
        writes: status.output.writes,
        records: status.output.records,
        written: status.output.written,
        padding: status.output.padding,
        read_back: status.output.read_back,
        meta_writes: status.output.meta_writes,
    };
    Ok(HeapInfo {
        name: name.to_string(),
        target: service.target.id(),
        last: status.last,
        oldest: status.oldest,
        settings: status.settings,
        archive_slots: status.archive_slots,
        used: status.used,
        space: space.map_or(Bytes::ZERO, |(_, space)| space),
        classes: classes.collect(),
        activity,
        complaints: heap.complaints(),
    })
}

async fn open(service: &Service, name: &str) -> Result<Rc<Heap>> {
    check_name(name)?;
    service.target.heap(name, HeapOptions::default()).await
}

/// Deletes the heap that this object is, if there is one.
pub(super) async fn remove(service: &Service, object: ObjectId) -> Result<()> {
    match delete(service, &name_of(object)).await {
        Err(error) if error.kind == Kind::Missing => Ok(()),
        deleted => deleted,
    }
}

/// Ends what those had begun who are shut out of a heap: it is undone.
pub(super) fn shut_out(service: &Rc<Service>, object: ObjectId, version: u64) {
    end_those(service, |session| session.fenced.is_some_and(|fenced| fenced.is_out(object, version)));
}

/// Begins with what is asked; it is answered when it is done.
pub(super) fn ask(
    service: &Rc<Service>,
    link: LinkId,
    (request, fenced): (HeapRequest, Option<Fenced>),
    payload: Arc<Vec<u8>>,
    answer: Inlet<Result<HeapAnswer>>,
) {
    let session = session(service, link, &request, fenced);
    let this = service.clone();
    service.env.spawner.detach(async move {
        let result = match session {
            Ok((session, ticket)) => {
                let turn = session.turns.wait(ticket).await;
                // Only now: what came before it takes effect before it.
                let result = match fences::enter(&this, fenced).await {
                    Ok(_entered) => session.ask(&this, request, &payload).await,
                    Err(error) => Err(error),
                };
                drop(turn);
                forget_idle(&this, session);
                result
            }
            Err(error) => Err(error),
        };
        // Whoever gave it has it to themselves again.
        drop(payload);
        answer.send(result, 0).await;
    });
}

/// The session that a request belongs to, and the request's place in it.
fn session(
    service: &Service,
    link: LinkId,
    request: &HeapRequest,
    fenced: Option<Fenced>,
) -> Result<(Rc<Session>, Ticket)> {
    if request.target != service.target.id() {
        return Err(Error::missing(format!("there is no target {}", request.target)));
    }
    check_name(&request.heap)?;
    let mut sessions = service.heaps.sessions.borrow_mut();
    let of_link = sessions.range((link, String::new())..).take_while(|((of, _), _)| *of == link).count();
    let key = (link, request.heap.clone());
    if !sessions.contains_key(&key) && of_link >= MOST_HEAPS {
        return Err(Error::busy(format!(
            "{of_link} heaps are used over this connection already; abort in one of them, or use another connection"
        )));
    }
    let session = sessions.entry(key).or_insert_with(|| {
        let (heap, turns) = (request.heap.clone(), Turns::default());
        let begun = RefCell::new(Begun::new(&service.heaps.begun));
        Rc::new(Session { link, heap, fenced, turns, transaction: RefCell::default(), begun })
    });
    let session = session.clone();
    let ticket = session.turns.ticket();
    Ok((session, ticket))
}

/// Forgets a session that has no transaction, and of which nobody waits for a turn.
fn forget_idle(service: &Service, session: Rc<Session>) {
    if session.transaction.borrow().is_some() || !session.begun.borrow().is_empty() {
        return;
    }
    let mut sessions = service.heaps.sessions.borrow_mut();
    let key = (session.link, session.heap.clone());
    // The one there and this one: none else has it.
    if Rc::strong_count(&session) == 2 && sessions.get(&key).is_some_and(|there| Rc::ptr_eq(there, &session)) {
        sessions.remove(&key);
    }
}

/// Nobody asks over this link any more: what it put and did not commit is undone.
pub(super) fn end(service: &Rc<Service>, link: LinkId) {
    end_those(service, |session| session.link == link);
}

fn end_those(service: &Rc<Service>, which: impl Fn(&Session) -> bool) {
    let mut sessions = service.heaps.sessions.borrow_mut();
    let ended: Vec<_> = sessions.extract_if(.., |_, session| which(session)).collect();
    for (_, session) in ended {
        let ticket = session.turns.ticket();
        let this = service.clone();
        service.env.spawner.detach(async move { session.end(&this, ticket).await });
    }
}

/// Nobody asks any more: what was not committed is undone.
pub(super) async fn end_all(service: &Service) {
    let ended = service.heaps.sessions.take();
    for session in ended.into_values() {
        let ticket = session.turns.ticket();
        session.end(service, ticket).await;
    }
}

impl Session {
    async fn transaction(&self, service: &Service) -> Result<Rc<Transaction>> {
        let is_put = !self.begun.borrow().is_empty();
        self.transaction_where(service, is_put).await
    }

    /// The transaction, where it is said whether a part of a record came in it.
    async fn transaction_where(&self, service: &Service, is_put: bool) -> Result<Rc<Transaction>> {
        // Who has done nothing to a heap that was opened anew since, and may never abort, goes on with what is there now.
        let is_over =
            |transaction: &mut Rc<Transaction>| !is_put && transaction.is_idle() && transaction.heap().has_ended();
        drop(self.transaction.borrow_mut().take_if(is_over));
        if let Some(transaction) = &*self.transaction.borrow() {
            return Ok(transaction.clone());
        }
        let opened = open(service, &self.heap).await?;
        let commits = service.heaps.commits_of(&self.heap);
        let transaction = Rc::new(Transaction::new(opened, commits));
        *self.transaction.borrow_mut() = Some(transaction.clone());
        Ok(transaction)
    }

    /// Undoes what is not committed.
    async fn end(&self, service: &Service, ticket: Ticket) {
        let _turn = self.turns.wait(ticket).await;
        self.abort(service);
    }

    fn abort(&self, service: &Service) {
        self.begun.replace(Begun::new(&service.heaps.begun));
        self.transaction.take();
        self.let_go(service);
    }

    /// What is held for it is read again by who wants it.
    fn let_go(&self, service: &Service) {
        service.heaps.large.let_go(|part| (part.link, &part.heap) == (self.link, &self.heap));
    }

    async fn ask(&self, service: &Service, request: HeapRequest, payload: &[u8]) -> Result<HeapAnswer> {
        request.check(payload.len())?;
        match request.ask {
            HeapAsk::Put { lengths, from, more } => {
                self.begun.borrow().check()?;
                let begun = self.begun.replace(Begun::new(&service.heaps.begun));
                if from != begun.bytes().len() as u64 {
                    return Err(Error::usage(format!(
                        "a record that goes on at byte {from} came after {} bytes of one (nothing was changed)",
                        begun.bytes().len()
                    )));
                }
                let transaction = self.transaction_where(service, from > 0).await?;
                let ids = self.put(service, &transaction, begun, (&lengths, more), payload).await?;
                Ok(HeapReply::Ids(ids).into())
            }
            HeapAsk::Get { ids, from, as_of } => {
                let source = Source::new(service, &self.transaction(service).await?, as_of).await?;
                self.get(service, &source, &ids, from, as_of).await
            }
            HeapAsk::Free { ids } => {
                self.let_go(service);
                self.transaction(service).await?.free(&ids).await.map(|()| HeapReply::Done.into())
            }
            HeapAsk::Commit { root } => {
                service.heaps.let_looks_go(service.env.clock.now());
                self.commit(&*self.transaction(service).await?, root).await
            }
            HeapAsk::Abort => {
                // Also where the heap is gone.
                self.abort(service);
                Ok(HeapReply::Done.into())
            }
            HeapAsk::Root { as_of } => {
                let info = match Source::new(service, &self.transaction(service).await?, as_of).await? {
                    Source::Now(transaction) => transaction.heap().status().last,
                    Source::At(look) => look.info(),
                };
                Ok(HeapReply::Root { commit: info.commit, root: info.root }.into())
            }
            HeapAsk::History { before, most } => {
                let transaction = self.transaction(service).await?;
                let commits = transaction.heap().history(before, most as usize).await?;
                Ok(HeapReply::History(commits).into())
            }
            HeapAsk::Unread { .. }
            | HeapAsk::ReadUnits { .. }
            | HeapAsk::Receive { .. }
            | HeapAsk::WriteUnits { .. }
            | HeapAsk::Received { .. } => self.ask_to_move(service, request, payload).await,
        }
    }

    async fn commit(&self, transaction: &Transaction, root: NewRoot) -> Result<HeapAnswer> {
        self.begun.borrow().check()?;
        let begun = self.begun.borrow().bytes().len();
        if begun > 0 {
            return Err(Error::usage(format!(
                "{begun} bytes of a record came without its end; send the rest, or abort (nothing was changed)"
            )));
        }
        transaction.commit(root).await.map(|commit| HeapReply::Committed(commit).into())
    }

    /// Puts the records of a payload, of which the first one goes on with what came before.
    async fn put(
        &self,
        service: &Service,
        transaction: &Transaction,
        mut begun: Begun,
        (lengths, more): (&[u32], bool),
        payload: &[u8],
    ) -> Result<Vec<RecordId>> {
        let (heaps, now) = (&service.heaps, service.env.clock.now());
        let mut rest = payload;
        let mut records = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (record, behind) = rest.split_at(*length as usize);
            records.push(record);
            rest = behind;
        }
        let goes_on = if more { records.pop() } else { None };
        if more && goes_on.is_none() {
            return Err(Error::usage("no record goes on where there is none (nothing was changed)"));
        }
        if !begun.bytes().is_empty() {
            match (records.first_mut(), goes_on) {
                (Some(first), _) => {
                    heaps.add(&mut begun, first, now)?;
                    *first = begun.bytes();
                }
                (None, Some(part)) => {
                    heaps.add(&mut begun, part, now)?;
                    *self.begun.borrow_mut() = begun;
                    return Ok(Vec::new());
                }
                (None, None) => {
                    return Err(Error::usage("a record that goes on does not go on here (nothing was changed)"));
                }
            }
        }
        let mut next = begun.next();
        heaps.add(&mut next, goes_on.unwrap_or(&[]), now)?;
        let ids = transaction.put(&records).await?;
        *self.begun.borrow_mut() = next;
        Ok(ids)
    }

    async fn get(
        &self,
        service: &Service,
        source: &Source,
        ids: &[RecordId],
        from: u64,
        as_of: Option<u64>,
    ) -> Result<HeapAnswer> {
        let most = MOST_AT_ONCE.0 as usize;
        if let (Some(first), true) = (ids.first(), from > 0) {
            let part = Part { link: self.link, heap: self.heap.clone(), id: *first, as_of };
            let record = match service.heaps.large.take(&part) {
                Some(held) => held,
                None => {
                    let _turn = service.heaps.large.turn().await;
                    source.get_many(&ids[..1]).await.swap_remove(0)?
                }
            };
            return Ok(answer_part(service, part, record, from));
        }
        let (mut found, mut payload) = (Vec::with_capacity(ids.len()), Vec::new());
        while found.len() < ids.len() {
            let count = at_once(&ids[found.len()..], found.len(), most - payload.len(), payload.len());
            let some = &ids[found.len()..][..count];
            let _turn = match some[0].is_chain() {
                true => Some(service.heaps.large.turn().await),
                false => None,
            };
            for record in source.get_many(some).await {
                match record {
                    Ok(record) if record.len() > most && found.is_empty() => {
                        let part = Part { link: self.link, heap: self.heap.clone(), id: ids[0], as_of };
                        return Ok(answer_part(service, part, record, 0));
                    }
                    Ok(record) if payload.len() + record.len() > most => {
                        return Ok(HeapAnswer { reply: HeapReply::Records(found), payload });
                    }
                    Ok(record) => {
                        payload.extend_from_slice(&record);
                        found.push(Ok(record.len() as u64));
                    }
                    Err(error) => found.push(Err(error)),
                }
            }
        }
        Ok(HeapAnswer { reply: HeapReply::Records(found), payload })
    }
}

/// The bytes of a large record from `from` on, as many as fit; the record is held while there are more.
fn answer_part(service: &Service, part: Part, bytes: Vec<u8>, from: u64) -> HeapAnswer {
    let from = (from as usize).min(bytes.len());
    let end = bytes.len().min(from + MOST_AT_ONCE.0 as usize);
    let (payload, length) = (bytes[from..end].to_vec(), bytes.len());
    if end < length {
        service.heaps.large.hold(part, bytes);
    }
    HeapAnswer { reply: HeapReply::Records(vec![Ok(length as u64)]), payload }
}

/// Where records are got from.
enum Source {
    Now(Rc<Transaction>),
    At(Rc<Look>),
}

impl Source {
    /// What is to be looked at: a commit, or what is there now.
    async fn new(service: &Service, transaction: &Rc<Transaction>, as_of: Option<u64>) -> Result<Source> {
        let Some(commit) = as_of else { return Ok(Source::Now(transaction.clone())) };
        let now = service.env.clock.now();
        let look = match transaction.as_of(commit, now).await {
            Err(error) if error.kind == Kind::Busy => {
                service.heaps.let_looks_go(now);
                transaction.as_of(commit, now).await
            }
            look => look,
        };
        look.map(Source::At)
    }

    async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        match self {
            Source::Now(transaction) => transaction.get_many(ids).await,
            Source::At(look) => look.get_many(ids).await,
        }
    }
}

/// How many of the first of `ids` are read together, one at least, where `found` had `bytes` and there is room for as much as
/// `room`: what does not fit would be read for nothing.
fn at_once(ids: &[RecordId], found: usize, room: usize, bytes: usize) -> usize {
    // A chained one may be larger than all others together.
    let together = ids.iter().take_while(|id| !id.is_chain()).count();
    let fit = if bytes == 0 { AT_FIRST } else { room / bytes.div_ceil(found) };
    together.min(fit).clamp(1, ids.len())
}

#[cfg(test)]
mod tests;
