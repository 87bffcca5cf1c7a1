//! Requests about objects that are under way: within a window of bytes, and asked again of whoever serves now if the one
//! that was asked went away.

use crate::peer::{ObjectLink, Peer};
use forebay_model::{Error, Kind, Result};
use forebay_wire::object::{Ask, MOST_PENDING, ObjectAnswer, ObjectRequest, WINDOW};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Links that wait for the next who asks: as many as a face keeps busy at once.
const MOST_IDLE: usize = 16;
/// Links that may break one after another without an answer between them.
const MOST_BROKEN: u32 = 20;

/// Links to the objects of a cluster.
pub(super) struct Links {
    pub(super) peer: Arc<dyn Peer>,
    idle: Mutex<Vec<Box<dyn ObjectLink>>>,
}

impl Links {
    pub(super) fn over(peer: Arc<dyn Peer>) -> Arc<Links> {
        Arc::new(Links { peer, idle: Mutex::default() })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Box<dyn ObjectLink>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request with its answer.
pub(super) struct Answered {
    /// What it wrote.
    pub(super) payload: Arc<Vec<u8>>,
    /// It was asked more than once, and may have taken effect before.
    pub(super) repeated: bool,
    /// The answer.
    pub(super) answer: Result<ObjectAnswer>,
}

struct Sent {
    request: ObjectRequest,
    payload: Arc<Vec<u8>>,
    repeated: bool,
    /// It may have taken effect and must not do so twice: nobody knows.
    lost: bool,
}

/// Requests under way over one link.
pub(super) struct Flight {
    links: Arc<Links>,
    link: Option<Box<dyn ObjectLink>>,
    sent: VecDeque<Sent>,
    bytes: usize,
    broken: u32,
}

impl Flight {
    pub(super) fn new(links: &Arc<Links>) -> Flight {
        let link = links.idle().pop();
        Flight { links: links.clone(), link, sent: VecDeque::new(), bytes: 0, broken: 0 }
    }

    /// Whether a request may be sent before an answer is taken.
    pub(super) fn has_room(&self, request: &ObjectRequest, payload: usize) -> bool {
        let fits = self.bytes + request.weight(payload) <= WINDOW.0 as usize;
        self.sent.is_empty() || fits && self.sent.len() < MOST_PENDING
    }

    /// Requests without an answer.
    pub(super) fn pending(&self) -> usize {
        self.sent.len()
    }

    /// Asks; there has to be room.
    pub(super) fn send(&mut self, request: ObjectRequest, payload: Arc<Vec<u8>>) -> Result<()> {
        self.bytes += request.weight(payload.len());
        let link = match &mut self.link {
            Some(link) => link,
            none => none.insert(self.links.peer.objects()?),
        };
        let sent = link.send(&request, &payload);
        if sent.is_err() {
            self.link = None;
        }
        self.sent.push_back(Sent { request, payload, repeated: false, lost: false });
        match sent {
            // Half a request does nothing; those before it may have done something.
            Err(error) => self.again(error, self.sent.len() - 1),
            Ok(()) => Ok(()),
        }
    }

    /// Waits for the answer to the oldest request.
    pub(super) fn receive(&mut self) -> Result<Answered> {
        loop {
            if self.sent.front().is_some_and(|sent| sent.lost) {
                return self.answered(Err(Error::disconnected(
                    "the process that served the cluster went away before it said whether the bytes were appended; \
                     look at the size before appending them again",
                )));
            }
            let Some(link) = &mut self.link else {
                return Err(Error::disconnected("the connection ended while nothing was under way"));
            };
            match link.receive() {
                Ok(Err(error)) | Err(error) if error.kind == Kind::Disconnected => {
                    self.link = None;
                    self.again(error, self.sent.len())?;
                }
                Ok(answer) => {
                    self.broken = 0;
                    return self.answered(answer);
                }
                Err(error) => {
                    self.link = None;
                    return Err(error);
                }
            }
        }
    }

    fn answered(&mut self, answer: Result<ObjectAnswer>) -> Result<Answered> {
        let sent = self.sent.pop_front().ok_or_else(|| Error::damaged("a node answered what was not asked"))?;
        self.bytes -= sent.request.weight(sent.payload.len());
        Ok(Answered { payload: sent.payload, repeated: sent.repeated, answer })
    }

    /// The link broke with `error`; the first `went` requests may have arrived. Asks all of them over another.
    fn again(&mut self, error: Error, went: usize) -> Result<()> {
        let mut error = error;
        for sent in self.sent.iter_mut().take(went) {
            sent.repeated = true;
            sent.lost |= matches!(sent.request.ask, Ask::Append { .. });
        }
        // Those that waited lead to the same place.
        self.links.idle().clear();
        while error.kind == Kind::Disconnected && self.broken < MOST_BROKEN {
            self.broken += 1;
            let mut link = self.links.peer.objects()?;
            let mut waiting = self.sent.iter_mut().filter(|sent| !sent.lost);
            let sent = waiting.try_for_each(|sent| {
                let result = link.send(&sent.request, &sent.payload);
                sent.repeated |= result.is_ok();
                result
            });
            match sent {
                Ok(()) => {
                    self.link = Some(link);
                    return Ok(());
                }
                Err(e) => error = e,
            }
        }
        Err(error)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let Some(link) = self.link.take() else { return };
        let mut idle = self.links.idle();
        // One with answers to come is of no use to anybody else.
        if self.sent.is_empty() && idle.len() < MOST_IDLE {
            idle.push(link);
        }
    }
}
