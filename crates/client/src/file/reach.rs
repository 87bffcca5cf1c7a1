//! The components of one open file, as this client can reach them: which of them it does without, and requests within
//! windows.
//!
//! A component is *away* if it failed a read a moment ago: it is written, and the others are read. It is *behind* if it lacks
//! something that was written since the last flush: it is neither read nor written until a flush has brought it up to
//! date. It has *missed* something if what it lacks is durable elsewhere, which is durably known before anybody is told
//! that it was written: this client and all others do without it until somebody rebuilds it. One that was *left*, as its device
//! is slow or its node silent, may still do what was asked of it: it is given up before anything is acknowledged, and never
//! brought up to date.

use super::components::{Absence, Components, Slice, is_lost};
use super::options::{Options, Sharing};
use super::order::Order;
use super::pace::Pace;
use super::room::Room;
use forebay_env::{Clock, Spawner};
use forebay_model::layout::Striping;
use forebay_model::layout::address::{Holds, Place};
use forebay_model::layout::update::Extent;
use forebay_model::object::Durability;
use forebay_model::ranges::Ranges;
use forebay_model::{Bytes, Error, Kind, Moment, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// So long others are read rather than a component that failed.
const AWAY: Duration = Duration::from_secs(1);
/// How often is asked, by one who cannot go on without, whether what lacked something was rebuilt.
const ASK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Away(Moment),
    Behind,
    /// Nobody waits for it: what was asked of it may still be done.
    Left,
    /// It is being rebuilt: written, and not read.
    Filling,
    /// It missed something while it was being rebuilt, which others do not know yet.
    Torn,
    Missed,
}

/// The components of one open file.
pub(super) struct Reach {
    pub(super) components: Rc<dyn Components>,
    pub(super) striping: Striping,
    pub(super) options: Options,
    /// Nobody else writes the file, or looks at what is written.
    alone: Cell<bool>,
    /// Until then what was read may be kept, if nobody else writes.
    pub(super) kept_until: Rc<Cell<Moment>>,
    /// What was read may not be so any more, whatever the time is.
    doubted: Cell<bool>,
    pub(super) clock: Rc<dyn Clock>,
    pub(super) spawner: Spawner,
    pub(super) pace: Pace,
    /// Room for what is read in place of what is lost.
    pub(super) mending: Rc<Room>,
    states: RefCell<BTreeMap<u32, State>>,
    /// What a component lacks, or would if its target had no power now.
    unflushed: RefCell<BTreeMap<u32, Ranges>>,
    rooms: RefCell<BTreeMap<u32, Rc<Room>>>,
    /// Whoever gives a component up is alone in it.
    turn: Rc<Order>,
    /// When somebody asked last whether what lacked something was rebuilt.
    asked: Cell<Option<Moment>>,
    /// Bytes that were damaged and are whole again.
    pub(super) mended: Cell<Bytes>,
}

impl Reach {
    pub(super) fn new(
        components: Rc<dyn Components>,
        striping: Striping,
        options: Options,
        clock: Rc<dyn Clock>,
        spawner: Spawner,
    ) -> Reach {
        Reach {
            components,
            striping,
            mending: Room::of(options.window.0),
            alone: Cell::new(options.sharing == Sharing::Alone),
            kept_until: Rc::new(Cell::new(Moment(u64::MAX))),
            doubted: Cell::new(false),
            options,
            clock,
            spawner,
            pace: Pace::default(),
            states: RefCell::default(),
            unflushed: RefCell::default(),
            rooms: RefCell::default(),
            turn: Rc::default(),
            asked: Cell::default(),
            mended: Cell::default(),
        }
    }

    /// Whether nobody else writes the file, so that what is written may be so later and without locks.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.get()
    }

    /// Others write it from now on, or nobody any more.
    pub(super) fn set_alone(&self, alone: bool) {
        self.alone.set(alone);
        self.doubted.set(false);
        self.components.set_alone(alone);
    }

    /// Whether what was read, and how long the file is, is still so.
    pub(super) fn may_keep(&self) -> bool {
        self.alone.get() && !self.doubted.get() && self.clock.through_sleep() < self.kept_until.get()
    }

    /// What was read may not be so any more; or is, after all.
    pub(super) fn doubt(&self, doubted: bool) {
        self.doubted.set(doubted);
    }

    /// Asks anew which components have missed something, and which were rebuilt.
    pub(super) async fn look(&self) -> Result<()> {
        // What somebody gives up meanwhile is not forgotten again.
        let _turn = self.turn.everything().await;
        let missing = self.components.missing().await?;
        self.know(missing);
        Ok(())
    }

    /// Whether other components of a family lack something by now than when these did; asks, not too often, if nothing is known of
    /// that: whoever asks nothing of a file for a while does not hear that it was rebuilt. What cannot be asked is taken for what it
    /// was.
    pub(super) async fn has_changed(&self, family: Range<u32>, before: &[u32]) -> bool {
        if self.lacking(family.clone()) == before && !before.is_empty() {
            let _turn = self.turn.everything().await;
            if self.asked.get().is_none_or(|asked| self.clock.now() >= asked + ASK) {
                if let Ok(missing) = self.components.missing().await {
                    self.know(missing);
                }
                self.asked.set(Some(self.clock.now()));
            }
        }
        self.lacking(family) != before
    }

    /// Takes over what is known by now of components that have missed something.
    pub(super) fn heed(&self) {
        self.know(self.components.absent());
    }

    fn know(&self, missing: Vec<(u32, Absence)>) {
        let mut states = self.states.borrow_mut();
        states.retain(|_, state| matches!(state, State::Away(_) | State::Behind | State::Left | State::Torn));
        for (component, absence) in missing {
            let state = match absence {
                Absence::Missed => State::Missed,
                Absence::Filling if states.get(&component) == Some(&State::Torn) => State::Torn,
                Absence::Filling => State::Filling,
            };
            states.insert(component, state);
        }
    }

    /// The components with which this one shares what can be lost: of these, as many as there are to spare.
    pub(super) fn family(&self, component: u32) -> Range<u32> {
        self.striping.family(component)
    }

    /// Whether it can be read.
    pub(super) fn is_sound(&self, component: u32) -> bool {
        match self.states.borrow().get(&component) {
            None | Some(State::Away(_)) => true,
            Some(State::Behind | State::Left | State::Filling | State::Torn | State::Missed) => false,
        }
    }

    /// Whether it failed a moment ago, so that others are asked first.
    pub(super) fn is_away(&self, component: u32) -> bool {
        let state = self.states.borrow().get(&component).copied();
        matches!(state, Some(State::Away(until)) if self.clock.now() < until)
    }

    fn those(&self, family: Range<u32>, is: impl Fn(State) -> bool) -> Vec<u32> {
        let states = self.states.borrow();
        states.range(family).filter(|(_, state)| is(**state)).map(|(component, _)| *component).collect()
    }

    /// Whether it lacks something until it is rebuilt: nobody reads it, though all may write it.
    pub(super) fn has_missed(&self, component: u32) -> bool {
        let state = self.states.borrow().get(&component).copied();
        matches!(state, Some(State::Missed | State::Filling | State::Torn))
    }

    /// Whether it is asked for locks and intents: all clients write it, though they may not read it yet.
    pub(super) fn is_asked(&self, component: u32) -> bool {
        self.states.borrow().get(&component) != Some(&State::Missed)
    }

    /// Whether it is written.
    pub(super) fn is_written(&self, component: u32) -> bool {
        self.unwritten(component..component + 1).is_empty()
    }

    /// The components of a family that are not written.
    pub(super) fn unwritten(&self, family: Range<u32>) -> Vec<u32> {
        self.those(family, |state| matches!(state, State::Behind | State::Left | State::Torn | State::Missed))
    }

    /// The components of a family that lack something of which others do not know.
    pub(super) fn behind(&self, family: Range<u32>) -> Vec<u32> {
        self.those(family, |state| matches!(state, State::Behind | State::Left | State::Torn))
    }

    /// The components that lack something and cannot be brought up to date: of what was written while they were rebuilt, or that
    /// were left.
    pub(super) fn torn(&self) -> Vec<u32> {
        self.those(0..u32::MAX, |state| matches!(state, State::Left | State::Torn))
    }

    /// The components of a family that lack something.
    pub(super) fn lacking(&self, family: Range<u32>) -> Vec<u32> {
        self.those(family, |state| !matches!(state, State::Away(_)))
    }

    /// Whether a file can do without this one, and those that it does without already.
    fn is_covered(&self, component: u32) -> bool {
        let mut gone = self.lacking(self.family(component));
        gone.retain(|one| *one != component);
        (gone.len() as u32) < self.striping.spare()
    }

    /// It is not written from now on, if the file can do without it: whether it is so.
    pub(super) fn leave(&self, component: u32) -> bool {
        let state = self.states.borrow().get(&component).copied();
        match state {
            Some(State::Left | State::Missed) => return true,
            // Who rebuilds it begins anew where it is not slow.
            Some(State::Filling | State::Torn) => return false,
            None | Some(State::Away(_) | State::Behind) => {}
        }
        let may = self.is_covered(component);
        if may {
            self.states.borrow_mut().insert(component, State::Left);
            self.components.leave(component);
        }
        may
    }

    fn too_many(&self, component: u32, why: &Error) -> Error {
        let gone = self.lacking(self.family(component));
        let message = format!(
            "component {component} is lost beside {gone:?}, and {} keeps enough for {}; bring one of them back ({why})",
            self.striping.raid(),
            self.striping.spare(),
        );
        let kind = if matches!(why.kind, Kind::Restarted | Kind::Damaged) { why.kind } else { Kind::Device };
        Error::new(kind, message)
    }

    /// From now on nobody uses this component, until it is rebuilt: durably.
    pub(super) async fn give_up(&self, component: u32, why: &Error) -> Result<()> {
        let family = self.family(component);
        let lacking = self.lacking(family.clone());
        if !self.is_covered(component) {
            self.has_changed(family, &lacking).await;
        }
        let _turn = self.turn.everything().await;
        if self.states.borrow().get(&component) == Some(&State::Missed) {
            return Ok(());
        }
        if !self.is_covered(component) {
            return Err(self.too_many(component, why));
        }
        self.components.missed(vec![component]).await.map_err(|error| error.of(why))?;
        self.states.borrow_mut().insert(component, State::Missed);
        self.unflushed.borrow_mut().remove(&component);
        Ok(())
    }

    /// A component is written from now on, and not read.
    pub(super) fn is_filling(&self, component: u32) {
        self.states.borrow_mut().insert(component, State::Filling);
    }

    /// Whether a component is being rebuilt, and has missed nothing since that began.
    pub(super) fn check_filling(&self, component: u32) -> Result<()> {
        match self.states.borrow().get(&component) {
            Some(State::Filling) => Ok(()),
            Some(State::Torn | State::Missed) => Err(Error::device(format!(
                "component {component} failed a write while it was rebuilt; begin its rebuild anew"
            ))),
            _ => Err(Error::usage(format!("component {component} is not being rebuilt; begin its rebuild"))),
        }
    }

    /// A component missed something while it was being rebuilt.
    pub(super) fn tear(&self, component: u32) {
        self.states.borrow_mut().entry(component).and_modify(|state| {
            *state = if *state == State::Filling { State::Torn } else { *state };
        });
    }

    /// A component has everything again.
    pub(super) fn is_whole(&self, component: u32) {
        self.states.borrow_mut().remove(&component);
        self.unflushed.borrow_mut().remove(&component);
    }

    /// This part of a component was not written, and is made good at the next flush.
    pub(super) fn fall_behind(&self, extent: Extent, why: &Error) -> Result<()> {
        let component = extent.place.component;
        if self.has_missed(component) {
            self.tear(component);
            return Ok(());
        }
        if !self.is_covered(component) {
            return Err(self.too_many(component, why));
        }
        let mut states = self.states.borrow_mut();
        if states.get(&component) != Some(&State::Left) {
            states.insert(component, State::Behind);
        }
        drop(states);
        self.is_unflushed(extent);
        Ok(())
    }

    fn is_unflushed(&self, extent: Extent) {
        let range = extent.place.at.0..(extent.place.at + extent.length).0;
        self.unflushed.borrow_mut().entry(extent.place.component).or_default().add(range);
    }

    /// Components with something to flush, and what.
    pub(super) fn take_unflushed(&self) -> BTreeMap<u32, Ranges> {
        self.unflushed.take()
    }

    /// What a component holds at a byte of it.
    pub(super) fn held_at(&self, component: u32, at: Bytes) -> Holds {
        let copies = self.striping.raid().copies();
        self.striping.held_at(Place { component: component / copies * copies, at })
    }

    pub(super) fn room(&self, component: u32) -> Rc<Room> {
        let mut rooms = self.rooms.borrow_mut();
        rooms.entry(component).or_insert_with(|| Room::of(self.options.component_window.0)).clone()
    }

    /// Reads from a component itself, within its window.
    pub(super) async fn direct(&self, Extent { place, length }: Extent) -> Result<Slice> {
        if !self.is_sound(place.component) {
            return Err(Error::device(format!("component {} is not read until it is rebuilt", place.component)));
        }
        let mut timed = Timed::new(self, place.component, length.0);
        let _held = self.room(place.component).hold(length.0).await;
        timed.begun = Some(self.clock.now());
        let read = self.components.read(place.component, place.at, length).await;
        drop(timed);
        let mut states = self.states.borrow_mut();
        match (&read, states.get(&place.component)) {
            (Ok(_), Some(State::Away(_))) => drop(states.remove(&place.component)),
            (Err(error), None | Some(State::Away(_))) if is_lost(error) => {
                states.insert(place.component, State::Away(self.clock.now() + AWAY));
            }
            _ => {}
        }
        read
    }

    /// Writes to a component itself, within its window.
    pub(super) async fn write(&self, place: Place, bytes: Vec<Slice>, durability: Durability) -> Result<()> {
        let length = Bytes(bytes.iter().map(|slice| slice.len() as u64).sum());
        if !self.is_written(place.component) {
            return Err(Error::device(format!("component {} is not written until it is rebuilt", place.component)));
        }
        if durability == Durability::Buffered {
            self.is_unflushed(Extent { place, length });
        }
        let write = async {
            let _held = self.room(place.component).hold(length.0).await;
            self.components.write(place.component, place.at, bytes, durability).await
        };
        self.unless_left(place.component, write).await
    }
}

/// Notes how long a request took, also if it was given up.
struct Timed<'a> {
    reach: &'a Reach,
    component: u32,
    bytes: u64,
    asked: Moment,
    /// When there was room for it.
    begun: Option<Moment>,
}

impl<'a> Timed<'a> {
    fn new(reach: &'a Reach, component: u32, bytes: u64) -> Timed<'a> {
        let asked = reach.clock.now();
        reach.pace.asked(component, asked);
        Timed { reach, component, bytes, asked, begun: None }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.reach.pace.answered(self.component, self.asked);
        if let Some(begun) = self.begun {
            self.reach.pace.note(self.component, self.reach.clock.now().since(begun), self.bytes);
        }
    }
}
