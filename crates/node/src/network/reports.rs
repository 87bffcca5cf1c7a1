//! What a node tells the manager, again and again, and what it does with the answer: keys, epochs, fences.
//!
//! Before the first answer the node has no keys, so nothing is allowed: what it missed while it was away it learns before it
//! serves. What was revoked may come in parts, before the last of which the manager sends a target that was started no keys. If anything of
//! one of the parts was not done, the keys are not taken: the target goes on to say that it has none, and hears of what is left, from the
//! first on. With the manager away it goes on with the keys that it has.

use super::load::Load;
use super::{Node, TargetDoor};
use forebay_env::fabric::FabricFuture;
use forebay_env::race::{First, race};
use forebay_env::random;
use forebay_env::together::all;
use forebay_model::{Error, Kind, Moment, ObjectId, Result, TargetId};
use forebay_wire::capability::TargetKey;
use forebay_wire::command::{Reply, Request, TargetInfo};
use forebay_wire::control::cluster::{MOST_ANEW, Order, Report, Reported, TargetReport, ToTarget, clock_off};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// How often a node reports.
const EVERY: Duration = Duration::from_secs(2);
/// How long a target may take for one thing: so that one whose device hangs does not keep its node from reporting for so long
/// that it counts as lost.
const DEVICE: Duration = Duration::from_secs(5);

/// A way to the manager, as this node.
pub trait ToManager {
    /// Reports.
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>>;
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub node: u64,
    /// The cluster that its targets were made for.
    pub cluster: u128,
    /// Where clients reach it.
    pub address: String,
}

/// What came of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Targets that may not serve, and why.
    pub refused: Vec<(TargetId, Error)>,
    /// Targets that could not carry out what they were told, and why not. They serve all else.
    pub unable: Vec<(TargetId, Error)>,
    /// Rings that were made anew there and are not to be there, so that they were set aside.
    pub set_aside: Vec<(TargetId, ObjectId)>,
    /// How many targets serve.
    pub serving: usize,
    /// The epoch of the cluster's map.
    pub epoch: u64,
    /// How this node's clock differs from the manager's, and what to do, if it does by more than it may.
    pub clock_off: Option<String>,
}

/// What a target did of what it was told.
struct Obeyed {
    carried_out: Vec<Order>,
    /// Whether all that was revoked is fenced.
    is_fenced: bool,
    /// It has no key, and something that it was told may not be fenced: what was revoked has to be heard of from the first on.
    is_missed: bool,
    /// Why an order could not be carried out, and will not be soon.
    unable: Option<Error>,
    set_aside: Vec<ObjectId>,
    /// The newest key that it has; a target without one serves nobody.
    key: Option<u32>,
}

/// What a node has done of what it was told, and has not said yet.
#[derive(Default)]
struct Done {
    carried_out: BTreeMap<TargetId, Vec<Order>>,
    keys: BTreeMap<TargetId, u32>,
    epoch: u64,
    /// Targets without keys that did not do all that they were told since the last keys came for them.
    missed: BTreeSet<TargetId>,
    /// One of these hears of what was revoked from the first on with the next report.
    hears_again: bool,
    /// How busy its targets were when it said so last.
    load: Load,
}

impl Node {
    /// Reports for ever; `heard` is told of each answer.
    pub async fn keep_reporting(
        self: Rc<Self>,
        identity: Identity,
        manager: Rc<dyn ToManager>,
        heard: impl Fn(Result<Heard>),
    ) {
        let mut done = Done::default();
        loop {
            let reported = self.report(&identity, &*manager, &mut done).await;
            let goes_on = reported.is_ok() && (done.hears_again || !done.carried_out.is_empty());
            heard(reported);
            // What was carried out is said at once; and a target that begins to hear again serves nobody meanwhile.
            if !goes_on {
                self.env.clock.sleep(EVERY).await;
            }
        }
    }

    async fn report(&self, identity: &Identity, manager: &dyn ToManager, done: &mut Done) -> Result<Heard> {
        let doors: Vec<TargetDoor> = self.targets.borrow().values().cloned().collect();
        let asked = doors.iter().map(|door| race(self.info(door), self.env.clock.sleep(self.limit())));
        let (told, now) = (all(asked).await.into_iter(), self.env.clock.now());
        let told = told.filter_map(|answer| match answer {
            First::Left(Ok((info, anew))) => Some(self.of_target(identity, (&info, anew), now, done)),
            // One that does not answer is not reported, and so counts as lost.
            _ => None,
        });
        let targets: Vec<TargetReport> = told.collect();
        let of_anew = targets.iter().filter(|report| !report.anew.is_empty());
        let anew: BTreeMap<TargetId, Vec<ObjectId>> =
            of_anew.map(|report| (report.target, report.anew.clone())).collect();
        let Identity { node, address, .. } = identity.clone();
        // If that fails nobody knows whether it was heard: it is said again.
        let wall = self.env.clock.wall();
        let without = targets.iter().filter(|report| report.key == 0).map(|report| report.target);
        let without: Vec<TargetId> = without.collect();
        let reported = match manager.report(Report { node, address, targets, wall }).await {
            Ok(reported) => reported,
            Err(error) => {
                // An answer that was lost may have told them of what was revoked.
                done.missed.extend(without);
                return Err(error);
            }
        };
        // Whenever the manager read its clock in between: what only the way took is no difference.
        let nearest = reported.wall.max(wall).min(self.env.clock.wall());
        let clock_off = clock_off(node, nearest, reported.wall);
        done.carried_out.clear();
        done.hears_again = false;
        self.shut_out(&reported.shut_out);
        let (refused, unable, set_aside) = (Vec::new(), Vec::new(), Vec::new());
        let mut heard = Heard { refused, unable, set_aside, serving: 0, epoch: reported.epoch, clock_off };
        let (told, refused): (Vec<ToTarget>, Vec<ToTarget>) =
            reported.targets.into_iter().partition(|told| told.refused.is_none());
        heard.refused = refused.into_iter().filter_map(|told| Some((told.target, told.refused?))).collect();
        let mut is_done = heard.refused.is_empty();
        // Side by side: a report that waited for one slow target after the other would come so late that the node is down.
        let targets: Vec<TargetId> = told.iter().map(|told| told.target).collect();
        let before = &*done;
        let obeyed = all(told.into_iter().map(|told| self.obey(identity, told, before, &anew))).await;
        for (target, obeyed) in targets.into_iter().zip(obeyed) {
            match obeyed {
                Ok(Obeyed { carried_out, is_fenced, is_missed, unable, set_aside, key }) => {
                    heard.serving += usize::from(key.is_some());
                    if is_missed {
                        done.missed.insert(target);
                    } else {
                        done.hears_again |= done.missed.remove(&target);
                    }
                    done.carried_out.entry(target).or_default().extend(carried_out);
                    done.keys.extend(key.map(|key| (target, key)));
                    heard.unable.extend(unable.map(|error| (target, error)));
                    heard.set_aside.extend(set_aside.into_iter().map(|ring| (target, ring)));
                    match is_fenced {
                        // Only now: what was revoked before this epoch is fenced.
                        true => self.keys.advance(target, reported.epoch, reported.least_epoch),
                        false => is_done = false,
                    }
                }
                // Others learn of what concerns them all the same.
                Err(error) => {
                    is_done = false;
                    heard.refused.push((target, error));
                }
            }
        }
        done.carried_out.retain(|_, orders| !orders.is_empty());
        if is_done {
            done.epoch = reported.epoch;
        }
        Ok(heard)
    }

    fn of_target(
        &self,
        identity: &Identity,
        (info, anew): (&TargetInfo, Vec<ObjectId>),
        now: Moment,
        done: &mut Done,
    ) -> TargetReport {
        let memory = 2 * self.bounds.memory.0.max(1);
        let memory = (self.memory_used().0 * 100 / memory).min(100) as u8;
        TargetReport {
            target: info.id,
            cluster: identity.cluster,
            openings: info.openings,
            size: info.size,
            free: info.free,
            load: done.load.of(info, now).max(memory),
            epoch: done.epoch,
            key: done.keys.get(&info.id).copied().unwrap_or(0),
            carried_out: done.carried_out.get(&info.id).cloned().unwrap_or_default(),
            failed: info.failed.clone(),
            slow: info.activity.slower > 0,
            anew,
            recorded: info.recorded,
        }
    }

    fn limit(&self) -> Duration {
        DEVICE.min(self.bounds.patience)
    }

    /// Does what a target is told: first of what it made `anew` which is not to be there, then what was revoked, then the keys.
    async fn obey(
        &self,
        identity: &Identity,
        told: ToTarget,
        before: &Done,
        anew: &BTreeMap<TargetId, Vec<ObjectId>>,
    ) -> Result<Obeyed> {
        let (carried_out, set_aside) = (Vec::new(), Vec::new());
        let mut obeyed = Obeyed { carried_out, is_fenced: true, is_missed: false, unable: None, set_aside, key: None };
        let door = self.door(told.target)?;
        // For all orders together: while they are carried out nothing is reported, and a node of which nothing is heard is down.
        let until = self.env.clock.now() + self.limit();
        if let Some(anew) = anew.get(&told.target) {
            let settling = door.handle.settle(anew.iter().map(|ring| (*ring, !told.astray.contains(ring))).collect());
            match race(settling, self.env.clock.sleep(self.limit())).await {
                First::Left(Ok(())) => obeyed.set_aside.clone_from(&told.astray),
                First::Left(Err(error)) => obeyed.unable = Some(error),
                // As after an error, it is asked again with the next report.
                First::Right(()) => {}
            }
        }
        for order in told.orders {
            let carrying_out = async {
                match order.remove {
                    false => door.handle.fence(order.object, order.version).await,
                    true => door.handle.remove(order.object).await,
                }
            };
            // A device that hangs does not keep the others of this node from the manager.
            let left = until.since(self.env.clock.now());
            let First::Left(carried_out) = race(carrying_out, self.env.clock.sleep(left)).await else {
                // Its device hangs, and would with the next one, or is slow: all that is left is told again. Behind what is removed nothing
                // is fenced.
                obeyed.is_fenced &= order.remove;
                break;
            };
            match carried_out {
                Ok(()) => obeyed.carried_out.push(order),
                // It is told again; others may be carried out meanwhile.
                Err(error) if error.kind == Kind::Busy => obeyed.is_fenced &= order.remove,
                // What cannot be written down its target knows all the same, as long as it runs; all else is served.
                Err(error) if error.kind == Kind::Full => {}
                Err(error) => drop(obeyed.unable.get_or_insert(error)),
            }
        }
        let has_key = before.keys.contains_key(&told.target);
        let was_missed = !has_key && before.missed.contains(&told.target);
        if told.keys.is_empty() {
            // More was revoked than one answer tells of: who asks is to ask again, and this node hears the rest first.
            obeyed.is_missed = was_missed || !has_key && !obeyed.is_fenced;
            obeyed.is_fenced = false;
            return Ok(obeyed);
        }
        if !has_key && (was_missed || !obeyed.is_fenced) {
            // That was the last part, and with what is told from now on it is heard of from the first on.
            obeyed.is_missed = !obeyed.is_fenced;
            obeyed.is_fenced = false;
            return Ok(obeyed);
        }
        self.keys.join(identity.cluster, told.target, random::bytes(&*self.env.random));
        for key in told.keys {
            let other = |_| {
                Error::damaged(format!(
                    "the manager sent target {} a key of {} bytes: use the same release on both sides",
                    told.target,
                    key.key.0.len()
                ))
            };
            let bytes = key.key.0[..].try_into().map_err(other)?;
            self.keys.roll(told.target, TargetKey::from_bytes(key.version, bytes));
            obeyed.key = Some(key.version);
        }
        Ok(obeyed)
    }

    /// How a target is, and which of its rings were made anew, so that it is asked whether they are to be there.
    async fn info(&self, door: &TargetDoor) -> Result<(TargetInfo, Vec<ObjectId>)> {
        let info = match door.handle.call_from_task(Request::Info, None).await? {
            Reply::Info(mut info) if info.targets.len() == 1 => info.targets.remove(0),
            _ => return Err(Error::damaged("a target told of others")),
        };
        let mut anew = match info.rings_made_anew {
            0 => Vec::new(),
            _ => door.handle.made_anew().await?,
        };
        // Once it was told of these, it is asked of the others.
        anew.truncate(MOST_ANEW);
        Ok((info, anew))
    }
}

#[cfg(test)]
pub(super) mod tests;
