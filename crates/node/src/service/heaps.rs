//! What is asked of a target's heaps. What one connection asks about one heap takes effect in the order in which it came.

use super::Service;
use super::objects::LinkId;
use super::transaction::{Doomed, Transaction};
use crate::turns::{Ticket, Turns};
use forebay_env::pipe::Inlet;
use forebay_model::heap::{HeapSettings, LARGEST_RECORD, RecordId};
use forebay_model::ring::check_name;
use forebay_model::{Bytes, Error, Result};
use forebay_target::Heap;
use forebay_target::heap::HeapOptions;
use forebay_wire::heap::{HeapActivity, HeapAnswer, HeapAsk, HeapClass, HeapInfo, HeapName, HeapReply, HeapRequest};
use forebay_wire::heap::{MOST_HEAPS, NewRoot};
use forebay_wire::object::MOST_AT_ONCE;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Heaps that are used, and by whom.
#[derive(Default)]
pub(super) struct Heaps {
    sessions: RefCell<BTreeMap<(LinkId, String), Rc<Session>>>,
    doomed: RefCell<BTreeMap<String, Doomed>>,
    /// Only one is made or opened at a time.
    opening: Turns,
}

/// A heap, as one connection uses it.
#[derive(Default)]
struct Session {
    turns: Turns,
    transaction: RefCell<Option<Rc<Transaction>>>,
    /// What came of a record that is put in parts.
    begun: RefCell<Vec<u8>>,
    held: RefCell<Option<Held>>,
}

/// A large record that is got in parts.
struct Held {
    id: RecordId,
    /// The commit that it was asked of.
    as_of: Option<u64>,
    bytes: Vec<u8>,
}

/// Creates a heap.
pub(super) async fn create(service: &Service, name: &str, settings: HeapSettings) -> Result<HeapInfo> {
    check_name(name)?;
    let opening = service.heaps.opening.take().await;
    service.target.create_heap(name, settings, HeapOptions::default()).await?;
    drop(opening);
    info(service, name).await
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
        taken: class.taken,
        recycled: class.recycled,
        freed: class.freed,
    });
    let activity = HeapActivity {
        commits: status.output.commits,
        put: status.elisions.put,
        dropped: status.elisions.dropped,
        hits: status.elisions.hits,
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
        commit: status.commit,
        root: heap.root(),
        used: status.used,
        space: space.map_or(Bytes::ZERO, |(_, space)| space),
        classes: classes.collect(),
        activity,
        complaints: heap.complaints(),
    })
}

async fn open(service: &Service, name: &str) -> Result<Rc<Heap>> {
    check_name(name)?;
    let _opening = service.heaps.opening.take().await;
    service.target.heap(name, HeapOptions::default()).await
}

/// Begins with what is asked; it is answered when it is done.
pub(super) fn ask(
    service: &Rc<Service>,
    link: LinkId,
    request: HeapRequest,
    payload: Arc<Vec<u8>>,
    answer: Inlet<Result<HeapAnswer>>,
) {
    let session = session(service, link, &request);
    let this = service.clone();
    service.env.spawner.detach(async move {
        let result = match session {
            Ok((session, ticket)) => {
                let _turn = session.turns.wait(ticket).await;
                session.ask(&this, request, &payload).await
            }
            Err(error) => Err(error),
        };
        // Whoever gave it has it to themselves again.
        drop(payload);
        answer.send(result, 0).await;
    });
}

/// The session that a request belongs to, and the request's place in it.
fn session(service: &Service, link: LinkId, request: &HeapRequest) -> Result<(Rc<Session>, Ticket)> {
    if request.target != service.target.id() {
        return Err(Error::missing(format!("there is no target {}", request.target)));
    }
    check_name(&request.heap)?;
    let mut sessions = service.heaps.sessions.borrow_mut();
    let of_link = sessions.range((link, String::new())..).take_while(|((of, _), _)| *of == link).count();
    let key = (link, request.heap.clone());
    if !sessions.contains_key(&key) && of_link >= MOST_HEAPS {
        return Err(Error::busy(format!("{of_link} heaps are used over this connection already; use another")));
    }
    let session = sessions.entry(key).or_default().clone();
    let ticket = session.turns.ticket();
    Ok((session, ticket))
}

/// Nobody asks over this link any more: what it put and did not commit is undone.
pub(super) fn end(service: &Rc<Service>, link: LinkId) {
    let mut sessions = service.heaps.sessions.borrow_mut();
    let ended: Vec<_> = sessions.extract_if(.., |(of, _), _| *of == link).collect();
    for (_, session) in ended {
        let ticket = session.turns.ticket();
        service.env.spawner.detach(async move {
            let _turn = session.turns.wait(ticket).await;
            let transaction = session.transaction.take();
            if let Some(transaction) = transaction {
                // Of a heap that failed, nothing that is not committed stays.
                let _ = transaction.abort().await;
            }
        });
    }
}

impl Session {
    async fn transaction(&self, service: &Service, heap: &str) -> Result<Rc<Transaction>> {
        if let Some(transaction) = &*self.transaction.borrow() {
            return Ok(transaction.clone());
        }
        let opened = open(service, heap).await?;
        let doomed = service.heaps.doomed.borrow_mut().entry(heap.to_string()).or_default().clone();
        let transaction = Rc::new(Transaction::new(service.env.clone(), opened, doomed));
        *self.transaction.borrow_mut() = Some(transaction.clone());
        Ok(transaction)
    }

    async fn ask(&self, service: &Service, request: HeapRequest, payload: &[u8]) -> Result<HeapAnswer> {
        request.check(payload.len())?;
        let transaction = self.transaction(service, &request.heap).await?;
        if let HeapAsk::Get { as_of: Some(commit), .. } | HeapAsk::Root { as_of: Some(commit) } = request.ask {
            check_commit(&transaction, commit)?;
        }
        match request.ask {
            HeapAsk::Put { lengths, from, more } => {
                let ids = self.put(&transaction, &lengths, from, more, payload).await?;
                Ok(HeapReply::Ids(ids).into())
            }
            HeapAsk::Get { ids, from, as_of } => self.get(&transaction, &ids, from, as_of).await,
            HeapAsk::Free { ids } => transaction.free(&ids).await.map(|()| HeapReply::Done.into()),
            HeapAsk::Commit { root } => self.commit(&transaction, root).await,
            HeapAsk::Abort => {
                self.begun.borrow_mut().clear();
                transaction.abort().await.map(|()| HeapReply::Done.into())
            }
            HeapAsk::Root { .. } => {
                let heap = transaction.heap();
                Ok(HeapReply::Root { commit: heap.status().commit, root: heap.root() }.into())
            }
        }
    }

    async fn commit(&self, transaction: &Transaction, root: NewRoot) -> Result<HeapAnswer> {
        let begun = self.begun.borrow().len();
        if begun > 0 {
            return Err(Error::usage(format!(
                "{begun} bytes of a record came without its end; send the rest, or abort (nothing was changed)"
            )));
        }
        transaction.commit(root).await.map(|commit| HeapReply::Committed(commit).into())
    }

    async fn put(
        &self,
        transaction: &Transaction,
        lengths: &[u32],
        from: u64,
        more: bool,
        payload: &[u8],
    ) -> Result<Vec<RecordId>> {
        let mut begun = self.begun.take();
        if from != begun.len() as u64 {
            return Err(Error::usage(format!(
                "a record that goes on at byte {from} came after {} bytes of one (nothing was changed)",
                begun.len()
            )));
        }
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
        let first = records.first().copied().or(goes_on).filter(|_| from > 0);
        if let Some(part) = first {
            if begun.len() + part.len() > LARGEST_RECORD {
                return Err(Error::usage(format!(
                    "a record has {LARGEST_RECORD} bytes at most; cut it into several, or keep it as an object (nothing \
                     was changed)"
                )));
            }
            begun.extend_from_slice(part);
            match records.first_mut() {
                Some(record) => *record = &begun,
                None => {
                    *self.begun.borrow_mut() = begun;
                    return Ok(Vec::new());
                }
            }
        }
        let ids = transaction.put(&records).await?;
        if let Some(part) = goes_on {
            *self.begun.borrow_mut() = part.to_vec();
        }
        Ok(ids)
    }

    async fn get(
        &self,
        transaction: &Transaction,
        ids: &[RecordId],
        from: u64,
        as_of: Option<u64>,
    ) -> Result<HeapAnswer> {
        let most = MOST_AT_ONCE.0 as usize;
        if let (Some(first), true) = (ids.first(), from > 0) {
            let held = self.held.take().filter(|held| (held.id, held.as_of) == (*first, as_of));
            let record = match held {
                Some(held) => held.bytes,
                None => transaction.get_some(&ids[..1]).await.swap_remove(0)?,
            };
            return Ok(self.part(*first, as_of, record, from));
        }
        let (mut found, mut payload) = (Vec::with_capacity(ids.len()), Vec::new());
        while found.len() < ids.len() {
            for record in transaction.get_some(&ids[found.len()..]).await {
                match record {
                    Ok(record) if record.len() > most && found.is_empty() => {
                        return Ok(self.part(ids[0], as_of, record, 0));
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

    /// The bytes of a large record from `from` on, as many as fit; the record is held while there are more.
    fn part(&self, id: RecordId, as_of: Option<u64>, record: Vec<u8>, from: u64) -> HeapAnswer {
        let from = (from as usize).min(record.len());
        let end = record.len().min(from + MOST_AT_ONCE.0 as usize);
        let (payload, length) = (record[from..end].to_vec(), record.len());
        if end < length {
            *self.held.borrow_mut() = Some(Held { id, as_of, bytes: record });
        }
        HeapAnswer { reply: HeapReply::Records(vec![Ok(length as u64)]), payload }
    }
}

fn check_commit(transaction: &Transaction, commit: u64) -> Result<()> {
    let last = transaction.heap().status().commit;
    if commit == last {
        return Ok(());
    }
    Err(Error::usage(format!("commit {commit} cannot be read; the one that can is the last, {last}")))
}
