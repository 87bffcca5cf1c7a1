//! Targets on which copies of what the manager knows are: those of its process, and over the network those of others.

use forebay_client::nodes::{Nodes, Request};
use forebay_manager::copies::{Beside, Doing, Site, VOLUME, Way};
use forebay_model::object::{Durability, Placement, Quota};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_node::Host;
use forebay_node::objects::ObjectLink;
use forebay_wire::object::{About, Ask, ObjectAnswer, ObjectInfo, ObjectReply, ObjectRequest};
use std::rc::Rc;
use std::sync::Arc;

/// Objects that are listed at once.
const LISTED: u32 = 256;

/// Ways to the targets of hosts, which have to outlive whoever writes copies.
pub struct OnHosts(Vec<(ObjectLink, Vec<TargetId>)>);

/// The same, and ways to those of other processes; for tasks of one thread.
#[derive(Clone)]
pub(crate) struct OnTargets {
    hosts: Rc<OnHosts>,
    nodes: Nodes,
}

impl OnHosts {
    /// To these.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> OnHosts {
        OnHosts(hosts.into_iter().map(|host| (host.objects(), host.targets())).collect())
    }

    /// All targets.
    pub(crate) fn targets(&self) -> Vec<TargetId> {
        self.0.iter().flat_map(|(_, targets)| targets.iter().copied()).collect()
    }

    /// Asks a target.
    pub(crate) async fn ask(&self, target: TargetId, ask: Ask, payload: Arc<Vec<u8>>) -> Result<ObjectAnswer> {
        let found = self.0.iter().find(|(_, targets)| targets.contains(&target));
        let (link, _) = found.ok_or_else(|| Error::missing(format!("there is no target {target} in this process")))?;
        link.ask(ObjectRequest::new(target, ask), payload)?.answer().await
    }

    /// The objects of a volume, with what they have on a page of attributes; none if there is no such volume.
    pub(crate) async fn list(&self, target: TargetId, volume: u64, page: Option<u32>) -> Result<Vec<ObjectInfo>> {
        list(async |ask| self.ask(target, ask, Arc::default()).await, target, volume, page).await
    }

    /// Whether any target has a copy.
    pub(crate) async fn has_copies(&self) -> Result<bool> {
        for target in self.targets() {
            if !self.list(target, VOLUME, None).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The objects of a volume of a target that is asked like this.
async fn list(
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

impl OnTargets {
    /// On those of these hosts, and of these nodes.
    pub(crate) fn new(hosts: Rc<OnHosts>, nodes: Nodes) -> OnTargets {
        OnTargets { hosts, nodes }
    }

    async fn ask(&self, site: &Site, ask: Ask, payload: Arc<Vec<u8>>) -> Result<ObjectAnswer> {
        match &site.way {
            None => self.hosts.ask(site.target, ask, payload).await,
            Some(way) => self.ask_away(site.target, way, ask, &payload).await,
        }
    }

    /// Asks a target of another process. A connection that has ended is made again once, which undoes nothing: a record that is there
    /// twice says the same. Whoever cannot be reached then is not waited for.
    async fn ask_away(&self, target: TargetId, way: &Way, ask: Ask, payload: &[u8]) -> Result<ObjectAnswer> {
        let request = ObjectRequest::new(target, ask);
        let About { object, rights, .. } = request.about_with(payload.len())?;
        let shown = way.shown(object.object, rights);
        let payload = if payload.is_empty() { Vec::new() } else { vec![payload.to_vec().into()] };
        let request = Request { command: request.command(), body: request.body()?, payload, most: 0 };
        let once = || self.nodes.ask_once(&way.address, &request, Some(&shown));
        let (answer, ..) = match once().await {
            Err(error) if error.kind == Kind::Disconnected => once().await,
            answer => answer,
        }?;
        ObjectAnswer::read(&answer.body, answer.payload)
    }

    async fn append_to(&self, site: &Site, object: u64, bytes: Arc<Vec<u8>>) -> Result<()> {
        let id = ObjectId { volume: VOLUME, object };
        let append = || Ask::Append { id, placement: Placement::Auto, durability: Durability::Durable };
        match self.ask(site, append(), bytes.clone()).await {
            Err(error) if error.kind == Kind::Missing => {}
            answer => return answer.map(drop),
        }
        let create = || Ask::Create { id, attributes: Vec::new() };
        match self.ask(site, create(), Arc::default()).await {
            // A node makes the volume with the object.
            Err(error) if error.kind == Kind::Missing && site.way.is_none() => {
                let volume = Ask::CreateVolume { volume: VOLUME, quota: Quota::default() };
                self.ask(site, volume, Arc::default()).await?;
                self.ask(site, create(), Arc::default()).await?;
            }
            Err(error) if error.kind == Kind::Exists => {}
            answer => drop(answer?),
        }
        self.ask(site, append(), bytes).await.map(drop)
    }

    async fn remove_older(&self, site: &Site, object: u64) -> Result<()> {
        let asking = async |ask| self.ask(site, ask, Arc::default()).await;
        for info in list(asking, site.target, VOLUME, None).await? {
            if info.id.object < object {
                self.ask(site, Ask::Remove { id: info.id }, Arc::default()).await?;
            }
        }
        Ok(())
    }
}

impl Beside for OnTargets {
    fn here(&self) -> Vec<TargetId> {
        self.hosts.targets()
    }

    fn reaches_others(&self) -> bool {
        true
    }

    fn append(&self, site: Site, object: u64, bytes: Arc<Vec<u8>>) -> Doing {
        let this = self.clone();
        Box::pin(async move { this.append_to(&site, object, bytes).await })
    }

    fn remove_before(&self, site: Site, object: u64) {
        let this = self.clone();
        // What stays is looked for again when the next one is written to its end.
        self.nodes.env().spawner.detach(async move { drop(this.remove_older(&site, object).await) });
    }
}

/// What is said of an answer to something else.
pub(crate) fn strange(target: TargetId, reply: &ObjectReply) -> Error {
    Error::damaged(format!("target {target} answered what it was not asked: {reply:?}"))
}
