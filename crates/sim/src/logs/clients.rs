//! Many clients that each write 4 KiB somewhere in their own object and wait until that is durable, again and again, as
//! fast as it goes: on any device, also a real one.

use super::place::BLOCK;
use crate::fresh;
use forebay_env::Env;
use forebay_model::{Error, ObjectId, Profile, Result};
use forebay_target::object::Placement;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// Blocks of each client's object.
const BLOCKS: u64 = 4096;
/// Clients at most.
const MOST: u64 = 4096;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durable {
    /// How long each write took until it was durable, the shortest first.
    pub latencies: Vec<Duration>,
    /// From the first write to the end of the last.
    pub span: Duration,
    /// Flushes of the device that made them durable.
    pub syncs: u64,
    /// What the process took of a processor meanwhile.
    pub cpu: Duration,
}

impl Durable {
    /// Writes a second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.span.as_secs_f64().max(1e-9)
    }
}

/// Formats the device, which is as `profile` says, or as it says itself, and has `clients` write for `span`.
/// `cpu_time` is what the process took of a processor so far.
pub async fn durable_writes(
    env: Env,
    profile: Option<Profile>,
    clients: u64,
    span: Duration,
    cpu_time: fn() -> Duration,
) -> Result<Durable> {
    if clients == 0 || clients > MOST {
        return Err(Error::usage(format!("{clients} clients at once; give 1 to {MOST}")));
    }
    let (clock, spawner, random) = (env.clock.clone(), env.spawner.clone(), env.random.clone());
    let profile = profile.unwrap_or_else(|| fresh::guessed(&env));
    let target = fresh::target(env, profile, VOLUME).await?;
    for object in 1..=clients {
        target.objects().create(ObjectId { volume: VOLUME, object }, Vec::new()).await?;
    }
    let before = target.objects().counters().syncs;
    let latencies = Rc::new(RefCell::new(Vec::new()));
    let (begin, cpu) = (clock.now(), cpu_time());
    let client = |object| {
        let (target, clock, random, latencies) = (target.clone(), clock.clone(), random.clone(), latencies.clone());
        spawner.spawn(async move {
            let (id, stream) = (ObjectId { volume: VOLUME, object }, target.stream());
            let bytes = vec![object as u8; BLOCK.0 as usize];
            while clock.now().since(begin) < span {
                let (asked, at) = (clock.now(), random.below(BLOCKS) * BLOCK.0);
                target.objects().write(stream, id, at, &bytes, Placement::Auto).await?;
                latencies.borrow_mut().push(clock.now().since(asked));
            }
            Ok(())
        })
    };
    let under_way: Vec<forebay_env::Task<Result<()>>> = (1..=clients).map(client).collect();
    for client in under_way {
        client.await?;
    }
    let (span, cpu) = (clock.now().since(begin), cpu_time().saturating_sub(cpu));
    let syncs = target.objects().counters().syncs - before;
    target.close().await?;
    let mut latencies = latencies.take();
    latencies.sort_unstable();
    Ok(Durable { latencies, span, syncs, cpu })
}
