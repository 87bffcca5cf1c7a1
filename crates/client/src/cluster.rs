//! A cluster, as a program holds it.

use crate::answer::{Answer, Event, check_text, conjunction, later};
use crate::heaps::Heaps;
use crate::objects::Objects;
use crate::peer::Peer;
use crate::recorder::{Recorder, RecorderOptions};
use crate::rings::{KnownRing, RingList};
use crate::targets::OfTargets;
use forebay_model::ring::{Pin, Pinned, RingSpec, RingState, RingStatus, Spread};
use forebay_model::scrub::Scrubbed;
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Error, Gap, Moment, PlanRequest, Profile, Rate, Result, TargetId, Timestamp};
use forebay_wire::command::{AddTarget, Info, QueryRequest, Reply, Request, TargetInfo, TargetPlan, TargetProfile};
use std::sync::Arc;
use std::time::Duration;

/// A way to a cluster. Cheap to clone; shared by all threads. What it opened is closed with its last clone (and the
/// last recorder and answer made from it), or by [`Cluster::close`], which says whether all went well.
#[derive(Clone)]
pub struct Cluster {
    peer: Arc<dyn Peer>,
}

/// How a query is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// Go on with what is recorded from now on, until stopped.
    pub follow: bool,
    /// Elements at most; all if `None`.
    pub limit: Option<u64>,
    /// Only gaps and expired ranges.
    pub gaps_only: bool,
}

impl Cluster {
    /// The cluster that `peer` leads to.
    pub fn over(peer: Arc<dyn Peer>) -> Cluster {
        Cluster { peer }
    }

    /// Who serves, and which targets.
    pub fn info(&self) -> Result<Info> {
        match self.peer.call(Request::Info)? {
            Reply::Info(info) => Ok(info),
            other => Err(unexpected(&other)),
        }
    }

    /// All rings, as they say of themselves.
    pub fn status(&self) -> Result<Vec<RingStatus>> {
        match self.peer.call(Request::Status { ring: None })? {
            Reply::Rings(rings) => Ok(rings),
            other => Err(unexpected(&other)),
        }
    }

    /// One ring, as it says of itself. (One that is just finding its tail is given half a second for that.)
    pub fn ring(&self, name: &str) -> Result<RingStatus> {
        match self.peer.call(Request::Status { ring: Some(name.to_string()) })? {
            Reply::Rings(mut rings) if rings.len() == 1 => Ok(rings.remove(0)),
            other => Err(unexpected(&other)),
        }
    }

    /// All rings, once those that were just opened have found their tails (or after a few seconds).
    pub fn settled(&self) -> Result<Vec<RingStatus>> {
        let mut rings = self.status()?;
        for ring in &mut rings {
            if ring.state == RingState::Recovering {
                // Asked for alone, a ring answers when it is ready.
                *ring = self.ring(&ring.spec.name)?;
            }
        }
        Ok(rings)
    }

    /// All rings, each as far as its targets can be asked.
    pub fn list_rings(&self) -> Result<RingList> {
        if let Some(list) = self.peer.list_rings()? {
            return Ok(list);
        }
        Ok(RingList { rings: self.settled()?.into_iter().map(alone).collect(), unread: Vec::new() })
    }

    /// One ring, as far as its targets can be asked.
    pub fn survey_ring(&self, name: &str) -> Result<KnownRing> {
        match self.peer.survey_ring(name)? {
            Some(known) => Ok(known),
            None => self.ring(name).map(alone),
        }
    }

    /// Creates a ring, on the first target that can promise it.
    pub fn create_ring(&self, spec: RingSpec) -> Result<RingStatus> {
        spec.check()?;
        // Names are shared with objects. What cannot be asked for now is no reason to record nothing.
        if self.objects().find(&spec.name).is_ok() {
            return Err(Error::exists(format!("{} is an object; take another name, or remove it first", spec.name)));
        }
        match self.peer.call(Request::CreateRing(spec))? {
            Reply::Ring(ring) => Ok(*ring),
            other => Err(unexpected(&other)),
        }
    }

    /// Creates a ring over several targets of a cluster on the network.
    pub fn create_spread(&self, spec: RingSpec, spread: Spread) -> Result<RingStatus> {
        spec.check()?;
        spread.check()?;
        self.peer.create_spread(spec, spread)
    }

    /// Deletes a ring with everything in it.
    pub fn delete_ring(&self, name: &str) -> Result<()> {
        self.done(Request::DeleteRing { ring: name.to_string() })
    }

    /// Gives a ring another capacity; says what it has now. What still fits is kept.
    pub fn resize_ring(&self, name: &str, capacity: Bytes) -> Result<Bytes> {
        match self.peer.call(Request::ResizeRing { ring: name.to_string(), capacity })? {
            Reply::Capacity(capacity) => Ok(capacity),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives a ring these relatives, which are pinned along with it, and no others; the ring as it is now.
    pub fn relate_ring(&self, name: &str, relatives: Vec<String>) -> Result<RingStatus> {
        match self.peer.call(Request::RelateRing { ring: name.to_string(), relatives })? {
            Reply::Ring(ring) => Ok(*ring),
            other => Err(unexpected(&other)),
        }
    }

    /// Preserves everything that still exists between `from` and `to`, both included, and along with it what the
    /// ring's relatives have of that time.
    pub fn pin(&self, ring: &str, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        let request = Request::Pin { ring: ring.to_string(), label: label.to_string(), from, to, along: Vec::new() };
        match self.peer.call(request)? {
            Reply::Pinned(pinned) => Ok(pinned),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets go of a pin and of those made along with it.
    pub fn unpin(&self, ring: &str, pin: u64) -> Result<()> {
        self.done(Request::Unpin { ring: ring.to_string(), pin })
    }

    /// The pins of a ring, oldest first.
    pub fn pins(&self, ring: &str) -> Result<Vec<Pin>> {
        match self.peer.call(Request::Pins { ring: ring.to_string() })? {
            Reply::Pins(pins) => Ok(pins),
            other => Err(unexpected(&other)),
        }
    }

    /// What was not stored between `from` and `to`, in order.
    pub fn gaps(&self, ring: &str, from: Timestamp, to: Timestamp) -> Result<Vec<Gap>> {
        let text = match (from, to) {
            (Timestamp::MIN, Timestamp::MAX) => String::new(),
            (from, Timestamp::MAX) => format!("after {from}"),
            (Timestamp::MIN, to) => format!("before {}", Timestamp(to.0 + 1)),
            (from, to) => format!("time in {from}..{to}"),
        };
        let mut answer = self.query_with(ring, &text, QueryOptions { gaps_only: true, ..QueryOptions::default() })?;
        let mut gaps = Vec::new();
        answer.for_each(|event| {
            if let Event::Gap(gap) = event {
                gaps.push(gap);
            }
            Ok(true)
        })?;
        Ok(gaps)
    }

    /// What each target could promise now.
    pub fn plan(&self, request: PlanRequest) -> Result<OfTargets<TargetPlan>> {
        request.check()?;
        if let Some(plans) = self.peer.plans(request)? {
            return Ok(plans);
        }
        match self.peer.call(Request::Plan(request))? {
            Reply::Plans(told) => Ok(OfTargets { told, silent: Vec::new() }),
            other => Err(unexpected(&other)),
        }
    }

    /// What was measured of the targets.
    pub fn profiles(&self) -> Result<OfTargets<TargetProfile>> {
        if let Some(profiles) = self.peer.profiles()? {
            return Ok(profiles);
        }
        match self.peer.call(Request::Profiles)? {
            Reply::Profiles(told) => Ok(OfTargets { told, silent: Vec::new() }),
            other => Err(unexpected(&other)),
        }
    }

    /// Keeps another profile of a target, durably.
    pub fn set_profile(&self, target: TargetId, profile: Profile) -> Result<()> {
        self.done(Request::SetProfile { target, profile })
    }

    /// Measures a target while it works, within what its promises leave, and keeps the result.
    pub fn measure(&self, target: TargetId, budget: Duration) -> Result<TargetProfile> {
        match self.peer.call(Request::Measure { target, budget })? {
            Reply::Profiles(mut profiles) if profiles.len() == 1 => Ok(profiles.remove(0)),
            other => Err(unexpected(&other)),
        }
    }

    /// Goes on for `span` with looking over all that is kept on a target, beside all other work, at `rate` at most. To
    /// be called until it says that it has finished; it goes on where the last call ended, also after a crash, unless it
    /// is to begin `anew`.
    pub fn scrub(&self, target: TargetId, rate: Option<Rate>, span: Duration, anew: bool) -> Result<Scrubbed> {
        match self.peer.call(Request::Scrub { target, rate, span, anew })? {
            Reply::Scrubbed(scrubbed) => Ok(*scrubbed),
            other => Err(unexpected(&other)),
        }
    }

    /// Chooses how a target keeps objects, durably; what is chosen then. An empty change only asks.
    pub fn settings(&self, target: TargetId, change: SettingsChange) -> Result<TargetSettings> {
        match self.peer.call(Request::Settings { target, change })? {
            Reply::Settings(settings) => Ok(settings),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes another target of a file or device on the machine that serves the cluster, and serves it from then on.
    pub fn add_target(&self, added: AddTarget) -> Result<TargetInfo> {
        match self.peer.call(Request::AddTarget(added))? {
            Reply::Info(mut info) if info.targets.len() == 1 => Ok(info.targets.remove(0)),
            other => Err(unexpected(&other)),
        }
    }

    /// Everything kept in `ring` that matches `text`, in order, with the gaps in their places.
    pub fn query(&self, ring: &str, text: &str) -> Result<Answer> {
        self.query_with(ring, text, QueryOptions::default())
    }

    /// Everything that matches and is recorded from now on. (A query with [`QueryOptions::follow`] begins with what is
    /// kept.)
    pub fn tail(&self, ring: &str, text: &str) -> Result<Answer> {
        self.tail_with(ring, text, QueryOptions::default())
    }

    /// A tail with options; it follows in any case.
    pub fn tail_with(&self, ring: &str, text: &str, options: QueryOptions) -> Result<Answer> {
        check_text(text)?;
        let mut status = self.ring(ring)?;
        while status.state == RingState::Recovering {
            status = self.ring(ring)?;
        }
        let is_spread = self.peer.survey_ring(ring)?.is_some_and(|known| known.parts.len() > 1);
        let text = match (is_spread, status.newest) {
            (false, _) => conjunction(text, status.next_sequence),
            // Over several targets there is no number that lasts.
            (true, Some(newest)) => later(text, newest),
            (true, None) => text.to_string(),
        };
        self.ask(ring, text, QueryOptions { follow: true, ..options })
    }

    /// A query with options.
    pub fn query_with(&self, ring: &str, text: &str, options: QueryOptions) -> Result<Answer> {
        check_text(text)?;
        self.ask(ring, text.to_string(), options)
    }

    fn ask(&self, ring: &str, text: String, options: QueryOptions) -> Result<Answer> {
        let request = QueryRequest {
            ring: ring.to_string(),
            text,
            now: self.peer.wall(),
            follow: options.follow,
            limit: options.limit,
            gaps_only: options.gaps_only,
            blocks: false,
            numbered: false,
        };
        Answer::open(self.peer.clone(), request)
    }

    /// Begins recording into a ring, which has one recorder at a time.
    pub fn recorder(&self, ring: &str) -> Result<Recorder> {
        self.recorder_with(ring, RecorderOptions::default())
    }

    /// Begins recording with options.
    pub fn recorder_with(&self, ring: &str, options: RecorderOptions) -> Result<Recorder> {
        Recorder::open(self.peer.clone(), ring, options)
    }

    /// The objects.
    pub fn objects(&self) -> Objects {
        Objects::over(self.peer.clone())
    }

    /// The heaps.
    pub fn heaps(&self) -> Heaps {
        Heaps::over(self.peer.clone())
    }

    /// Monotonic time, as recorders count it.
    pub fn now(&self) -> Moment {
        self.peer.now()
    }

    /// Wall time, as queries count it.
    pub fn wall(&self) -> Timestamp {
        self.peer.wall()
    }

    /// Ends in order: everything that this process serves is durable and free for others. Recorders should be closed
    /// before.
    pub fn close(self) -> Result<()> {
        self.peer.close()
    }

    fn done(&self, request: Request) -> Result<()> {
        match self.peer.call(request)? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

/// A ring that has no parts elsewhere.
fn alone(status: RingStatus) -> KnownRing {
    KnownRing { name: status.spec.name.clone(), capacity: status.spec.capacity, status: Ok(status), parts: Vec::new() }
}

/// A reply of another shape than its request has.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    let shape = match reply {
        Reply::Done => "done",
        Reply::Info(_) => "info",
        Reply::Rings(_) => "rings",
        Reply::Ring(_) => "a ring",
        Reply::Capacity(_) => "a capacity",
        Reply::Pinned(_) => "a pin",
        Reply::Pins(_) => "pins",
        Reply::Profiles(_) => "profiles",
        Reply::Plans(_) => "plans",
        Reply::Scrubbed(_) => "how far a scrub is",
        Reply::Settings(_) => "settings",
        Reply::Heaps(_) => "heaps",
        Reply::Heap(_) => "a heap",
    };
    Error::damaged(format!("a node answered with {shape} what it was not asked: use the same release on both sides"))
}
