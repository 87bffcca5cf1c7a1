//! One run from beginning to end: the system is made, streaming users have the disks alone, then beside small writes, and
//! at last all goes home from logs. The same in virtual time and in reality.

use super::array::Array;
use super::disks::Disks;
use super::place::{FILES, Places};
use super::system::{Streams, System};
use super::users::{self, Streamer, rate, write_rounds};
use super::{Load, Outcome, Policy, Share, home, journal, nearest, single};
use crate::disk::Op;
use forebay_env::Env;
use forebay_model::{Error, Rate, Result};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

/// How long a streaming user is given to get going.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long it has the disks alone at least, where what is measured afterwards takes no less.
const ALONE: Duration = Duration::from_secs(5);

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The system is made, and what will be read is written.
    Preparing,
    /// A streaming user has the disks alone.
    Alone,
    /// Small writes beside the streaming users.
    Beside,
    /// What lies in logs goes home.
    Settling,
}

/// Runs the load on `disks`, all of which is overwritten. `tell` hears of each stage as it begins, and how long it takes if
/// that is known. The limits of the disks are for the caller to say.
pub async fn on_disks(disks: Disks, load: &Load, tell: &dyn Fn(Stage, Option<Duration>)) -> Result<Outcome> {
    let width = disks.each.len() as u64;
    load.check(width)?;
    let array = Rc::new(Array::new(&disks, &load.elevator)?);
    let places = Places::new(array.size(), width)?;
    tell(Stage::Preparing, None);
    let system = build(&disks, &array, load, &places).await?;
    let mut run = Run { env: &disks.each[0], disks: &disks, load, system, places: &places, tell };
    run.measure().await
}

/// The system, with the files of the streaming users.
async fn build(disks: &Disks, array: &Rc<Array>, load: &Load, places: &Places) -> Result<Rc<dyn System>> {
    let env = &disks.each[0];
    let users = [(load.reader, &places.read), (load.writer, &places.written)];
    let streamed: Vec<_> =
        users.into_iter().filter(|(user, _)| user.is_some()).map(|(_, range)| range.clone()).collect();
    let streams = Streams::new(array.clone(), load.windows.clone());
    let system: Rc<dyn System> = match load.policy {
        Policy::Nearest => return nearest::Nearest::build(env, disks, &streamed).await,
        Policy::Home => Rc::new(home::Home::new(array.clone(), streams)),
        Policy::Single => Rc::new(single::Single::new(env, array.clone(), places.log.clone(), streams)),
        journal @ (Policy::Ordered | Policy::Data | Policy::Adaptive) => {
            Rc::new(journal::Journal::new(env, journal, array.clone(), places.log.clone(), streams))
        }
        Policy::Ideal => return Err(Error::usage("ideal is modelled for the mixed load only; take another policy")),
    };
    if disks.real {
        for file in &streamed {
            users::write(&*system, file).await?;
        }
        array.flush().await?;
    }
    Ok(system)
}

/// A system that is there, and who will use it.
struct Run<'a> {
    env: &'a Env,
    disks: &'a Disks,
    load: &'a Load,
    system: Rc<dyn System>,
    places: &'a Places,
    tell: &'a dyn Fn(Stage, Option<Duration>),
}

impl Run<'_> {
    async fn measure(&mut self) -> Result<Outcome> {
        let Run { load, places, .. } = *self;
        let users = [(Op::Read, load.reader, &places.read), (Op::Write, load.writer, &places.written)];
        let start = |op, request, file: &std::ops::Range<u64>| {
            Streamer::start(self.env, self.system.clone(), op, file.clone(), request)
        };
        let mut shares = [None, None];
        for (share, (op, request, file)) in shares.iter_mut().zip(users) {
            if let Some(request) = request {
                *share = Some(Share { alone: self.alone(start(op, request, file)).await?, beside: Rate(0) });
            }
        }
        (self.tell)(Stage::Beside, Some(WARM_UP + load.span));
        let streamers = users.map(|(op, request, file)| request.map(|request| start(op, request, file)));
        let clock = &self.env.clock;
        clock.sleep(WARM_UP).await;
        let moved = || streamers.each_ref().map(|user| user.as_ref().map_or(0, Streamer::moved));
        let (before, begin) = (moved(), clock.now());
        let until = begin + load.span;
        let period = Duration::from_nanos((FILES * 1_000_000_000).checked_div(load.iops).unwrap_or(0));
        let rounds = async {
            if period.is_zero() {
                return Ok(Vec::new());
            }
            write_rounds(self.env, &*self.disks.random, &self.system, places, period, until).await
        };
        let stopwatch = async {
            clock.sleep_until(until).await;
            (moved(), clock.now().since(begin))
        };
        let (latencies, (after, took)) = both(pin!(rounds), pin!(stopwatch)).await;
        for (i, streamer) in streamers.into_iter().enumerate() {
            if let Some(streamer) = streamer {
                streamer.stop().await?;
            }
            if let Some(share) = &mut shares[i] {
                share.beside = rate(before[i], after[i], took);
            }
        }
        let mut latencies = latencies?;
        latencies.sort_unstable();
        let checkpoint_in_run = self.system.tally().checkpoint;
        (self.tell)(Stage::Settling, None);
        self.system.settle().await?;
        let tally = self.system.tally();
        let [read, written] = shares;
        Ok(Outcome {
            read,
            written,
            latencies,
            due: load.span.as_nanos().div_ceil(period.as_nanos().max(1)) as u64 * u64::from(!period.is_zero()),
            log_swaps: tally.log_swaps,
            checkpoint: tally.checkpoint,
            checkpoint_in_run,
            ..Outcome::default()
        })
    }

    /// What a streaming user moves that has the disks alone.
    async fn alone(&self, user: Streamer) -> Result<Rate> {
        let (clock, span) = (&self.env.clock, (self.load.span / 6).max(ALONE.min(self.load.span)));
        (self.tell)(Stage::Alone, Some(WARM_UP + span));
        clock.sleep(WARM_UP).await;
        let (before, begin) = (user.moved(), clock.now());
        clock.sleep(span).await;
        let alone = rate(before, user.moved(), clock.now().since(begin));
        user.stop().await?;
        Ok(alone)
    }
}

/// Waits for both.
async fn both<A, B>(mut a: Pin<&mut impl Future<Output = A>>, mut b: Pin<&mut impl Future<Output = B>>) -> (A, B) {
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        use std::task::Poll;
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            rest => {
                (first, second) = rest;
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests;
