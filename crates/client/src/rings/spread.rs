//! A recorder's blocks on their way to a ring over several targets.
//!
//! Blocks go to the targets in turn, each as the next block of a session there; without parity, a target that has its share of
//! buffers to take in is passed over. With it, so many blocks as there are targets make a stripe, whose parity goes to one
//! more. What is told as durable is so in the order of recording: with parity, when no target can be lost that takes anything
//! of it along.
//!
//! A target that does not take what it was given for long counts as away until it is opened again. What it was to have is given
//! up, and told as a gap; with parity it is covered by that, which says durably that it may not be where it belongs. Parity makes one
//! block of a stripe good: of targets that are away, a stripe has a block of one at most, and others that are away have none.

mod lane;
mod turns;
mod unsettled;

use super::stripe::Row;
use super::way::Way;
use super::{replaced, writer};
use crate::outbox::Shared;
use crate::peer::Lost;
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_env::{Buffer, NetworkEnv, Slab, Task};
use forebay_model::ring::{PARITY_OVERHEAD, Spread};
use forebay_model::{Bytes, Cause, Error, Gap, Kind, Moment, Result, Timestamp};
use forebay_wire::command::{Durable, WriterOpened};
use lane::{Lane, LaneState};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use unsettled::{Member, Parity, Stripe};

/// For so long beyond its flush interval a target may have a block that is not durable, if the others can do without it.
const LATE: Duration = Duration::from_secs(2);
/// The same if what it has is lost then.
const GIVEN_UP: Duration = Duration::from_secs(10);
/// The same where the connection to it is broken, and the others can do without it.
const BROKEN: Duration = Duration::from_millis(300);
/// How often is looked whether something is late.
const TICK: Duration = Duration::from_millis(100);

/// What hands blocks to targets.
pub(super) struct Conductor {
    env: NetworkEnv,
    spread: Spread,
    lanes: Vec<Lane>,
    flush_interval: Duration,
    /// The lane that has its turn.
    turn: usize,
    /// An element goes on in the next block: on which lane, and in which of its sessions; `None` if that is over.
    chain: Option<(usize, Option<u64>)>,
    /// What was given to lanes and is not settled, oldest first.
    stripes: VecDeque<Stripe>,
    /// Buffers for parity.
    slab: Option<Slab>,
    xor: Vec<u8>,
    /// What the parity is to tell first.
    untold: Option<Gap>,
    settled: Durable,
    /// Changes with what is durable on any target: then there are buffers again.
    progress: u64,
    /// The latest time of what is settled.
    newest: i64,
    /// Since when no target takes anything.
    silent_since: Option<Moment>,
    /// Looks after parts that lie elsewhere since their targets were lost, or are to.
    _watching: Task<()>,
}

impl Conductor {
    /// Begins a session on each target; as the ring would say of all together that it was opened. With parity, one may be away.
    pub(super) async fn open(ways: Vec<Way>, spread: Spread, writer: u64) -> Result<(WriterOpened, Conductor)> {
        let env = ways[0].nodes().env().clone();
        let opened = all(ways.iter().map(|way| writer::open(way, writer, None))).await;
        let away = opened.iter().filter(|opened| opened.is_err()).count();
        let is_busy = |opened: &Result<_>| matches!(opened, Err(error) if error.kind == Kind::Busy);
        if away > usize::from(spread.parity) || opened.iter().any(is_busy) {
            opened.iter().flatten().for_each(|opened| opened.link.close());
            let error = opened.into_iter().find_map(Result::err);
            return Err(error.unwrap_or_else(|| Error::disconnected("no target has the ring")));
        }
        let data = spread.targets as usize;
        let newest = |opened: &Result<writer::Opened>| opened.as_ref().ok().and_then(|opened| opened.opened.newest);
        let newest_data = opened[..data].iter().filter_map(newest).max();
        let newest_parity = opened[data..].iter().filter_map(newest).max();
        let first = opened[..data].iter().find_map(|opened| opened.as_ref().ok());
        let first = first.ok_or_else(|| Error::disconnected("no target has the ring"))?;
        let mut whole = first.opened.clone();
        whole.spec = spread.whole(ways[0].path(), &first.opened.spec);
        let buffers = opened[..data].iter().flatten().map(|opened| opened.opened.buffers).sum::<u32>();
        let flush_interval = whole.spec.flush_interval;
        // What the parity does not cover was recorded while its target was away; that there is none before its first block needs
        // no gap.
        let untold = newest_parity.zip(newest_data).filter(|(first, last)| first < last);
        let untold = untold.map(|(first, last)| Gap { cause: Cause::TargetAway, count: None, first, last });
        let slab = match spread.parity {
            true => Some(Slab::new(whole.spec.block + PARITY_OVERHEAD, (buffers as usize).max(4) + 2)?),
            false => None,
        };
        let watching = env.spawner.spawn(replaced::watch(ways.clone(), spread));
        let covered = spread.parity.then(|| Rc::new((whole.spec.clone(), spread)));
        let lanes = ways.into_iter().zip(opened).map(|(way, opened)| {
            let coming = way.nodes().env().spawner.spawn(std::future::pending());
            let state = LaneState::Away { coming, error: None, moves: None };
            let mut lane = Lane { way, covered: covered.clone(), writer, next: 1, state };
            match opened {
                Ok(opened) => lane.begin((opened, writer)),
                Err(error) => drop(lane.leave(Some(error))),
            }
            lane
        });
        let conductor = Conductor {
            env,
            spread,
            lanes: lanes.collect(),
            flush_interval,
            turn: 0,
            chain: None,
            stripes: VecDeque::new(),
            slab,
            xor: Vec::new(),
            untold,
            settled: Durable::default(),
            progress: 0,
            newest: newest_data.unwrap_or(Timestamp::MIN).0,
            silent_since: None,
            _watching: watching,
        };
        let opened = WriterOpened { newest: newest_data, received: 0, durable: Durable::default(), buffers, ..whole };
        Ok((opened, conductor))
    }

    /// Hands blocks over until the session is closed or given up.
    pub(super) async fn run(mut self, front: Arc<Shared>) {
        let clock = self.env.clock.clone();
        let tick = TICK.min(self.flush_interval / 8).max(Duration::from_millis(10));
        loop {
            let polled = race(poll_fn(|context| self.poll(&front, context)), clock.sleep(tick)).await;
            match polled {
                First::Left(is_closing) => {
                    if is_closing {
                        self.close().await;
                        front.change(|state| state.closed = true);
                    }
                    break;
                }
                First::Right(()) => self.look(&front),
            }
        }
        for lane in &self.lanes {
            if let Some(shared) = lane.up() {
                shared.change(|state| state.fail(Error::disconnected("the session was ended")));
            }
        }
    }

    /// Ends the sessions, of which everything is durable.
    async fn close(&mut self) {
        let open: Vec<Arc<Shared>> = self.lanes.iter().filter_map(|lane| lane.up().cloned()).collect();
        open.iter().for_each(|shared| shared.change(|state| state.closing = true));
        let closed = poll_fn(|context| {
            let is_open = |shared: &Arc<Shared>| {
                let mut state = shared.lock();
                state.watcher = Some(context.waker().clone());
                !state.closed && state.failure.is_none()
            };
            match open.iter().filter(|shared| is_open(shared)).count() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        // Who does not answer finds out that the session is over.
        let _ = race(closed, self.env.clock.sleep(LATE)).await;
    }

    fn now(&self) -> Moment {
        self.env.clock.now()
    }

    /// Whether the session is to be closed, or was given up.
    fn poll(&mut self, front: &Arc<Shared>, context: &mut Context<'_>) -> Poll<bool> {
        self.welcome(context);
        self.settle(front, context.waker());
        self.leave_targets();
        loop {
            let (wanted, closing) = {
                let mut state = front.lock();
                state.carrier = Some(context.waker().clone());
                if state.failure.is_some() {
                    return Poll::Ready(false);
                }
                (state.wanted, state.closing)
            };
            self.close_full();
            while self.has_room_for_next(front) {
                let block = front.lock().kept.pop_front().expect("there is one");
                self.take(Arc::into_inner(block).expect("nobody else has it"));
            }
            if self.is_wanted(wanted, closing) {
                self.close_stripe();
            }
            let before = self.settled;
            self.settle(front, context.waker());
            if closing && self.stripes.is_empty() && front.lock().kept.is_empty() {
                return Poll::Ready(true);
            }
            if before == self.settled {
                return Poll::Pending;
            }
        }
    }

    /// Takes in the targets that came back.
    fn welcome(&mut self, context: &mut Context<'_>) {
        let data = self.spread.targets as usize;
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            let LaneState::Away { coming, .. } = &mut lane.state else { continue };
            let Poll::Ready(opened) = Pin::new(coming).poll(context) else { continue };
            let moved = matches!(lane.state, LaneState::Away { moves: Some(_), .. });
            if at == data && !moved {
                let (cause, last) = (Cause::TargetAway, Timestamp(self.newest));
                let first = opened.0.opened.newest.filter(|_| last > Timestamp::MIN);
                let missed = first.map(|first| Gap { cause, count: None, first: first.min(last), last });
                missed.into_iter().for_each(|gap| tell(&mut self.untold, gap));
            }
            lane.begin(opened);
        }
    }

    /// Parts that were made elsewhere leave their targets, from one block to the next and between elements.
    fn leave_targets(&mut self) {
        let (now, data, chain) = (self.now(), self.spread.targets as usize, self.chain.map(|(lane, _)| lane));
        if self.lanes.get(data).is_some_and(|parity| parity.up().is_some() && parity.is_leaving(now)) {
            self.close_stripe();
        }
        for (at, lane) in self.lanes.iter_mut().enumerate().filter(|(at, _)| Some(*at) != chain) {
            // Each stripe has its parity before that moves.
            lane.leave_when_durable(at != data || self.stripes.is_empty(), now);
        }
    }

    /// Takes note of what is durable now, and tells it.
    fn settle(&mut self, front: &Shared, waker: &Waker) {
        let mut full = false;
        let mut durable: Vec<Option<(u64, u64)>> = Vec::with_capacity(self.lanes.len());
        for lane in &self.lanes {
            durable.push(lane.up().map(|shared| {
                let mut state = shared.lock();
                state.watcher = Some(waker.clone());
                full |= state.durable.full;
                (lane.writer, state.durable.number)
            }));
        }
        let progress = durable.iter().flatten().fold(0u64, |sum, (_, number)| sum.wrapping_add(*number));
        let has_more = std::mem::replace(&mut self.progress, progress) != progress;
        let is_there = |component: usize, (writer, number): (u64, u64)| {
            durable[component].is_some_and(|(session, last)| session == writer && number <= last)
        };
        let data = self.spread.targets as usize;
        for stripe in &mut self.stripes {
            for member in &mut stripe.members {
                let Row { component, writer, number, .. } = member.row;
                member.is_durable |= is_there(component as usize, (writer, number));
            }
            if let Parity::Sent { table, is_durable, .. } = &mut stripe.parity {
                *is_durable |= is_there(data, (table.writer, table.number));
            }
        }
        let mut lost = Vec::new();
        while let Some(stripe) = self.stripes.pop_front_if(|stripe| stripe.is_settled()) {
            self.settled.number = stripe.last;
            for member in &stripe.members {
                if !member.is_lost {
                    self.settled.sequence += member.row.elements;
                    self.newest = self.newest.max(member.row.times.1);
                    continue;
                }
                let (number, elements) = (member.number, member.row.elements);
                if elements > 0 {
                    lost.push(Lost { number, elements, gap: member.row.gap() });
                }
                lost.extend(member.gaps.iter().map(|gap| Lost { number, elements: 0, gap: *gap }));
            }
        }
        self.settled.full = full;
        let settled = self.settled;
        let is_new = front.lock().durable != settled || !lost.is_empty();
        if is_new {
            front.change(|state| {
                state.durable = settled;
                state.lost.extend(lost);
            });
        } else if has_more {
            front.tell();
        }
    }

    /// Looks which targets are away, and for how long all of them are.
    fn look(&mut self, front: &Shared) {
        let (now, data) = (self.now(), self.spread.targets as usize);
        for at in 0..self.lanes.len() {
            let can_do_without = self.spread.parity
                && (0..self.lanes.len()).all(|other| other == at || self.lanes[other].up().is_some());
            if let Some(error) = self.is_away(at, can_do_without, now) {
                self.leave(at, error);
            }
        }
        if self.lanes[..data].iter().any(|lane| lane.up().is_some()) {
            if self.silent_since.take().is_some() {
                front.change(|state| state.silent = Duration::ZERO);
            }
        } else {
            let since = *self.silent_since.get_or_insert(now);
            let over = self.lanes[..data].iter().find_map(|lane| match &lane.state {
                LaneState::Away { error: Some(error), .. } if !writer::is_passing(error) => Some(error.clone()),
                _ => None,
            });
            front.change(|state| {
                state.silent = now.since(since);
                if let Some(error) = over {
                    state.fail(error);
                }
            });
        }
    }

    /// Why a target is to count as away, if it is.
    fn is_away(&mut self, at: usize, can_do_without: bool, now: Moment) -> Option<Option<Error>> {
        let age = |lane: usize| self.oldest(lane).map(|oldest| now.since(oldest)).unwrap_or_default();
        let limit = self.flush_interval * 2 + if can_do_without { LATE } else { GIVEN_UP };
        // Where all are as late, more comes than links and disks take, and without one of them they take no more.
        let others = (0..self.lanes.len()).filter(|other| *other != at).map(age).max().unwrap_or_default();
        let is_late = age(at) >= limit && (!can_do_without || age(at) >= others * 2);
        let LaneState::Up { shared, broken, .. } = &mut self.lanes[at].state else { return None };
        let state = shared.lock();
        if let Some(error) = &state.failure {
            return Some(Some(error.clone()));
        }
        if state.durable.full {
            return None;
        }
        *broken = if state.is_broken { broken.or(Some(now)) } else { None };
        let is_broken = can_do_without && broken.is_some_and(|since| now.since(since) >= BROKEN);
        (is_broken || is_late).then_some(None)
    }

    /// When the oldest block that a target has and that is not durable was handed over.
    fn oldest(&self, at: usize) -> Option<Moment> {
        self.stripes.iter().find_map(|stripe| {
            if at == self.spread.targets as usize {
                let Parity::Sent { sent, is_durable: false, .. } = &stripe.parity else { return None };
                return Some(*sent);
            }
            let members = stripe.members.iter();
            members.filter(|member| member.row.component as usize == at && !member.is_durable).find_map(|m| m.sent)
        })
    }

    /// A target counts as away from now on.
    fn leave(&mut self, at: usize, error: Option<Error>) {
        let data = self.spread.targets as usize;
        let there = self.lanes[at].up().map_or(0, |shared| shared.lock().durable.number);
        let kept = self.lanes[at].leave(error);
        if let Some((lane, writer)) = &mut self.chain
            && *lane == at
        {
            *writer = None;
        }
        let mut stripes = std::mem::take(&mut self.stripes);
        for stripe in &mut stripes {
            if at == data {
                if let Parity::Sent { is_durable: false, .. } = &stripe.parity {
                    // What it told is lost with it.
                    let told = stripe.parity.told();
                    stripe.parity = Parity::None;
                    told.into_iter().chain([stripe.uncovered()]).for_each(|gap| tell(&mut self.untold, gap));
                }
                stripe.lose_what_is_nowhere(&self.lanes);
                continue;
            }
            let is_of_it = |member: &Member| member.row.component as usize == at;
            // The parity makes one block good, and has been told of that one.
            let has_absent = stripe.members.iter().any(|member| !is_of_it(member) && member.is_covered());
            let mut is_new = false;
            let writer = self.lanes[at].writer;
            for member in stripe.members.iter_mut().filter(|member| is_of_it(member)) {
                member.is_durable |= member.row.writer == writer && member.row.number <= there;
                is_new |= !member.is_durable && !member.row.absent;
                member.is_lost |= has_absent && !stripe.is_open && !member.is_durable && !member.row.absent;
                member.row.absent |= !member.is_durable;
                member.sent = None;
                // With parity, it is only lost if that is away, too.
                member.is_lost |= !self.spread.parity && !member.is_durable;
            }
            if stripe.is_open || !is_new {
                continue;
            }
            // That it may not be there is durable before anything of the stripe is told as such.
            let first_told = stripe.parity.told();
            let mut again = stripe.parity.xor();
            if has_absent {
                again = again.and_then(|xor| stripe.without_lost_of(at, xor, &kept));
            }
            let buffer = again.as_ref().and_then(|xor| Buffer::alone(Bytes(xor.len() as u64) + PARITY_OVERHEAD).ok());
            stripe.parity = match again.zip(buffer) {
                Some((xor, buffer)) => self.send_parity(&stripe.members, &xor, None, buffer),
                None => Parity::None,
            };
            if let Parity::Sent { told, .. } = &mut stripe.parity {
                *told = first_told;
            }
            stripe.lose_what_is_nowhere(&self.lanes);
        }
        self.stripes = stripes;
    }
}

/// Takes a gap in among what is to be told.
fn tell(untold: &mut Option<Gap>, gap: Gap) {
    match untold {
        Some(untold) => untold.merge(gap),
        none => *none = Some(gap),
    }
}
