//! Fences: of which version the capabilities for an object have to be.
//!
//! The version is an attribute of the object, so it is durable and moves with it; an object without one, or that is not there,
//! has version [`FIRST_FENCE`]. That of a ring is in its record in the catalog as well, and that one counts: rings are recorded
//! into and read while nothing is known of objects any more.
//!
//! A fence that is raised shuts out at once whoever comes with an older capability, waits for those who are in with one, and is
//! durable before anybody comes in with the newer one and before it is answered. The manager tells of it; and so does everybody
//! who comes with a newer capability, since only the manager makes those, when the version is durable there. (Panasas
//! ActiveScale, 2004: revoking; T10 OSD: the policy access tag.)
//!
//! What lasts is not waited for: recorders and queries of a ring are inside while they begin, and end when its fence is raised;
//! and what was put into a heap and not committed is undone then.
//!
//! Invariant: while anything of an object is under way, its fence is in memory.

use super::{Fenced, Service, heaps, queries, sessions};
use forebay_env::pipe::pipe;
use forebay_model::object::{Attribute, FENCE, FENCES, FIRST_FENCE};
use forebay_model::{Error, Kind, ObjectId, Result};
use forebay_target::object::{Objects, rows};
use forebay_wire::ring;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Fences that are kept in memory. Those are forgotten of objects that nothing is under way with, unless they could not be written.
const MOST_KNOWN: usize = 64 << 10;

/// The fences of a target.
#[derive(Default)]
pub(super) struct Fences {
    known: Rc<RefCell<BTreeMap<ObjectId, Fence>>>,
    /// How often some were forgotten.
    swept: Cell<u64>,
    /// To which version each was raised first since the target is served. What is forgotten counts as never raised.
    raised: RefCell<BTreeMap<ObjectId, u64>>,
}

struct Fence {
    /// Nobody is let in with less.
    version: u64,
    /// What it is after a crash.
    durable: u64,
    /// Somebody makes it durable.
    is_written: bool,
    /// Requests that were let in, by the version that they showed, and those who raise it.
    inside: BTreeMap<u64, u64>,
    waiting: Vec<Waker>,
}

/// A request that was let in, until it is done.
pub(super) struct Entered {
    known: Rc<RefCell<BTreeMap<ObjectId, Fence>>>,
    object: ObjectId,
    version: u64,
}

/// Somebody makes a fence durable until this is dropped; then others may.
struct Writing<'a> {
    entered: &'a Entered,
    version: u64,
}

/// Lets a request in if its capability is of the version of the object's fence, which it raises if need be; one without is let
/// in in any case. [`Kind::Stale`] if it was revoked.
pub(super) async fn enter(service: &Rc<Service>, fenced: Option<Fenced>) -> Result<Option<Entered>> {
    let Some(Fenced { object, version }) = fenced else { return Ok(None) };
    loop {
        load(service, object).await?;
        {
            let mut known = service.fences.known.borrow_mut();
            let fence = known.get_mut(&object).expect("it was read just now");
            if version < fence.version {
                return Err(Error::stale("the capability was revoked; ask the manager for another"));
            }
            if version == fence.durable {
                return Ok(Some(fence.enter(service, object, version)));
            }
        }
        raise_whole(service, object, version).await?;
    }
}

/// Raises a fence to the end, also if whoever waits for that gives up meanwhile, as a query does that is cancelled.
async fn raise_whole(service: &Rc<Service>, object: ObjectId, version: u64) -> Result<()> {
    let (answer, mut outlet) = pipe(0);
    let this = service.clone();
    service.env.spawner.detach(async move {
        let raised = raise(&this, object, version).await;
        answer.send(raised, 0).await;
    });
    outlet.receive().await.unwrap_or_else(|| Err(Error::disconnected("the target is going away")))
}

/// Raises a fence. If that cannot be written down, as where there is no room, it counts all the same as long as this target is served:
/// nobody is let in with less, and with as much only once it is written.
pub(super) async fn raise(service: &Rc<Service>, object: ObjectId, version: u64) -> Result<()> {
    if let Err(error) = load(service, object).await {
        let mut known = service.fences.known.borrow_mut();
        // Should it become readable again, nobody is let in with less.
        if error.kind != Kind::Busy && known.len() < MOST_KNOWN {
            known.entry(object).or_insert_with(|| Fence::new(version, 0));
        }
        return Err(error);
    }
    // Whoever raises it is not waited for.
    let entered = {
        let mut known = service.fences.known.borrow_mut();
        let fence = known.get_mut(&object).expect("it was read just now");
        fence.version = fence.version.max(version);
        fence.enter(service, object, u64::MAX)
    };
    // Of those who are in, one may be making the ring that the fence is kept with.
    entered.until(|fence| fence.inside.range(..version).next().is_none().then_some(())).await;
    let mut kept = Ok(());
    while kept.is_ok()
        && let Some(writing) = entered.to_write(version).await
    {
        kept = keep(service, object, writing.version).await;
        if kept.is_ok() {
            // One that could not be read may have been as high when this target was opened.
            let was_read = entered.with(|fence| {
                let before = fence.durable;
                fence.durable = before.max(writing.version);
                before > 0
            });
            if was_read {
                service.fences.note(object, writing.version);
            }
        }
    }
    // Nobody begins anything with an older one any more: what was begun ends here.
    sessions::shut_out(service, object, version);
    queries::shut_out(service, object, version);
    heaps::shut_out(service, object, version);
    kept
}

/// Lets somebody in who is to have a lock, and says to which version the object's fence was raised first since this target is served:
/// whoever had a lock before that showed less.
pub(super) async fn lock(service: &Rc<Service>, fenced: Fenced) -> Result<Option<u64>> {
    let _entered = enter(service, Some(fenced)).await?;
    Ok(service.fences.raised.borrow().get(&fenced.object).copied())
}

impl Fences {
    fn note(&self, object: ObjectId, version: u64) {
        let mut raised = self.raised.borrow_mut();
        if raised.len() >= MOST_KNOWN {
            raised.clear();
        }
        raised.entry(object).or_insert(version);
    }
}

impl Fence {
    fn new(version: u64, durable: u64) -> Fence {
        Fence { version, durable, is_written: false, inside: BTreeMap::new(), waiting: Vec::new() }
    }

    fn enter(&mut self, service: &Service, object: ObjectId, version: u64) -> Entered {
        *self.inside.entry(version).or_default() += 1;
        Entered { known: service.fences.known.clone(), object, version }
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Entered {
    fn with<T>(&self, look: impl FnOnce(&mut Fence) -> T) -> T {
        look(self.known.borrow_mut().get_mut(&self.object).expect("while something is under way it stays"))
    }

    async fn until<T>(&self, is_so: impl Fn(&mut Fence) -> Option<T>) -> T {
        poll_fn(|context| {
            self.with(|fence| match is_so(fence) {
                Some(value) => Poll::Ready(value),
                None => {
                    fence.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// What the caller has to make durable, when nobody else does; `None` if what it wants is.
    async fn to_write(&self, wanted: u64) -> Option<Writing<'_>> {
        let version = self
            .until(|fence| {
                if fence.durable >= wanted {
                    return Some(None);
                }
                (!std::mem::replace(&mut fence.is_written, true)).then_some(Some(fence.version))
            })
            .await?;
        Some(Writing { entered: self, version })
    }
}

/// Reads an object's fence unless it is known.
async fn load(service: &Service, object: ObjectId) -> Result<()> {
    let fences = &service.fences;
    loop {
        if fences.known.borrow().contains_key(&object) {
            return Ok(());
        }
        let swept = fences.swept.get();
        let version = match service.target.fence_of_ring(&ring::name_of(object)) {
            Some(version) => version,
            None => among_objects(service.target.objects(), object).await?,
        };
        if fences.swept.get() != swept {
            // Somebody may have raised it meanwhile, and what was known of that is forgotten.
            continue;
        }
        let mut known = fences.known.borrow_mut();
        if known.len() >= MOST_KNOWN {
            known.retain(|_, fence| !fence.inside.is_empty() || fence.version > fence.durable);
            fences.swept.set(swept + 1);
            if known.len() >= MOST_KNOWN {
                return Err(Error::busy(format!(
                    "{MOST_KNOWN} objects are used, or were revoked and there is no room to write that down; remove something, and ask again"
                )));
            }
        }
        // Somebody else may have read it meanwhile, and raised it.
        known.entry(object).or_insert_with(|| Fence::new(version, version));
        return Ok(());
    }
}

/// What an object's attributes say of its fence.
async fn among_objects(objects: &Objects, object: ObjectId) -> Result<u64> {
    match objects.attributes_from(object, FENCES, FENCE, 8).await {
        Ok((found, _)) => Ok(found
            .into_iter()
            .find(|(number, _)| *number == FENCE)
            .and_then(|(_, value)| value.try_into().ok())
            .map_or(FIRST_FENCE, u64::from_le_bytes)),
        Err(error) if error.kind == Kind::Missing => Ok(FIRST_FENCE),
        Err(error) => Err(error),
    }
}

/// Makes a fence durable. An object that is not there yet is made, so that nobody makes it with what was revoked; that of a ring
/// has it, too, since it is there when the ring is no more.
async fn keep(service: &Service, object: ObjectId, version: u64) -> Result<()> {
    let is_ring = service.target.fence_ring(&ring::name_of(object), version).await?;
    let objects = service.target.objects();
    if is_ring && objects.lost().is_some() {
        return Ok(());
    }
    let value = version.to_le_bytes().to_vec();
    match objects.set_attributes(object, vec![(FENCES, FENCE, Some(value.clone()))]).await {
        Err(error) if error.kind == Kind::Missing => create(objects, object, vec![(FENCES, FENCE, value)]).await,
        done => done,
    }
}

/// Makes an object, and its volume if need be: how much that may hold, the manager says.
pub(super) async fn create(objects: &Objects, object: ObjectId, attributes: Vec<Attribute>) -> Result<()> {
    match objects.create(object, attributes.clone()).await {
        Err(error) if error.kind == Kind::Missing => {
            match objects.create_volume(object.volume, rows::Quota::default()).await {
                Err(error) if error.kind != Kind::Exists => return Err(error),
                _ => {}
            }
            objects.create(object, attributes).await
        }
        made => made,
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.entered.with(|fence| {
            fence.is_written = false;
            fence.wake();
        });
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut known = self.known.borrow_mut();
        let Some(fence) = known.get_mut(&self.object) else { return };
        if let Some(count) = fence.inside.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                fence.inside.remove(&self.version);
            }
        }
        fence.wake();
    }
}

#[cfg(test)]
mod tests;
