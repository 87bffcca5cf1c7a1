//! Many users who each write an object of their own, piece by piece and all at the same time, as buffered: how long the
//! runs are in which each object lies afterwards (Panasas, FAST 2008, section 4.2, counts the same).

use crate::disk::DiskSpec;
use crate::fresh;
use crate::world::World;
use forebay_model::object::Durability;
use forebay_model::{Bytes, ObjectId, Rate, Result};
use forebay_target::object::{How, Scope};
use std::time::Duration;

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// The disk.
    pub disk: DiskSpec,
    /// Users at once.
    pub streams: u64,
    /// What each writes.
    pub object: Bytes,
    /// What each appends at once.
    pub piece: Bytes,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The mean length of a run.
    pub mean_run: Bytes,
    /// The shortest one.
    pub shortest_run: Bytes,
    /// How many there are.
    pub runs: u64,
    /// How fast all together were made durable.
    pub rate: Rate,
    /// The most that was buffered after an append.
    pub most_buffered: Bytes,
}

/// Runs the load on a fresh disk.
pub fn run(seed: u64, load: &Load) -> Result<Outcome> {
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let (env, spawner, clock) = (world.env(disk), world.spawner(), world.clock());
    world.run(async {
        let profile = fresh::guessed(&env);
        let target = fresh::target(env, profile, 1).await?;
        let begin = clock.now();
        let mut users = Vec::new();
        for object in 1..=load.streams {
            let (target, load) = (target.clone(), load.clone());
            users.push(spawner.spawn(async move {
                let (objects, stream, id) = (target.objects(), target.stream(), ObjectId { volume: 1, object });
                objects.create(id, Vec::new()).await?;
                let how = How { durability: Durability::Buffered, ..How::default() };
                let (bytes, mut most) = (vec![object as u8; load.piece.0 as usize], Bytes::ZERO);
                for _ in 0..load.object / load.piece {
                    objects.write_as(stream, id, None, &bytes, &how).await?;
                    most = most.max(objects.buffered());
                }
                Ok(most)
            }));
        }
        let mut most_buffered = Bytes::ZERO;
        for user in users {
            let most: Result<Bytes> = user.await;
            most_buffered = most_buffered.max(most?);
        }
        target.objects().flush_buffered(Scope::Volume(1), None).await?;
        let took = clock.now().since(begin).max(Duration::from_nanos(1));
        let (mut runs, mut bytes, mut shortest_run) = (0, Bytes::ZERO, Bytes(u64::MAX));
        for object in 1..=load.streams {
            for extent in target.objects().extents(ObjectId { volume: 1, object }).await? {
                runs += 1;
                bytes += extent.length;
                shortest_run = shortest_run.min(extent.length);
            }
        }
        let rate = Rate((bytes.0 as f64 / took.as_secs_f64()) as u64);
        Ok(Outcome { mean_run: Bytes(bytes.0 / runs), shortest_run, runs, rate, most_buffered })
    })
}

#[cfg(test)]
mod tests;
