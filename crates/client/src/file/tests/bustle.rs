//! What one client does at the same time, and gives up in the middle: writes over one another, appends, cuts, flushes and
//! reads, while a connection ends or the client dies.

use super::super::fake::Begun;
use super::{Bytes, Open, Rc, Result, Slice, UNIT, World, each, recovered, some, striping, tight};
use forebay_model::layout::LARGEST;
use std::future::Future;

/// Bytes of the file that were being written, where they are known.
struct Written {
    at: Option<u64>,
    bytes: Vec<u8>,
    ended: Begun<Result<Bytes>>,
    given_up: bool,
}

struct Bustle {
    world: Rc<World>,
    open: Open,
    now: Vec<u8>,
    acknowledged: Vec<u8>,
    /// What was written since, whether it was appended somewhere or cut, and the largest that the file may be.
    since: Vec<(u64, Vec<u8>)>,
    wild: bool,
    most: u64,
    faulty: Option<u32>,
}

impl Bustle {
    fn new(seed: u64) -> Bustle {
        let world = World::new(striping(seed as usize), seed);
        let open = Open::new(&world, tight(true));
        Bustle {
            world,
            open,
            now: Vec::new(),
            acknowledged: Vec::new(),
            since: Vec::new(),
            wild: false,
            most: 0,
            faulty: None,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.world.chance.below(bound)
    }

    fn begin<T: 'static, F: Future<Output = Result<T>> + 'static>(
        &self,
        ask: impl FnOnce(Rc<super::FileEngine>) -> F,
    ) -> Begun<Result<T>> {
        let begun = self.world.begin(&self.open.link, ask(self.open.engine.clone()));
        self.world.go_on(self.below(4) * self.below(4));
        begun
    }

    fn some(&self) -> Vec<u8> {
        some(&self.world.chance, 1 + self.below([100, 2 * UNIT, 10 * UNIT, 40 * UNIT][self.below(4) as usize]))
    }

    fn write(&self, at: u64, bytes: Vec<u8>) -> Written {
        let given = Slice::from(bytes.clone());
        let ended = self.begin(|file| async move { file.write_at(Bytes(at), given).await.map(|()| Bytes(at)) });
        Written { at: Some(at), bytes, ended, given_up: false }
    }

    fn append(&self) -> Written {
        let bytes = self.some();
        let given = Slice::from(bytes.clone());
        let ended = self.begin(|file| async move { file.append(given).await });
        Written { at: None, bytes, ended, given_up: false }
    }

    fn round(&mut self) {
        let size = self.now.len() as u64;
        let kind = self.below(4);
        let (appends, cuts) = (kind == 0, kind == 1);
        let (mut writes, mut flushes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        let mut cut: Option<(u64, Begun<Result<()>>)> = None;
        for _ in 0..2 + self.below(6) {
            match self.below(8) {
                0 | 1 => flushes.push(self.begin(|file| async move { file.flush().await })),
                2 => {
                    let (at, length) = (self.below(size + UNIT), 1 + self.below(8 * UNIT));
                    let begun = self.begin(|file| async move { file.read_at(Bytes(at), Bytes(length)).await });
                    reads.push((at, begun));
                }
                3 if cuts && cut.is_none() => {
                    let to = self.below(size + UNIT);
                    cut = Some((to, self.begin(|file| async move { file.truncate(Bytes(to)).await })));
                }
                4 | 5 if appends => writes.push(self.append()),
                _ => {
                    let mut bytes = self.some();
                    let at = match self.below(3) {
                        0 if !appends => size,
                        _ => self.below(size + 1),
                    };
                    if appends {
                        bytes.truncate((size - at) as usize);
                    }
                    writes.push(self.write(at, bytes));
                }
            }
        }
        let gives_up = self.world.chance.once_in(2);
        for _ in 0..if gives_up { self.below(4) } else { 0 } {
            self.world.go_on(self.below(15));
            let nth = |count: usize| self.below(count.max(1) as u64) as usize;
            match self.below(4) {
                0 => drop(flushes.get(nth(flushes.len())).map(Begun::give_up)),
                1 => drop(reads.get(nth(reads.len())).map(|(_, read)| read.give_up())),
                2 => drop(cut.as_ref().map(|(_, cut)| cut.give_up())),
                _ => {
                    let nth = nth(writes.len());
                    if let Some(write) = writes.get_mut(nth) {
                        write.given_up |= write.ended.give_up();
                    }
                }
            }
        }
        let spare = self.world.striping.spare() > 0;
        if spare && self.faulty.is_none() && self.world.chance.once_in(6) {
            let component = self.below(u64::from(self.world.striping.components())) as u32;
            self.faulty = Some(component);
            self.world.lose_link(self.open.link.client, component);
        }
        if self.world.chance.once_in(6) {
            self.world.crash_after.set(Some(self.below(40)));
        }
        self.most = self.most.max(size).max(cut.as_ref().map_or(0, |(to, _)| *to));
        for write in &writes {
            self.most = self.most.max(write.at.unwrap_or(self.most) + write.bytes.len() as u64);
        }
        let has_cut = cut.is_some();
        let lives = self.world.finish(&self.open.link, || {
            let of = |write: &Written| write.given_up || write.ended.has_ended();
            writes.iter().all(of)
                && flushes.iter().all(|flush| flush.has_ended() || flush.is_given_up())
                && cut.as_ref().is_none_or(|(_, cut)| cut.has_ended() || cut.is_given_up())
                && reads.iter().all(|(_, read)| read.has_ended() || read.is_given_up())
        });
        if flushes.iter().any(|flush| matches!(flush.take(), Some(Ok(())))) {
            // What was there before is acknowledged, what was written beside it perhaps.
            self.is_acknowledged();
        }
        self.wild |= appends || has_cut;
        let known = writes.iter().filter_map(|write| Some((write.at?, write.bytes.clone())));
        self.since.extend(known.collect::<Vec<_>>());
        if !lives {
            return self.take_over();
        }
        self.world.crash_after.set(None);
        let ended = writes.iter().map(|write| write.ended.take().map(|ended| ended.expect("it is written").0));
        let sure: Vec<Option<u64>> = ended.collect();
        if let Some((_, cut)) = &cut
            && let Some(cut) = cut.take()
        {
            cut.expect("it is cut");
        }
        for (at, read) in reads {
            let Some(read) = read.take() else { continue };
            let read = read.expect("it is read");
            for (place, byte) in (at..).zip(&read) {
                let old = self.now.get(place as usize).copied().unwrap_or(0);
                let is = |write: &Written| match write.at {
                    Some(at) => {
                        place >= at && write.bytes.get((place - at) as usize).is_some_and(|written| written == byte)
                    }
                    None => place >= size,
                };
                assert!(*byte == old || has_cut && *byte == 0 || writes.iter().any(is), "byte {place} was read");
            }
        }
        let Some(found) = self.open.try_run(|file| async move { file.read_at(Bytes::ZERO, LARGEST).await }) else {
            return self.take_over();
        };
        let found = found.expect("it is read");
        self.compare(&writes, &sure, has_cut, &found);
        self.now = found;
        if self.world.chance.once_in(2) {
            self.flush();
        }
    }

    fn compare(&self, writes: &[Written], sure: &[Option<u64>], has_cut: bool, found: &[u8]) {
        let size = self.now.len() as u64;
        let places: Vec<Option<u64>> = writes.iter().zip(sure).map(|(write, sure)| write.at.or(*sure)).collect();
        if !has_cut {
            let ends = writes.iter().zip(sure).filter_map(|(write, at)| Some((*at)? + write.bytes.len() as u64));
            assert!(found.len() as u64 >= ends.max().unwrap_or(0).max(size), "it is too short");
        }
        assert!(found.len() as u64 <= self.most);
        let has_lost_append = writes.iter().zip(&places).any(|(_, place)| place.is_none());
        for (at, byte) in (0_u64..).zip(found) {
            let meets = writes.iter().zip(&places).zip(sure).filter_map(|((write, place), sure)| {
                let one = write.bytes.get(at.checked_sub((*place)?)? as usize)?;
                Some((*one, sure.is_some()))
            });
            let meets: Vec<(u8, bool)> = meets.collect();
            let is_one = meets.iter().any(|(one, _)| one == byte);
            let is_old = self.now.get(at as usize).copied().unwrap_or(0) == *byte || has_cut && *byte == 0;
            let must = !has_cut && meets.iter().any(|(_, sure)| *sure);
            let unknown = has_lost_append && at >= size && meets.is_empty();
            assert!(is_one || is_old && !must || unknown, "byte {at} is {byte} of {meets:?}");
        }
    }

    fn is_acknowledged(&mut self) {
        self.acknowledged.clone_from(&self.now);
        self.since.clear();
        (self.wild, self.most) = (false, self.most.max(self.now.len() as u64));
    }

    fn flush(&mut self) {
        match self.open.try_run(|file| async move { file.flush().await }) {
            None => return self.take_over(),
            Some(flushed) => flushed.expect("it is flushed"),
        }
        self.is_acknowledged();
        self.most = self.now.len() as u64;
        if self.world.chance.once_in(3) {
            self.world.crash(self.open.link.client);
            self.take_over();
        } else if let Some(component) = self.faulty.take()
            && self.world.missing.borrow().contains_key(&component)
        {
            let rebuilt = self.open.try_run(|file| async move {
                let mut progress = file.begin_rebuild(component).await?;
                while !file.rebuild(component, &mut progress, Bytes(3 * UNIT)).await? {}
                Ok::<(), forebay_model::Error>(())
            });
            rebuilt.expect("nobody dies").expect("it is rebuilt");
        }
    }

    fn take_over(&mut self) {
        self.world.crash_after.set(None);
        self.world.go_on(self.below(20));
        // Not more is lost than is spared.
        if self.faulty.is_none() && self.world.chance.once_in(3) {
            (0..self.world.striping.components()).for_each(|component| self.world.restart(component));
        }
        self.open = Open::by(recovered(&self.world), tight(true)).expect("it lives").expect("it opens");
        assert_eq!(self.world.intents(), 0);
        self.world.check();
        let found = self.open.all();
        assert!(found.len() as u64 <= self.most.max(self.acknowledged.len() as u64));
        assert!(self.wild || found.len() >= self.acknowledged.len(), "{} bytes are left", found.len());
        for (at, byte) in (0_u64..).zip(&found) {
            let is = |(from, bytes): &(u64, Vec<u8>)| {
                at.checked_sub(*from).is_some_and(|within| bytes.get(within as usize) == Some(byte))
            };
            let old = self.acknowledged.get(at as usize).copied();
            let wild = self.wild && (old.is_none() || *byte == 0);
            assert!(old.unwrap_or(0) == *byte || wild || self.since.iter().any(is), "byte {at} is {byte}");
        }
        self.now = found;
        self.is_acknowledged();
        self.most = self.now.len() as u64;
    }
}

#[test]
fn what_one_client_does_at_the_same_time_and_gives_up_in_the_middle_is_done_in_turn_or_not_at_all() {
    each(200, |seed| {
        let mut bustle = Bustle::new(seed);
        (0..12).for_each(|_| bustle.round());
        bustle.flush();
        bustle.world.settle();
        assert_eq!(bustle.world.intents(), 0);
        bustle.world.check();
        assert!(bustle.open.all() == bustle.now);
    });
}
