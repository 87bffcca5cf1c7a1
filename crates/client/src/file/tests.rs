use super::fake::{Chance, Link, World, each};
use super::{FileEngine, Options, Sharing, Slice, recover};
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Kind, Result};
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

mod bustle;
mod counts;
mod cuts;
mod faults;
mod histories;
mod locks;
mod shared;
mod speed;

const UNIT: u64 = 4096;
/// Every level, and shapes with turns, visits and groups.
const SHAPES: [(Raid, u32, u32, u32); 9] = [
    (Raid::Zero, 1, 1, 1),
    (Raid::Zero, 3, 2, 2),
    (Raid::One(2), 1, 1, 1),
    (Raid::One(2), 2, 3, 2),
    (Raid::One(3), 2, 1, 1),
    (Raid::One(4), 1, 1, 1),
    (Raid::Five, 3, 1, 1),
    (Raid::Five, 4, 3, 1),
    (Raid::Five, 5, 2, 2),
];

fn striping(nth: usize) -> Striping {
    let (raid, width, depth, groups) = SHAPES[nth % SHAPES.len()];
    Striping::new(raid, Bytes(UNIT), width, depth, groups).expect("a layout")
}

/// Small bounds, so that all of them are met.
fn tight(alone: bool) -> Options {
    Options {
        sharing: if alone { Sharing::Alone } else { Sharing::Beside },
        window: Bytes::kib(128),
        component_window: Bytes::kib(32),
        gather: Bytes::kib(64),
        request: Bytes::kib(16),
        bridge: Bytes::kib(4),
        ahead: Bytes::kib(128),
        cache: Bytes::kib(256),
        hedge_after: Duration::from_micros(300),
    }
}

/// An open file of one client.
struct Open {
    link: Rc<Link>,
    engine: Rc<FileEngine>,
}

impl Open {
    fn new(world: &Rc<World>, options: Options) -> Open {
        let link = world.client();
        Open::by(link, options).expect("it lives").expect("it opens")
    }

    fn by(link: Rc<Link>, options: Options) -> Option<Result<Open>> {
        let world = link.world().clone();
        let (striping, spawner, clock) = (world.striping, link.spawner(), world.clock());
        let opened = world.run(&link, FileEngine::open(link.clone(), striping, options, spawner, clock))?;
        Some(opened.map(|engine| Open { link, engine: Rc::new(engine) }))
    }

    /// What comes of it; `None` if the client died.
    fn try_run<T: 'static, F: Future<Output = T> + 'static>(&self, ask: impl FnOnce(Rc<FileEngine>) -> F) -> Option<T> {
        self.link.world().run(&self.link, ask(self.engine.clone()))
    }

    fn run<T: 'static, F: Future<Output = Result<T>> + 'static>(&self, ask: impl FnOnce(Rc<FileEngine>) -> F) -> T {
        self.try_run(ask).expect("it lives").expect("it succeeds")
    }

    fn write(&self, at: u64, bytes: Vec<u8>) {
        self.run(|file| async move { file.write_at(Bytes(at), Slice::from(bytes)).await });
    }

    fn read(&self, at: u64, length: u64) -> Vec<u8> {
        self.run(|file| async move { file.read_at(Bytes(at), Bytes(length)).await })
    }

    fn flush(&self) {
        self.run(|file| async move { file.flush().await });
    }

    fn all(&self) -> Vec<u8> {
        self.run(|file| async move { file.read_at(Bytes::ZERO, file.size().await?).await })
    }
}

/// Others make the file whole after its clients died; the one that did.
fn recovered(world: &Rc<World>) -> Rc<Link> {
    let link = world.client();
    let recovered = recover(link.clone(), world.striping, world.clock(), link.spawner());
    world.run(&link, recovered).expect("it lives").expect("it recovers");
    link
}

/// Bytes that no other write has in the same place, all but surely.
fn some(chance: &Chance, length: u64) -> Vec<u8> {
    let own = Chance::of(chance.next());
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| own.next().to_le_bytes()).collect();
    bytes.truncate(length as usize);
    bytes
}
