//! Targets of the manager's process, as those on which copies of what it knows are.

use forebay_manager::copies::{Beside, Doing, VOLUME};
use forebay_model::object::{Durability, Placement, Quota};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_node::Host;
use forebay_node::objects::ObjectLink;
use forebay_wire::object::{Ask, ObjectAnswer, ObjectInfo, ObjectReply, ObjectRequest};
use std::rc::Rc;
use std::sync::Arc;

/// Objects that are listed at once.
const LISTED: u32 = 256;

/// Ways to the targets of hosts, which have to outlive whoever writes copies.
pub struct OnHosts(Vec<(ObjectLink, Vec<TargetId>)>);

/// The same, for tasks of one thread.
pub(crate) struct OnTargets(Rc<OnHosts>);

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
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let ask = Ask::List { volume, from, most: LISTED, page };
            match self.ask(target, ask, Arc::default()).await {
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

    /// Whether any target has a copy.
    pub(crate) async fn has_copies(&self) -> Result<bool> {
        for target in self.targets() {
            if !self.list(target, VOLUME, None).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn append(&self, target: TargetId, object: u64, bytes: Arc<Vec<u8>>) -> Result<()> {
        let id = ObjectId { volume: VOLUME, object };
        let append = || Ask::Append { id, placement: Placement::Auto, durability: Durability::Durable };
        match self.ask(target, append(), bytes.clone()).await {
            Err(error) if error.kind == Kind::Missing => {}
            answer => return answer.map(drop),
        }
        let create = || Ask::Create { id, attributes: Vec::new() };
        match self.ask(target, create(), Arc::default()).await {
            Err(error) if error.kind == Kind::Missing => {
                let volume = Ask::CreateVolume { volume: VOLUME, quota: Quota::default() };
                self.ask(target, volume, Arc::default()).await?;
                self.ask(target, create(), Arc::default()).await?;
            }
            answer => drop(answer?),
        }
        self.ask(target, append(), bytes).await.map(drop)
    }

    async fn remove_before(&self, target: TargetId, object: u64) -> Result<()> {
        for info in self.list(target, VOLUME, None).await? {
            if info.id.object < object {
                self.ask(target, Ask::Remove { id: info.id }, Arc::default()).await?;
            }
        }
        Ok(())
    }
}

impl OnTargets {
    pub(crate) fn new(hosts: Rc<OnHosts>) -> OnTargets {
        OnTargets(hosts)
    }
}

impl Beside for OnTargets {
    fn targets(&self) -> Vec<TargetId> {
        self.0.targets()
    }

    fn append(&self, target: TargetId, object: u64, bytes: Arc<Vec<u8>>) -> Doing {
        let hosts = self.0.clone();
        Box::pin(async move { hosts.append(target, object, bytes).await })
    }

    fn remove_before(&self, target: TargetId, object: u64) -> Doing {
        let hosts = self.0.clone();
        Box::pin(async move { hosts.remove_before(target, object).await })
    }
}

/// What is said of an answer to something else.
pub(crate) fn strange(target: TargetId, reply: &ObjectReply) -> Error {
    Error::damaged(format!("target {target} answered what it was not asked: {reply:?}"))
}
