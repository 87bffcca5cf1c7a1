//! Whole lives of a file beside plain bytes: every level and shape, components that fail, restart, are damaged and rebuilt,
//! and clients that die at any request, also while they recover the file.

use super::{BTreeSet, Bytes, Kind, Open, Rc, Result, Slice, UNIT, World, each, recover, some, striping, tight};
use std::future::Future;
use std::time::Duration;

struct Life {
    world: Rc<World>,
    open: Open,
    /// What this client should read.
    now: Vec<u8>,
    /// What was acknowledged, what was written since, and the sizes that there may be if the client dies.
    acknowledged: Vec<u8>,
    since: Vec<(u64, Vec<u8>)>,
    sizes: BTreeSet<u64>,
    /// Something is wrong with this one, and so nothing may be with others.
    faulty: Option<u32>,
    restarted: bool,
}

impl Life {
    fn new(seed: u64) -> Life {
        let world = World::new(striping(seed as usize), seed);
        let open = Open::new(&world, tight(true));
        Life {
            world,
            open,
            now: Vec::new(),
            acknowledged: Vec::new(),
            since: Vec::new(),
            sizes: BTreeSet::from([0]),
            faulty: None,
            restarted: false,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.world.chance.below(bound)
    }

    fn any_component(&self) -> u32 {
        self.below(u64::from(self.world.striping.components())) as u32
    }

    /// Does it; if the client dies of it, the next one takes over. None then.
    fn ask<T: 'static, F: Future<Output = Result<T>> + 'static>(
        &mut self,
        ask: impl FnOnce(Rc<super::FileEngine>) -> F,
    ) -> Option<T> {
        match self.open.try_run(ask) {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => {
                let lost_buffers = error.kind == Kind::Restarted && self.restarted;
                assert!(self.world.striping.spare() == 0 && lost_buffers, "{:?}: {error}", self.world.striping);
                // It has to be opened again.
                self.world.crash(self.open.link.client);
                self.take_over();
                None
            }
            None => {
                self.take_over();
                None
            }
        }
    }

    fn write(&mut self, at: u64, bytes: Vec<u8>) {
        let end = at + bytes.len() as u64;
        self.since.push((at, bytes.clone()));
        self.sizes.insert(end.max(self.now.len() as u64));
        let given = Slice::from(bytes.clone());
        if self.ask(|file| async move { file.write_at(Bytes(at), given).await }).is_some() {
            self.now.resize(self.now.len().max(end as usize), 0);
            self.now[at as usize..end as usize].copy_from_slice(&bytes);
        }
    }

    fn flush(&mut self) {
        if self.ask(|file| async move { file.flush().await }).is_some() {
            self.is_acknowledged();
        }
    }

    fn is_acknowledged(&mut self) {
        self.acknowledged.clone_from(&self.now);
        self.since.clear();
        self.sizes = BTreeSet::from([self.now.len() as u64]);
        if std::mem::take(&mut self.restarted) {
            // Or it was given up.
            self.faulty = self.world.missing.borrow().keys().next().copied();
        }
    }

    fn truncate(&mut self, size: u64) {
        self.sizes.extend([size, self.now.len() as u64]);
        // Where it was cut and written again there is zero.
        self.since.push((size, vec![0; self.now.len().saturating_sub(size as usize)]));
        if self.ask(|file| async move { file.truncate(Bytes(size)).await }).is_some() {
            self.now.resize(size as usize, 0);
            self.is_acknowledged();
        }
    }

    fn read(&mut self) {
        let (at, length) = (self.below(self.now.len() as u64 + 100), self.below(12 * UNIT));
        let read = self.ask(|file| async move { file.read_at(Bytes(at), Bytes(length)).await });
        let from = (at as usize).min(self.now.len());
        let to = (at + length).min(self.now.len() as u64) as usize;
        if let Some(read) = read {
            assert!(read == self.now[from..to.max(from)], "{:?}: {length} bytes at {at}", self.world.striping);
        }
    }

    fn read_in_turn(&mut self) {
        let mut at = 0;
        while at < self.now.len() {
            let length = 1 + self.below(3 * UNIT);
            let Some(read) = self.ask(|file| async move { file.read_at(Bytes(at as u64), Bytes(length)).await }) else {
                return;
            };
            let end = (at + length as usize).min(self.now.len());
            assert!(read == self.now[at..end], "{:?}: {length} bytes at {at}", self.world.striping);
            at = end;
        }
    }

    /// The client died: others recover the file, however often they die of it, and what was acknowledged is there.
    fn take_over(&mut self) {
        self.world.took_crash();
        self.world.crash_after.set(None);
        if self.world.chance.once_in(3) {
            (0..self.world.striping.components()).for_each(|component| self.world.restart(component));
        }
        if self.world.striping.spare() > 0 && self.faulty.is_none() && self.world.chance.once_in(2) {
            self.lose();
        }
        let open = loop {
            if self.world.chance.once_in(2) {
                self.world.crash_after.set(Some(self.below(30)));
            }
            let link = self.world.client();
            let clock = self.world.clock();
            let recovered = self.world.run(&link, recover(link.clone(), self.world.striping, clock, link.spawner()));
            match recovered {
                Some(recovered) => drop(recovered.expect("it recovers")),
                None => continue,
            }
            self.world.crash_after.set(None);
            break Open::by(link, tight(true)).expect("it lives").expect("it opens");
        };
        self.open = open;
        // Those who died of recovering hold nothing, and have left nothing.
        assert_eq!(self.world.intents(), 0, "{:?}", self.world.striping);
        self.world.check();
        let found = self.open.all();
        assert!(self.sizes.contains(&(found.len() as u64)) || found.len() == self.acknowledged.len());
        let mut allowed: Vec<Vec<u8>> =
            (0..found.len()).map(|at| vec![self.acknowledged.get(at).copied().unwrap_or(0)]).collect();
        for (at, bytes) in &self.since {
            let there = allowed.iter_mut().skip(*at as usize);
            there.zip(bytes).for_each(|(allowed, byte)| allowed.push(*byte));
        }
        for (at, (byte, allowed)) in found.iter().zip(&allowed).enumerate() {
            assert!(allowed.contains(byte), "{:?}: byte {at} is {byte}, and may be {allowed:?}", self.world.striping);
        }
        self.now = found;
        self.is_acknowledged();
    }

    fn lose(&mut self) {
        let component = self.any_component();
        self.faulty = Some(component);
        match self.below(3) {
            0 => self.world.set_down(component, true),
            1 => self.world.fail_after(component, self.below(20)),
            _ => self.world.slow_down(component, Duration::from_millis(self.below(5000))),
        }
    }

    /// What is wrong is made good.
    fn mend(&mut self) {
        let Some(component) = self.faulty.filter(|_| !self.restarted) else { return };
        self.world.heal(component);
        // What it lacks it gets by this, or it is missing from now on.
        if self.ask(|file| async move { file.flush().await }).is_none() {
            return;
        }
        self.is_acknowledged();
        let missing = self.world.missing.borrow().contains_key(&component);
        if missing {
            let step = Bytes(1 + self.below(5 * UNIT));
            let rebuilt = self.ask(|file| async move {
                let mut progress = file.begin_rebuild(component).await?;
                while !file.rebuild(component, &mut progress, step).await? {}
                Ok(())
            });
            if rebuilt.is_none() {
                return;
            }
        }
        let mut from = 0;
        loop {
            let Some((found, more)) = self.ask(|file| async move { file.scrub(from, 3).await }) else { return };
            assert!(found.lost.is_empty() && found.repaired == Bytes::ZERO, "{found:?}");
            from += 3;
            if !more {
                break;
            }
        }
        self.faulty = None;
    }

    fn step(&mut self) {
        let (size, spare) = (self.now.len() as u64, self.world.striping.spare());
        match self.below(22) {
            0..4 => {
                let at = self.below(size + if self.world.chance.once_in(4) { 10 * UNIT } else { 1 });
                let length = 1 + self.below([100, 2 * UNIT, 10 * UNIT][self.below(3) as usize]);
                let bytes = some(&self.world.chance, length);
                self.write(at, bytes);
            }
            4..6 => {
                let bytes = some(&self.world.chance, 1 + self.below(30 * UNIT));
                self.write(size, bytes);
            }
            6 => {
                for _ in 0..20 {
                    let bytes = some(&self.world.chance, 1 + self.below(1000));
                    self.write(self.now.len() as u64, bytes);
                }
            }
            7..9 => self.read(),
            // Slow for a while, so that others are read in its place.
            9 => {
                let delay = Duration::from_millis(self.below(2) * 5);
                self.world.set_delay(self.any_component(), delay);
            }
            10 => self.read_in_turn(),
            11..14 => self.flush(),
            14 => self.truncate(self.below(size + UNIT)),
            15..17 => self.world.crash_after.set(Some(self.below(60))),
            17 if spare > 0 && self.faulty.is_none() => self.lose(),
            18 if spare > 0 && self.faulty.is_none() => {
                let component = self.any_component();
                self.faulty = Some(component);
                let at = self.below(size / UNIT + 1) * UNIT;
                self.world.damage(component, at..at + 1 + self.below(3 * UNIT));
            }
            19 if self.faulty.is_none() => {
                let component = self.any_component();
                (self.faulty, self.restarted) = (Some(component), true);
                self.world.restart(component);
            }
            _ => self.mend(),
        }
    }

    fn end(&mut self) {
        self.world.crash_after.set(None);
        self.flush();
        self.mend();
        self.flush();
        assert_eq!(self.open.all(), self.now);
        self.world.settle();
        assert_eq!(self.world.intents(), 0);
        self.world.check();
        if self.world.striping.spare() == 0 || !self.world.missing.borrow().is_empty() {
            return;
        }
        for component in 0..self.world.striping.components() {
            self.world.set_down(component, true);
            let other = Open::new(&self.world, tight(true));
            assert!(other.all() == self.now, "{:?} without {component}", self.world.striping);
            self.world.set_down(component, false);
        }
    }
}

#[test]
fn whatever_happens_within_what_is_spared_what_was_acknowledged_is_there_and_parity_agrees() {
    each(400, |seed| {
        let mut life = Life::new(seed);
        (0..60).for_each(|_| life.step());
        life.end();
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut life = Life::new(seed);
        (0..60).for_each(|_| life.step());
        (life.world.now(), life.world.take_counts(), life.now)
    };
    assert!(run(7) == run(7) && run(8) == run(8));
}
