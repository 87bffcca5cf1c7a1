//! Many clients that each write 4 KiB somewhere in their own object and wait until that is durable, again and again, as
//! fast as it goes: on any device, also a real one.

use super::place::BLOCK;
use crate::fresh;
use forebay_env::Env;
use forebay_model::{Error, ObjectId, Profile, Result};
use forebay_target::Target;
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
    /// What came of clients of several targets that wrote at the same time.
    pub fn together(each: impl IntoIterator<Item = Durable>) -> Durable {
        let mut all = Durable::default();
        for one in each {
            all.latencies.extend(one.latencies);
            all.span = all.span.max(one.span);
            all.syncs += one.syncs;
            // The process is the same.
            all.cpu = all.cpu.max(one.cpu);
        }
        all.latencies.sort_unstable();
        all
    }

    /// Writes a second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.span.as_secs_f64().max(1e-9)
    }
}

/// Clients with an object each on a target of their own.
pub struct Clients {
    target: Rc<Target>,
    count: u64,
    env: Env,
}

impl Clients {
    /// Formats the device, which is as `profile` says, or as it says itself, and makes the objects of `count` clients.
    pub async fn on(env: Env, profile: Option<Profile>, count: u64) -> Result<Clients> {
        if count == 0 || count > MOST {
            return Err(Error::usage(format!("{count} clients at once; give 1 to {MOST}")));
        }
        let profile = profile.unwrap_or_else(|| fresh::guessed(&env));
        let target = fresh::target(env.clone(), profile, VOLUME).await?;
        for object in 1..=count {
            target.objects().create(ObjectId { volume: VOLUME, object }, Vec::new()).await?;
        }
        Ok(Clients { target, count, env })
    }

    /// Has all of them write for `span`. `cpu_time` is what the process took of a processor so far.
    pub async fn write(self, span: Duration, cpu_time: fn() -> Duration) -> Result<Durable> {
        let Clients { target, count, env: Env { clock, spawner, random, .. } } = self;
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
        let under_way: Vec<forebay_env::Task<Result<()>>> = (1..=count).map(client).collect();
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
}
