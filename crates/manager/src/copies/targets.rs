//! Copies as objects of targets, however these are reached.

use super::age::is_ahead;
use super::{Beside, Doing, Known, Site, VOLUME};
use forebay_env::Spawner;
use forebay_model::object::{Durability, Placement, Quota};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectInfo, ObjectReply};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Objects that are listed at once.
const LISTED: u32 = 256;

/// Ways to targets.
pub trait Ways: Clone + 'static {
    /// The targets of the manager's own process.
    fn here(&self) -> Vec<TargetId>;

    /// Asks one of those, or one of another process.
    fn ask(&self, site: &Site, ask: Ask, payload: Arc<Vec<u8>>) -> impl Future<Output = Result<ObjectAnswer>>;

    /// Where what nobody waits for is done.
    fn spawner(&self) -> &Spawner;
}

/// Keeps copies on the targets to which there are these ways.
#[derive(Clone)]
pub struct OnTargets<W> {
    ways: W,
    /// One on which nothing was removed, since something there is newer.
    ahead: Rc<Cell<Option<TargetId>>>,
}

impl<W: Ways> OnTargets<W> {
    /// On some of them.
    pub fn new(ways: W) -> OnTargets<W> {
        OnTargets { ways, ahead: Rc::default() }
    }

    async fn append_to(&self, site: &Site, object: u64, bytes: Arc<Vec<u8>>) -> Result<()> {
        let id = ObjectId { volume: VOLUME, object };
        let append = || Ask::Append { id, placement: Placement::Auto, durability: Durability::Durable };
        match self.ways.ask(site, append(), bytes.clone()).await {
            Err(error) if error.kind == Kind::Missing => {}
            answer => return answer.map(drop),
        }
        let create = || Ask::Create { id, attributes: Vec::new() };
        match self.ways.ask(site, create(), Arc::default()).await {
            // A node makes the volume with the object.
            Err(error) if error.kind == Kind::Missing && site.way.is_none() => {
                let volume = Ask::CreateVolume { volume: VOLUME, quota: Quota::default() };
                self.ways.ask(site, volume, Arc::default()).await?;
                self.ways.ask(site, create(), Arc::default()).await?;
            }
            Err(error) if error.kind == Kind::Exists => {}
            answer => drop(answer?),
        }
        self.ways.ask(site, append(), bytes).await.map(drop)
    }

    async fn remove_older(&self, site: &Site, object: u64, known: Known) -> Result<()> {
        let asking = async |ask| self.ways.ask(site, ask, Arc::default()).await;
        if is_ahead(async |ask| asking(ask).await, site.target, known).await? {
            self.ahead.set(Some(site.target));
            return Ok(());
        }
        for info in list(asking, site.target, VOLUME, None).await? {
            if info.id.object < object {
                self.ways.ask(site, Ask::Remove { id: info.id }, Arc::default()).await?;
            }
        }
        Ok(())
    }
}

impl<W: Ways> Beside for OnTargets<W> {
    fn here(&self) -> Vec<TargetId> {
        self.ways.here()
    }

    fn reaches_others(&self) -> bool {
        true
    }

    fn append(&self, site: Site, object: u64, bytes: Arc<Vec<u8>>) -> Doing {
        let this = self.clone();
        Box::pin(async move { this.append_to(&site, object, bytes).await })
    }

    fn look(&self, site: Site, known: Known) {
        let this = self.clone();
        // What cannot be looked at now is looked at before anything is removed there.
        self.ways.spawner().detach(async move {
            let asking = async |ask| this.ways.ask(&site, ask, Arc::default()).await;
            if is_ahead(asking, site.target, known).await == Ok(true) {
                this.ahead.set(Some(site.target));
            }
        });
    }

    fn remove_before(&self, site: Site, object: u64, known: Known) {
        let this = self.clone();
        // What stays is looked for again when the next one is written to its end.
        self.ways.spawner().detach(async move { drop(this.remove_older(&site, object, known).await) });
    }

    fn ahead(&self) -> Option<TargetId> {
        self.ahead.get()
    }
}

/// The objects of a volume of a target that is asked like this, with what they have on a page of attributes; none if there is no such
/// volume.
pub(crate) async fn list(
    asking: impl AsyncFn(Ask) -> Result<ObjectAnswer>,
    target: TargetId,
    volume: u64,
    page: Option<u32>,
) -> Result<Vec<ObjectInfo>> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        match asking(Ask::List { volume, from, most: LISTED, page }).await {
            Ok(ObjectAnswer { reply: ObjectReply::List { objects, next }, .. }) => {
                all.extend(objects);
                match next {
                    Some(next) => from = next,
                    None => return Ok(all),
                }
            }
            Ok(answer) => return Err(strange(target, &answer.reply)),
            Err(error) if error.kind == Kind::Missing => return Ok(all),
            Err(error) => return Err(error.of(format!("listing objects of target {target}"))),
        }
    }
}

/// What is said of an answer to something else.
pub(crate) fn strange(target: TargetId, reply: &ObjectReply) -> Error {
    Error::damaged(format!("target {target} answered what it was not asked: {reply:?}"))
}
