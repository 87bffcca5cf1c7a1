//! What is asked of heaps over one connection: transactions, each under a number that its client chose and on a link of its own
//! to its target. What is put in one and not committed is undone when it is aborted, and with the connection at the latest.
//!
//! Of one transaction, what puts, frees, commits and aborts is passed on as it comes, and so takes effect in that order. What
//! gets, or asks for the history, waits for room for its answer first, and beside the others. What reads units for a copy counts
//! among what changes something: its target knows them as read from then on. Memory for what is put is taken as for bytes of objects.

use super::answers::Room;
use super::session::{OVERHEAD, Parts, Session};
use crate::heaps::HeapLink;
use crate::host::Handles;
use crate::objects::Pending;
use crate::service::Fenced;
use forebay_model::heap::HeapSettings;
use forebay_model::{Error, ObjectId, Result, TargetId};
use forebay_wire::capability::{Capability, Nonces};
use forebay_wire::command::Request;
use forebay_wire::heap::network::{MOST_TRANSACTIONS, NetworkAsk, NetworkRequest, name_of};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapReply, HeapRequest};
use forebay_wire::object::About;
use forebay_wire::pieces::Pieces;
use forebay_wire::{Head, RequestId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What a connection does with heaps.
#[derive(Default)]
pub(super) struct Heaps {
    transactions: RefCell<BTreeMap<u64, Rc<Running>>>,
}

/// A transaction of a client, which is undone at its target when this is dropped.
struct Running {
    link: HeapLink,
    of: (TargetId, ObjectId),
    /// What was shown when it began.
    version: u64,
}

/// A transaction whose number is free for another one.
pub(super) struct Ended(Rc<Running>);

impl Heaps {
    /// The connection is over: so is all that was not committed over it.
    pub(super) fn end(&self) {
        drop(self.transactions.take());
    }

    /// Whether there is no transaction.
    pub(super) fn is_empty(&self) -> bool {
        self.transactions.borrow().is_empty()
    }

    /// A transaction that goes on.
    fn find(&self, number: u64, of: (TargetId, ObjectId)) -> Result<Option<Rc<Running>>> {
        let Some(found) = self.transactions.borrow().get(&number).cloned() else { return Ok(None) };
        if found.of != of {
            return Err(Error::usage(format!(
                "transaction {number} of this connection is of another heap; take another number (nothing was changed)"
            )));
        }
        Ok(Some(found))
    }

    /// One that goes on with what is shown. What was shown with another version was shut out, and with it went what was put.
    fn find_whole(&self, number: u64, of: (TargetId, ObjectId), version: u64) -> Result<Option<Rc<Running>>> {
        let Some(found) = self.find(number, of)? else { return Ok(None) };
        if found.version != version {
            return Err(Error::stale(format!(
                "transaction {number} was begun with a capability of version {}, and one of version {version} was shown: what was \
                 shown before was revoked, or is; abort, and do it again",
                found.version
            )));
        }
        Ok(Some(found))
    }

    /// The transaction of this connection that is to be aborted, out of its way.
    pub(super) fn ends(&self, head: &Head, request: &NetworkRequest) -> Option<Ended> {
        let of = (request.target, request.heap);
        match request.ask {
            NetworkAsk::Records { transaction, ask: HeapAsk::Abort } if head.payload == 0 => {
                let is_it = |_: &u64, running: &mut Rc<Running>| running.of == of;
                let found = self.transactions.borrow_mut().extract_if(transaction..=transaction, is_it).next();
                found.map(|(_, running)| Ended(running))
            }
            _ => None,
        }
    }

    fn room_for_one(&self) -> Result<()> {
        let there = self.transactions.borrow().len();
        if there < MOST_TRANSACTIONS {
            return Ok(());
        }
        Err(Error::busy(format!(
            "{there} transactions with heaps are on this connection already, and more are not begun; abort in one of them, or use \
             another connection"
        )))
    }
}

impl Session {
    /// Checks what is shown for a request about a heap.
    pub(super) fn check_heap(
        &self,
        head: &Head,
        nonces: &Nonces,
        parts: &Parts<'_>,
        request: &NetworkRequest,
    ) -> Result<Capability> {
        let about = About { object: request.heap, rights: request.rights(), bytes: 0..0 };
        self.check(head, nonces, parts, request.target, about)
    }

    /// Takes a request about a heap in; the inner error is the answer to it.
    pub(super) async fn heap(
        &mut self,
        head: &Head,
        request: NetworkRequest,
        capability: Capability,
    ) -> Result<Result<()>> {
        let (of, fenced) =
            ((request.target, request.heap), Fenced { object: request.heap, version: capability.version });
        let length = head.payload as usize;
        match request.ask {
            NetworkAsk::Create(settings) if length == 0 => Ok(self.create_heap(head, of, fenced, settings)),
            NetworkAsk::Info if length == 0 => {
                let request = Request::HeapInfo { heap: name_of(of.1) };
                Ok(self.ask_of_heap(head, of.0, fenced, request))
            }
            NetworkAsk::Create(_) | NetworkAsk::Info => {
                Ok(Err(Error::usage(format!("{} has no payload, and {length} bytes came", head.command))))
            }
            NetworkAsk::Records { transaction, ask } => {
                let request = HeapRequest { target: of.0, heap: name_of(of.1), ask };
                self.records(head, of, fenced, (transaction, request)).await
            }
        }
    }

    fn create_heap(
        &self,
        head: &Head,
        (target, heap): (TargetId, ObjectId),
        fenced: Fenced,
        settings: HeapSettings,
    ) -> Result<()> {
        self.ask_of_heap(head, target, fenced, Request::CreateHeap { heap: name_of(heap), settings })
    }

    /// What is asked once and answered once.
    fn ask_of_heap(&self, head: &Head, target: TargetId, fenced: Fenced, request: Request) -> Result<()> {
        let handle = self.node.door(target)?.handle;
        let begun = self.doing.begin(target)?;
        self.answer_later(head.request, async move {
            let reply = handle.call_from_task(request, Some(fenced)).await;
            drop(begun);
            forebay_wire::write_body(&reply?)
        });
        Ok(())
    }

    /// What is asked of records.
    async fn records(
        &mut self,
        head: &Head,
        of: (TargetId, ObjectId),
        fenced: Fenced,
        (number, request): (u64, HeapRequest),
    ) -> Result<Result<()>> {
        let length = head.payload as usize;
        // Before memory is taken for what comes.
        let found = request.check(length).and_then(|()| match request.ask {
            HeapAsk::Abort => self.heaps.find(number, of),
            _ => self.transaction(number, of, fenced).map(Some),
        });
        let running = match found {
            Ok(Some(running)) => running,
            Ok(None) => {
                // Of one that never began, or ended, there is nothing.
                self.answer_later(head.request, async { forebay_wire::write_body(&HeapReply::Done) });
                return Ok(Ok(()));
            }
            Err(error) => return Ok(Err(error)),
        };
        if matches!(request.ask, HeapAsk::Get { .. } | HeapAsk::History { .. } | HeapAsk::ReadUnits { .. }) {
            return Ok(self.get_records(head, &running, fenced, request));
        }
        let begun = match self.doing.begin(of.0) {
            Ok(begun) => begun,
            Err(replaced) => return Ok(Err(replaced)),
        };
        let (mut payload, mut room) = (Vec::new(), None);
        if length > 0 {
            room = match self.room_to_write(of.0, length).await {
                Ok(room) => Some(room),
                Err(busy) => return Ok(Err(busy)),
            };
            let brings = self.patience.brings(of.0, length);
            self.window.begins(length);
            self.source.payload_summed_onto(&mut payload).await?;
            self.window.ends();
            drop(brings);
        }
        let pending = match running.link.ask_fenced(request, Arc::new(payload), fenced) {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        self.answer_without_payload(head.request, pending, (begun, room));
        Ok(Ok(()))
    }

    /// Undoes a transaction: after all that was asked in it before.
    pub(super) fn abort(&self, head: &Head, Ended(running): Ended) -> Result<()> {
        let (target, heap) = running.of;
        let begun = self.doing.begin(target)?;
        let request = HeapRequest { target, heap: name_of(heap), ask: HeapAsk::Abort };
        let pending = running.link.ask(request, Arc::default())?;
        self.answer_without_payload(head.request, pending, begun);
        Ok(())
    }

    /// Answers when it is done; `held` is free by then.
    fn answer_without_payload(&self, id: RequestId, pending: Pending<HeapAnswer>, held: impl Sized + 'static) {
        let (answers, small, node) = (self.answers.clone(), self.small.clone(), self.node.clone());
        self.node.env.spawner.detach(async move {
            let answer = pending.answer().await;
            drop(held);
            let body = answer.and_then(|answer| forebay_wire::write_body(&answer.reply));
            let body = body.inspect_err(|error| node.keys.count(error));
            // Many ids take more than other answers without a payload.
            let room = small.take(OVERHEAD + body.as_ref().map_or(0, Vec::len)).await;
            answers.answer(id, body.map(|body| (body, Pieces::default())), Rc::new(room));
        });
    }

    /// The transaction of this number, which begins if there is none.
    fn transaction(&self, number: u64, of: (TargetId, ObjectId), fenced: Fenced) -> Result<Rc<Running>> {
        if let Some(running) = self.heaps.find_whole(number, of, fenced.version)? {
            return Ok(running);
        }
        self.heaps.room_for_one()?;
        let handle = self.node.door(of.0)?.handle;
        let link = HeapLink::new(self.node.link(), Handles::one(of.0, handle));
        let running = Rc::new(Running { link, of, version: fenced.version });
        self.heaps.transactions.borrow_mut().insert(number, running.clone());
        Ok(running)
    }

    /// Gets records, units or a history, when there is room for them.
    fn get_records(&self, head: &Head, running: &Rc<Running>, fenced: Fenced, request: HeapRequest) -> Result<()> {
        let (answers, id, weight) = (self.answers.clone(), head.request, request.weight(0) + OVERHEAD);
        let (node, own, small) = (self.node.clone(), self.room.clone(), self.small.clone());
        let target = running.of.0;
        // Units that are read are off the list of what is to be copied: a request that runs late would take away what nobody gets.
        let begun = match request.ask {
            HeapAsk::ReadUnits { .. } => Some(self.doing.begin(target)?),
            _ => None,
        };
        // What waits for room is no reason to keep a transaction whose connection is over.
        let running = Rc::downgrade(running);
        self.node.env.spawner.detach(async move {
            let answer = async {
                let over = || Error::disconnected("the transaction ended before its records could be got");
                let room = async { (own.take(target, weight).await, node.outgoing.take(target, weight).await) };
                let (own, room) = answers.unless_over(id, room).await.ok_or_else(over)?;
                let pending: Pending<HeapAnswer> = {
                    let running = running.upgrade().ok_or_else(over)?;
                    running.link.ask_fenced(request, Arc::default(), fenced)?
                };
                let answer = pending.answer().await?;
                let room: Room = Rc::new((own.answered(), room.answered()));
                Ok((answer, room))
            };
            let answer: Result<(HeapAnswer, Room)> = answer.await;
            drop(begun);
            match answer {
                Ok((HeapAnswer { reply, payload }, room)) => {
                    let parts = forebay_wire::write_body(&reply).map(|body| (body, payload.into()));
                    answers.answer(id, parts, room);
                }
                Err(error) => {
                    node.keys.count(&error);
                    let room = small.take(OVERHEAD).await;
                    answers.refuse(id, &error, Some(Rc::new(room)));
                }
            }
        });
        Ok(())
    }
}
