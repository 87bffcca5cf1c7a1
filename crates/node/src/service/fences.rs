//! Fences: of which version the capabilities for an object have to be.
//!
//! The version is an attribute of the object, so it is durable and moves with it; an object without one, or that is not there,
//! has version [`FIRST_FENCE`]. A fence that is raised shuts out at once whoever comes with an older capability, waits for those who are in,
//! and is durable before it is answered. (Panasas ActiveScale, 2004: revoking; T10 OSD: the policy access tag.)
//!
//! Invariant: while anything of an object is under way, its fence is in memory.

use super::Service;
use forebay_model::object::{Attribute, FENCE, FENCES, FIRST_FENCE};
use forebay_model::{Error, Kind, ObjectId, Result};
use forebay_target::object::{Objects, rows};
use forebay_wire::object::ObjectRequest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Fences that are kept in memory, of objects that nothing is under way with.
const MOST_KNOWN: usize = 64 << 10;

/// The fences of a target.
#[derive(Default)]
pub(super) struct Fences {
    known: Rc<RefCell<BTreeMap<ObjectId, Fence>>>,
}

struct Fence {
    version: u64,
    /// Requests that were let in, by the version that they showed.
    inside: u64,
    waiting: Vec<Waker>,
}

/// A request that was let in, until it is done.
pub(super) struct Entered {
    known: Rc<RefCell<BTreeMap<ObjectId, Fence>>>,
    object: ObjectId,
}

/// Lets a request in if its capability is of the version of the object's fence; one without is let in in any case.
/// [`Kind::Stale`] if it was revoked; [`Kind::Busy`] if others were, and the target has to hear of it first.
pub(super) async fn enter(service: &Service, request: &ObjectRequest, version: Option<u64>) -> Result<Option<Entered>> {
    let Some(version) = version else { return Ok(None) };
    let object = request.about()?.object;
    load(service, object).await?;
    let mut known = service.fences.known.borrow_mut();
    let fence = known.get_mut(&object).expect("it was read just now");
    if version > fence.version {
        // What was revoked is not shut out here yet, so neither is anybody let in.
        return Err(Error::busy("the target has not heard yet what was revoked of the object; ask again in a moment"));
    }
    if version < fence.version {
        return Err(Error::stale("the capability was revoked; ask the manager for another"));
    }
    fence.inside += 1;
    Ok(Some(Entered { known: service.fences.known.clone(), object }))
}

/// Raises a fence.
pub(super) async fn raise(service: &Service, object: ObjectId, version: u64) -> Result<()> {
    load(service, object).await?;
    let changed = {
        let mut known = service.fences.known.borrow_mut();
        let fence = known.get_mut(&object).expect("it was read just now");
        let changed = version > fence.version;
        fence.version = fence.version.max(version);
        // It stays in memory until it is durable.
        fence.inside += 1;
        changed
    };
    let entered = Entered { known: service.fences.known.clone(), object };
    let written = if changed { keep(service, object, version).await } else { Ok(()) };
    poll_fn(|context| {
        let mut known = entered.known.borrow_mut();
        let fence = known.get_mut(&object).expect("while something is under way it stays");
        if fence.inside <= 1 || written.is_err() {
            return Poll::Ready(());
        }
        fence.waiting.push(context.waker().clone());
        Poll::Pending
    })
    .await;
    written
}

/// Reads an object's fence unless it is known.
async fn load(service: &Service, object: ObjectId) -> Result<()> {
    if service.fences.known.borrow().contains_key(&object) {
        return Ok(());
    }
    let version = match service.target.objects().attributes_from(object, FENCES, FENCE, 8).await {
        Ok((found, _)) => found
            .into_iter()
            .find(|(number, _)| *number == FENCE)
            .and_then(|(_, value)| value.try_into().ok())
            .map_or(FIRST_FENCE, u64::from_le_bytes),
        Err(error) if error.kind == Kind::Missing => FIRST_FENCE,
        Err(error) => return Err(error),
    };
    let mut known = service.fences.known.borrow_mut();
    if known.len() >= MOST_KNOWN {
        known.retain(|_, fence| fence.inside > 0);
    }
    // Somebody else may have read it meanwhile, and raised it.
    known.entry(object).or_insert(Fence { version, inside: 0, waiting: Vec::new() });
    Ok(())
}

/// Makes a fence durable. An object that is not there yet is made, so that nobody makes it with what was revoked.
async fn keep(service: &Service, object: ObjectId, version: u64) -> Result<()> {
    let objects = service.target.objects();
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

impl Drop for Entered {
    fn drop(&mut self) {
        let mut known = self.known.borrow_mut();
        let Some(fence) = known.get_mut(&self.object) else { return };
        fence.inside -= 1;
        fence.waiting.drain(..).for_each(Waker::wake);
    }
}
