//! What this client keeps of its open files: as much as the manager allows, which it asks again and again and which calls it back.
//!
//! Always: what was read is kept no longer than [`LEASE`] from when the manager was asked last and answered, by the monotonic clock
//! of this client, which goes on while the machine sleeps; before the manager is told that something is kept no more, that is so, and all that was written is durable. Whoever has
//! a file open twice in one client keeps nothing of it if it writes. And nobody of a client keeps anything of a file that another one of it
//! left unfinished, before that is mended: who is alone takes no locks, and so would not see what was begun.

mod opening;

pub(super) use opening::{Coming, Holding};

use crate::control::Control;
use crate::file::FileEngine;
use forebay_env::race::{First, race};
use forebay_env::{Clock, Spawner};
use forebay_model::{Error, Kind, Moment, Result};
use forebay_wire::control::files::{Caching, Callback, Called, Close, Kept, LEASE, Listen, MOST_KEPT, MakeWay};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How long it is waited before the manager is asked again that does not answer, or has no room for those who wait.
const PAUSE: Duration = Duration::from_millis(500);
/// For so long somebody who opens a file waits for others to give way.
const PATIENCE: Duration = Duration::from_secs(30);

/// What this client keeps.
pub(super) struct Keeper {
    control: Rc<dyn Control>,
    clock: Rc<dyn Clock>,
    spawner: Spawner,
    files: RefCell<BTreeMap<FileId, Open>>,
    next: Cell<u64>,
    /// Nothing is kept longer.
    until: Rc<Cell<Moment>>,
    /// The manager was not heard of for too long, and is to be heard of again.
    is_lapsed: Cell<bool>,
    /// It was said durably that something is kept.
    is_recorded: Cell<bool>,
    is_listening: Cell<bool>,
    /// What is still to be said.
    unsaid: RefCell<BTreeMap<FileId, Kept>>,
    /// The numbers of what was asked to be opened, as long as there is no answer.
    under_way: RefCell<BTreeSet<u64>>,
    /// What was called back and is not open here, and how many things had been numbered by then: it may be being opened.
    early: RefCell<BTreeMap<FileId, (Callback, u64)>>,
    this: Weak<Keeper>,
}

/// A part of all that is kept: which one, and behind which file.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    part: u32,
    after: Option<FileId>,
}

/// The manager is asked to open something, until its answer is here.
pub(super) struct Begun {
    keeper: Rc<Keeper>,
    number: u64,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.keeper.under_way.borrow_mut().remove(&self.number);
    }
}

/// A file that is open, perhaps several times.
struct Open {
    /// What the manager said last; under no number, if nobody asked it.
    told: Callback,
    times: BTreeMap<u64, Time>,
    /// Which of those it is that were open under this number.
    nth: u64,
    /// Opened, and not here yet; of these, to write; and those that are going to keep something.
    coming: usize,
    coming_to_write: usize,
    coming_to_keep: usize,
    /// Somebody of this client left it unfinished, and the manager does not know that yet.
    unfinished: Rc<Cell<bool>>,
    /// Less is kept than the manager said, for a reason that only this client knows: it is told again when that is over.
    is_declined: bool,
    /// The manager waits to be told what is kept.
    is_asked: bool,
    /// What is kept is being given up or taken up; and has to be looked at again then.
    is_turning: bool,
    again: bool,
}

/// One time that a file is open.
#[derive(Clone)]
struct Time {
    engine: FileEngine,
    write: bool,
    /// It keeps what it may; others do as they were told when they were opened.
    cached: bool,
}

impl Open {
    fn of(told: Callback, nth: u64, unfinished: Rc<Cell<bool>>) -> Open {
        Open {
            told,
            nth,
            times: BTreeMap::new(),
            coming: 0,
            coming_to_write: 0,
            coming_to_keep: 0,
            unfinished,
            is_declined: false,
            is_asked: false,
            is_turning: false,
            again: false,
        }
    }

    fn writes(&self) -> bool {
        self.times.values().any(|time| time.write)
    }

    /// Whether nothing may be kept of it, whatever the manager says.
    fn is_held_back(&self) -> bool {
        let is_mixed = self.times.len() + self.coming > 1 && (self.writes() || self.coming_to_write > 0);
        is_mixed || self.unfinished.get() || self.times.values().any(|time| !time.cached)
    }

    /// What may be kept of it by each time that it is open.
    fn may_keep(&self) -> Caching {
        match self.is_held_back() {
            true => Caching::Nothing,
            false => self.told.caching,
        }
    }

    fn is_listened_for(&self) -> bool {
        self.told.serial > 0
    }

    /// Whether anything is kept of it, or is just being taken up.
    fn keeps(&self) -> bool {
        let is_kept = self.times.values().any(|time| time.cached && !time.engine.is_shared());
        is_kept || self.coming_to_keep > 0 || self.is_turning && self.may_keep() > Caching::Nothing
    }

    /// The manager is told that no more is kept than this, so no more may be kept before it says so again: also if what is in the way
    /// now, as another time that it is open, is not any more.
    fn lower(&mut self, kept: Caching, is_in_the_way: bool) {
        self.is_declined |= is_in_the_way && kept < self.told.caching;
        self.told.caching = self.told.caching.min(kept);
    }

    /// The manager says what may be kept.
    fn hear(&mut self, told: Callback) {
        // What was declined before was said under another number.
        self.is_declined &= told.serial == self.told.serial;
        self.told = told;
    }

    /// Something of it was left unfinished: nothing is kept before the manager, which knows that by then, says so again.
    fn leave(&mut self) {
        if self.told.caching > Caching::Nothing {
            self.lower(Caching::Nothing, true);
            self.is_asked = true;
        }
    }
}

impl Keeper {
    pub(super) fn new(control: Rc<dyn Control>, clock: Rc<dyn Clock>, spawner: Spawner) -> Rc<Keeper> {
        Rc::new_cyclic(|this| Keeper {
            control,
            clock,
            spawner,
            files: RefCell::default(),
            next: Cell::default(),
            until: Rc::default(),
            is_lapsed: Cell::default(),
            is_recorded: Cell::default(),
            is_listening: Cell::default(),
            unsaid: RefCell::default(),
            under_way: RefCell::default(),
            early: RefCell::default(),
            this: this.clone(),
        })
    }

    /// Until when anything is kept.
    pub(super) fn until(&self) -> Rc<Cell<Moment>> {
        self.until.clone()
    }

    /// Says, once, that this client keeps what it reads.
    pub(super) async fn record(&self) -> Result<()> {
        if !self.is_recorded.get() {
            self.control.change(Change::Caches).await?;
            self.is_recorded.set(true);
        }
        Ok(())
    }

    /// The manager knows nothing of this client any more.
    pub(super) fn is_forgotten(&self) {
        self.is_recorded.set(false);
    }

    /// Waits until a file may be opened for which others are called back, for the first time or again.
    pub(super) async fn way(&self, way: MakeWay, since: Moment, again: bool) -> Result<()> {
        if self.clock.now().since(since) > PATIENCE {
            return Err(Error::busy(format!(
                "others keep something of the file, or it is to be mended, and that was waited for {} s; ask again later",
                PATIENCE.as_secs()
            )));
        }
        self.control.ask(Question::MakeWay(way)).await?;
        if again {
            // There may have been no room to wait in.
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The manager is going to be asked to open something: what that is called back may be known here before the answer.
    pub(super) fn begins(self: &Rc<Self>) -> Begun {
        let number = self.next();
        self.under_way.borrow_mut().insert(number);
        Begun { keeper: self.clone(), number }
    }

    /// The manager was asked to open a file at that time, and said what may be kept of it, if it was asked that. `unfinished` says
    /// whether this client left the file so, for as long as the manager does not know it.
    pub(super) fn opened(
        self: &Rc<Self>,
        file: FileId,
        told: Option<Callback>,
        asked: Moment,
        write: bool,
        unfinished: Rc<Cell<bool>>,
    ) -> Coming {
        let cached = told.is_some();
        let told = told.unwrap_or(Callback { file, caching: Caching::Nothing, serial: 0 });
        self.note_lapse();
        let nth = self.next();
        let mut files = self.files.borrow_mut();
        let open = files.entry(file).or_insert_with(|| Open::of(told, nth, unfinished.clone()));
        open.unfinished = unfinished;
        // It may have been called back while the answer was under way.
        if told.serial > open.told.serial {
            open.hear(told);
        }
        if let Some((called, _)) = self.early.borrow_mut().remove(&file)
            && called.serial > open.told.serial
        {
            open.hear(called);
            open.is_asked = true;
        }
        if open.unfinished.get() {
            open.leave();
        }
        open.coming += 1;
        open.coming_to_write += usize::from(write);
        drop(files);
        // What else is open may have been lost meanwhile, which only the next answer to who listens tells.
        if cached && !self.is_lapsed.get() {
            self.until.set(self.until.get().max(asked + LEASE));
        }
        Coming { keeper: self.clone(), file, write, cached, keeps: Cell::new(false) }
    }

    fn next(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    /// If the manager was not heard of for too long, what was read is kept no more, before anything else is done.
    fn note_lapse(self: &Rc<Self>) {
        if self.clock.through_sleep() < self.until.get() {
            return;
        }
        if !self.files.borrow().values().any(Open::is_listened_for) {
            self.is_lapsed.set(false);
        } else if !self.is_lapsed.replace(true) {
            self.lapse();
        }
    }

    /// Has what is open of a file keep what it may, and says so to the manager.
    fn turn(self: &Rc<Self>, file: FileId) {
        let nth = {
            let mut files = self.files.borrow_mut();
            let Some(open) = files.get_mut(&file) else { return };
            if std::mem::replace(&mut open.is_turning, true) {
                open.again = true;
                return;
            }
            open.nth
        };
        let this = self.clone();
        self.spawner.detach(async move { while this.turned(file, nth).await {} });
    }

    /// One step of that; whether there is another one.
    async fn turned(self: &Rc<Self>, file: FileId, nth: u64) -> bool {
        let is_late = || self.clock.through_sleep() >= self.until.get();
        let (times, caching, told, write, is_asked, is_held_back) = {
            let mut files = self.files.borrow_mut();
            let Some(open) = files.get_mut(&file).filter(|open| open.nth == nth) else { return false };
            if open.coming_to_keep > 0 {
                // It is looked at again when that is here.
                open.is_turning = false;
                return false;
            }
            open.again = false;
            let is_held_back = open.times.is_empty() || open.is_held_back();
            if open.is_declined && !is_held_back && !is_late() {
                // Told the same again, the manager looks whether more may be kept: otherwise it does not know that it can be by now.
                (open.is_declined, open.is_asked) = (false, true);
            }
            let times: Vec<Time> = open.times.values().filter(|time| time.cached).cloned().collect();
            let is_asked = std::mem::take(&mut open.is_asked);
            (times, open.may_keep(), open.told, open.writes(), is_asked, is_held_back)
        };
        let is_still = |keeper: &Keeper| {
            let files = keeper.files.borrow();
            files.get(&file).is_some_and(|open| open.nth == nth && open.told == told && open.may_keep() == caching)
        };
        for Time { engine, .. } in &times {
            match (caching, engine.is_shared()) {
                // What failed is looked at below.
                (Caching::Nothing, false) => drop(engine.share().await),
                (Caching::Nothing, true) => {}
                // Past its time nothing is taken up again before the manager was asked.
                _ if is_late() || !is_still(self) => {}
                (_, false) => engine.trust(),
                // Who cannot take anything up keeps nothing, which is always right.
                (_, true) => drop(engine.unshare().await),
            }
        }
        if caching == Caching::Nothing && times.iter().any(|time| time.write && time.engine.has_failed()) {
            self.leave_unfinished(file, nth).await;
        }
        if is_asked {
            let keeps = times.iter().any(|time| !time.engine.is_shared());
            let caching = kept_by(keeps, write);
            if let Some(open) =
                self.files.borrow_mut().get_mut(&file).filter(|open| open.nth == nth && open.told == told)
            {
                let is_in_the_way = is_held_back || open.is_held_back() || is_late();
                open.lower(caching, is_in_the_way);
            }
            self.say(Kept { file, caching: Some(caching), serial: told.serial, write }).await;
        }
        let mut files = self.files.borrow_mut();
        let Some(open) = files.get_mut(&file).filter(|open| open.nth == nth) else { return false };
        open.is_turning = open.again || open.told != told;
        open.is_turning
    }

    /// What was written and not flushed cannot be: others may only use the file when it is known that it is to be mended.
    async fn leave_unfinished(&self, file: FileId, nth: u64) {
        let close = Close { file, size: None, modified: None, upkeep: false, unfinished: true, cuts: None };
        while self.files.borrow().get(&file).is_some_and(|open| open.nth == nth) {
            match self.control.change(Change::Close(close.clone())).await {
                Err(error) if error.kind != Kind::Missing => self.clock.sleep(PAUSE).await,
                _ => return,
            }
        }
    }

    /// Says what is kept; if nobody hears it, later.
    async fn say(self: &Rc<Self>, kept: Kept) {
        let asked = self.clock.through_sleep();
        let listen = Listen { kept: vec![kept], all: false, part: 0, more: false };
        match self.control.ask(Question::Listen(listen)).await {
            Ok(Reply::Called(called)) => self.heed(called, asked),
            _ => drop(self.unsaid.borrow_mut().insert(kept.file, kept)),
        }
    }

    /// What nobody heard is said again, unless there is something newer.
    fn say_later(&self, file: FileId, kept: Kept) {
        self.unsaid.borrow_mut().entry(file).or_insert(kept);
    }

    /// Does what the manager says.
    fn heed(self: &Rc<Self>, called: Called, asked: Moment) {
        self.note_lapse();
        // Who was not in touch for too long may have lost what it is told of now.
        let is_lost = |told: &Callback| told.caching == Caching::Nothing;
        let may_be_lost = self.is_lapsed.get() && called.files.iter().any(is_lost);
        let is_in_touch = !called.unknown && !may_be_lost;
        let mut turned = Vec::new();
        // What the manager does not wait for any more it does not tell again.
        self.early.borrow_mut().retain(|file, _| called.files.iter().any(|told| told.file == *file));
        for mut told in called.files {
            let mut files = self.files.borrow_mut();
            match files.get_mut(&told.file) {
                Some(open) if told.serial >= open.told.serial => {
                    if told.serial == open.told.serial {
                        // It was sent before the manager heard that less is kept.
                        told.caching = told.caching.min(open.told.caching);
                    }
                    if told.caching == Caching::Nothing {
                        // Nothing that others write from now on is missed, however long it takes to give way.
                        open.times.values().filter(|time| time.cached).for_each(|time| time.engine.forget());
                    }
                    // If it was told before, it is being done, or what was said of it was lost.
                    let is_news = open.told != told || !open.is_turning;
                    open.hear(told);
                    open.is_asked |= is_news;
                    turned.extend(is_news.then_some(told.file));
                }
                Some(_) => {}
                None if self.may_be_coming(told) => {}
                None => {
                    let kept = Kept { file: told.file, caching: None, serial: told.serial, write: false };
                    self.unsaid.borrow_mut().insert(told.file, kept);
                }
            }
        }
        if is_in_touch {
            self.until.set(self.until.get().max(asked + LEASE));
            if self.is_lapsed.replace(false) {
                turned.extend(
                    self.files.borrow().iter().filter(|(_, open)| open.is_listened_for()).map(|(file, _)| *file),
                );
            }
        }
        turned.into_iter().for_each(|file| self.turn(file));
    }

    /// Whether the answer that opens what was called back may still be under way, which a call overtakes easily: then it is not said
    /// that the file is not open. The manager calls until it is told; what was asked to be opened since then is told of that anew.
    fn may_be_coming(&self, told: Callback) -> bool {
        let mut early = self.early.borrow_mut();
        let (called, by_then) = early.entry(told.file).or_insert_with(|| (told, self.next()));
        *called = told;
        let is_coming = self.under_way.borrow().first().is_some_and(|first| *first < *by_then);
        if !is_coming {
            early.remove(&told.file);
        }
        is_coming
    }

    /// What was read is kept no more: the manager was not heard of for too long. Who writes goes on alone; if the file is taken from
    /// it, whatever it writes is refused.
    fn lapse(self: &Rc<Self>) {
        let mut files = self.files.borrow_mut();
        let mut read = Vec::new();
        for (file, open) in files.iter_mut().filter(|(_, open)| open.is_listened_for()) {
            open.times.values().for_each(|time| time.engine.forget());
            if !open.writes() && open.told.caching > Caching::Nothing {
                // The manager may have allowed it to others since.
                open.lower(Caching::Nothing, true);
                open.is_asked = true;
                read.push(*file);
            }
        }
        drop(files);
        read.into_iter().for_each(|file| self.turn(file));
    }

    /// Begins to listen, unless somebody does.
    fn listens(self: &Rc<Self>) {
        if self.is_listening.replace(true) {
            return;
        }
        let this = self.this.clone();
        self.spawner.detach(async move {
            let mut all = None;
            while let Some(keeper) = this.upgrade() {
                let is_over = !keeper.files.borrow().values().any(Open::is_listened_for);
                if is_over && keeper.unsaid.borrow().is_empty() && keeper.early.borrow().is_empty() {
                    keeper.is_listening.set(false);
                    return;
                }
                all = keeper.listen(all).await;
            }
        });
    }

    /// Asks once, and says the next part of all that is kept, if the manager wants to know that; whether it does then.
    async fn listen(self: &Rc<Self>, all: Option<Part>) -> Option<Part> {
        self.note_lapse();
        let mut unsaid = BTreeMap::new();
        let mut more = None;
        let kept: Vec<Kept> = match all {
            Some(Part { part, after }) => {
                let mut kept = self.kept_behind(after);
                if kept.len() > MOST_KEPT {
                    kept.truncate(MOST_KEPT);
                    more = kept.last().map(|last| Part { part: part + 1, after: Some(last.file) });
                }
                kept
            }
            // What there is no room for is said the next time.
            None => {
                unsaid = self.unsaid.take();
                let rest = unsaid.keys().nth(MOST_KEPT).copied();
                let rest = rest.map(|first| unsaid.split_off(&first)).unwrap_or_default();
                self.unsaid.borrow_mut().extend(rest);
                unsaid.values().copied().collect()
            }
        };
        let asked = self.clock.through_sleep();
        let part = all.map_or(0, |all| all.part);
        let listen = Listen { kept, all: all.is_some(), part, more: more.is_some() };
        let mut answer = pin!(self.told_of(listen));
        let answered = loop {
            let now = self.clock.through_sleep();
            if now >= self.until.get() {
                self.note_lapse();
                break answer.await;
            }
            match race(answer.as_mut(), self.clock.sleep(self.until.get().since(now))).await {
                First::Left(answered) => break answered,
                First::Right(()) => {}
            }
        };
        let called = match answered {
            Ok(Reply::Called(called)) => called,
            _ => {
                unsaid.into_iter().for_each(|(file, kept)| self.say_later(file, kept));
                self.clock.sleep(PAUSE).await;
                return all;
            }
        };
        let (unknown, is_waited_for) = (called.unknown, called.crowded || !called.files.is_empty());
        self.heed(called, asked);
        let is_last = all.is_some() && more.is_none();
        if is_waited_for && !unknown || unknown && is_last {
            // What is told is being done; or it was another manager that heard the parts before.
            self.clock.sleep(PAUSE).await;
        }
        unknown.then(|| more.unwrap_or_default())
    }

    /// Asks what is called back. If the manager has forgotten that this client keeps what it reads, that is said again first.
    async fn told_of(&self, listen: Listen) -> Result<Reply> {
        let answered = self.control.ask(Question::Listen(listen)).await;
        if answered.as_ref().is_err_and(|error| error.kind == Kind::Stale) {
            self.is_forgotten();
            self.record().await?;
        }
        answered
    }

    /// What is kept of files with higher numbers than this, as far as it can be said at a time, and one more.
    fn kept_behind(&self, after: Option<FileId>) -> Vec<Kept> {
        let mut files = self.files.borrow_mut();
        let behind = files.range_mut((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let listened = behind.filter(|(_, open)| open.is_listened_for()).take(MOST_KEPT + 1);
        let kept = listened.map(|(file, open)| {
            let writes = open.writes() || open.coming_to_write > 0;
            let caching = kept_by(open.keeps(), writes);
            let is_in_the_way = open.is_held_back();
            open.lower(caching, is_in_the_way);
            Kept { file: *file, caching: Some(caching), serial: open.told.serial, write: writes }
        });
        kept.collect()
    }
}

impl Keeper {
    /// If nobody has a file open any more, the manager is to be told what is kept of it: nothing.
    fn gone(self: &Rc<Self>, file: FileId) {
        let mut files = self.files.borrow_mut();
        let is_open = |open: &Open| !open.times.is_empty() || open.coming > 0;
        let Some(open) = files.get(&file).filter(|open| !is_open(open)) else { return };
        if open.is_listened_for() {
            let kept = Kept { file, caching: None, serial: open.told.serial, write: false };
            self.unsaid.borrow_mut().insert(file, kept);
        }
        files.remove(&file);
        drop(files);
        if !self.unsaid.borrow().is_empty() {
            self.listens();
        }
    }
}

/// What is kept of a file by one who keeps anything, or nothing.
fn kept_by(keeps: bool, writes: bool) -> Caching {
    match (keeps, writes) {
        (false, _) => Caching::Nothing,
        (true, false) => Caching::Shared,
        (true, true) => Caching::Exclusive,
    }
}

#[cfg(test)]
mod tests;
