//! One client's way to the components: what is asked is done in any order, and answered later.

use super::super::components::{Absence, Asked, Begun, Components, Intent, IntentId, Lock, Slice};
use super::component::Component;
use super::world::{Event, Fate, Pending, Slot, Time, World};
use forebay_env::Clock;
use forebay_model::layout::address::StripeId;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::object::{LOST_TOGETHER, MOST_AT_ONCE};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// What came of a request, and when it is known.
type Answer<T> = Rc<RefCell<(Option<Result<T>>, u64)>>;

/// One client's way to the components.
pub(in crate::file) struct Link {
    pub(super) world: Rc<World>,
    pub(in crate::file) client: u64,
}

impl Link {
    pub(in crate::file) fn world(&self) -> &Rc<World> {
        &self.world
    }

    pub(in crate::file) fn spawner(&self) -> forebay_env::Spawner {
        self.world.executors.borrow()[&self.client].spawner()
    }

    /// Has `apply` done some time later, and its answer come some time after that.
    fn ask<T: 'static>(&self, component: Option<u32>, apply: impl FnOnce(&World) -> Result<T> + 'static) -> Asked<T> {
        let (answer, slot): (Answer<T>, Slot) = Default::default();
        let (world, number) = (self.world.clone(), self.world.number());
        let delay = component.map_or(Duration::ZERO, |one| world.components.borrow()[one as usize].delay);
        let (there, back) = (1000 + world.chance.below(200_000), world.chance.below(50_000));
        let (to, answered) = (answer.clone(), slot.clone());
        let fate = Rc::new(Cell::new(Fate::Answered));
        let done_by = fate.clone();
        let done = Box::new(move |world: &World| {
            let result = match done_by.get() {
                Fate::Answered => apply(world),
                Fate::Lost => apply(world).and(Err(Error::disconnected("the connection ended"))),
                Fate::Dropped => Err(Error::disconnected("the connection ended")),
            };
            let mut to = to.borrow_mut();
            *to = (Some(result), world.now.get() + back);
            world.at(to.1, Event::Wake(answered));
        });
        let pending = Pending { client: self.client, component, fate, apply: done };
        world.pending.borrow_mut().insert(number, pending);
        world.at(world.now.get() + there + delay.as_nanos() as u64, Event::Apply(number));
        Box::pin(std::future::poll_fn(move |context| {
            let mut answer = answer.borrow_mut();
            let is_there = answer.1 <= world.now.get();
            if let Some(result) = answer.0.take_if(|_| is_there) {
                return Poll::Ready(result);
            }
            *slot.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn change<T: 'static>(
        &self,
        component: u32,
        change: impl FnOnce(&World, &mut Component) -> Result<T> + 'static,
    ) -> Asked<T> {
        let client = self.client;
        self.look(component, move |world, one| {
            world.check_locks(client)?;
            change(world, one)
        })
    }

    /// What is allowed of a component that is being filled, and changes none of its bytes.
    fn look<T: 'static>(
        &self,
        component: u32,
        change: impl FnOnce(&World, &mut Component) -> Result<T> + 'static,
    ) -> Asked<T> {
        let client = self.client;
        self.ask(Some(component), move |world| {
            world.check_reach(component, client, true)?;
            change(world, &mut world.components.borrow_mut()[component as usize])
        })
    }
}

impl Components for Link {
    fn begun(&self, component: u32, _: StripeId) -> Asked<Option<Begun>> {
        self.ask(Some(component), |_| Ok(Some(Begun::default())))
    }

    fn read(&self, component: u32, at: Bytes, length: Bytes) -> Asked<Slice> {
        let client = self.client;
        self.world.count(|counts| {
            counts.reads += 1;
            counts.read_bytes += length.0;
        });
        self.ask(Some(component), move |world| {
            world.check_reach(component, client, false)?;
            let components = world.components.borrow();
            let one = &components[component as usize];
            let end = (at + length).0;
            if one.damaged.iter().any(|range| range.start < end && at.0 < range.end) {
                return Err(Error::damaged(format!("component {component} is damaged there")));
            }
            let from = (at.0 as usize).min(one.now.len());
            Ok(Slice::copy_from_slice(&one.now[from..(end as usize).min(one.now.len())]))
        })
    }

    fn write(&self, component: u32, at: Bytes, bytes: Vec<Slice>, durability: Durability) -> Asked<()> {
        let client = self.client;
        let length = bytes.iter().map(|slice| slice.len() as u64).sum::<u64>();
        self.world.count(|counts| {
            counts.writes += 1;
            counts.written_bytes += length;
        });
        self.world.largest_write.set(self.world.largest_write.get().max(length));
        let (now, most) = self.world.writing.get();
        self.world.writing.set((now + length, most.max(now + length)));
        self.change(component, move |world, one| {
            let (now, most) = world.writing.get();
            world.writing.set((now.saturating_sub(length), most));
            if length > MOST_AT_ONCE.0 {
                return Err(Error::usage(format!("{length} bytes at once are too many for a component")));
            }
            if one.full {
                return Err(Error::new(Kind::Full, format!("component {component} has no room")));
            }
            if durability == Durability::Buffered {
                let mut clients = world.clients.borrow_mut();
                let wrote = &mut clients.get_mut(&client).expect("it is known").wrote;
                wrote.entry(component).or_insert(one.restarts);
            }
            one.write(at, &bytes, durability);
            Ok(())
        })
    }

    fn lose(&self, component: u32, at: Bytes, length: Bytes) -> Asked<()> {
        self.change(component, move |_, one| {
            let end = at + length;
            assert!(
                at.0.is_multiple_of(LOST_TOGETHER.0)
                    && (end.0.is_multiple_of(LOST_TOGETHER.0) || end.0 >= one.now.len() as u64)
            );
            one.write(at, &[Slice::from(vec![0; length.0 as usize])], Durability::Durable);
            one.damaged.add(at.0..end.0);
            Ok(())
        })
    }

    fn truncate(&self, component: u32, size: Bytes) -> Asked<()> {
        self.change(component, move |_, one| {
            one.now.resize(size.0 as usize, 0);
            one.replace_damaged(size.0, u64::MAX);
            one.make_durable();
            Ok(())
        })
    }

    fn size(&self, component: u32) -> Asked<Bytes> {
        self.look(component, |_, one| Ok(Bytes(one.now.len() as u64)))
    }

    fn flush(&self, component: u32) -> Asked<()> {
        let client = self.client;
        self.ask(Some(component), move |world| {
            let reached = world.check_reach(component, client, true);
            if reached.is_ok() {
                world.components.borrow_mut()[component as usize].make_durable();
            }
            if !world.is_down(component) {
                world.clients.borrow_mut().get_mut(&client).expect("it is known").wrote.remove(&component);
            }
            reached
        })
    }

    fn lock(&self, component: u32, stripe: StripeId) -> Asked<Lock> {
        let (world, client, number, key) =
            (self.world.clone(), self.client, self.world.number(), (component, stripe.0));
        world.count(|counts| counts.locks += 1);
        let waits = Rc::new(Cell::new(true));
        let still = waits.clone();
        let queued = self.look(component, move |world, one| {
            if !still.get() {
                return Err(Error::stale("nobody waits for it any more"));
            }
            if one.crowded {
                return Err(Error::busy("so many locks are held there that no more are given"));
            }
            world.locks.borrow_mut().entry(key).or_default().push_back((number, client));
            Ok(())
        });
        let guard = Held { world: world.clone(), key, number, client, waits };
        Box::pin(async move {
            queued.await?;
            let time = Time(world.clone());
            loop {
                let Some((first, whose)) = world.locks.borrow()[&key].front().copied() else { break };
                if first == number {
                    break;
                }
                if world.is_dead(whose) {
                    world.fence();
                    world.locks.borrow_mut().values_mut().for_each(|queue| queue.retain(|(_, of)| *of != whose));
                    continue;
                }
                time.sleep(Duration::from_micros(20)).await;
            }
            let components = world.components.borrow();
            let left = components[component as usize].intents(component)?.iter();
            let left = left.filter(|(_, (intent, _))| intent.stripe == stripe);
            let left = left.map(|(id, (intent, _))| (IntentId(*id), intent.clone())).collect();
            Ok(Lock { guard: Box::new(guard), left })
        })
    }

    fn intend(&self, component: u32, intent: Intent) -> Asked<IntentId> {
        let client = self.client;
        self.world.count(|counts| counts.intents += 1);
        let length: usize = intent.writes.iter().map(|redo| redo.bytes.len()).sum();
        self.change(component, move |world, one| {
            // Where it goes takes room as well.
            if length as u64 + 512 > MOST_AT_ONCE.0 {
                return Err(Error::usage(format!("an intent of {length} bytes has no room in a request")));
            }
            let id = world.number();
            one.intents.insert(id, (intent, client));
            Ok(IntentId(id))
        })
    }

    fn settle(&self, component: u32, id: IntentId) -> Asked<()> {
        self.change(component, move |_, one| {
            one.intents.remove(&id.0);
            Ok(())
        })
    }

    fn intents(&self, component: u32) -> Asked<Vec<(IntentId, Intent)>> {
        let client = self.client;
        self.ask(Some(component), move |world| {
            world.fence();
            world.check_reach(component, client, true)?;
            let components = world.components.borrow();
            let left = components[component as usize].intents(component)?.iter();
            let left = left.filter(|(_, (_, of))| *of != client);
            Ok(left.map(|(id, (intent, _))| (IntentId(*id), intent.clone())).collect())
        })
    }

    fn shut_out(&self) -> Asked<()> {
        self.ask(None, |world| {
            world.fence();
            Ok(())
        })
    }

    fn missed(&self, components: Vec<u32>) -> Asked<()> {
        self.ask(None, move |world| {
            world.missing.borrow_mut().extend(components.iter().map(|component| (*component, Absence::Missed)));
            Ok(())
        })
    }

    fn missing(&self) -> Asked<Vec<(u32, Absence)>> {
        let link = Link { world: self.world.clone(), client: self.client };
        self.ask(None, move |_| Ok(link.absent()))
    }

    fn absent(&self) -> Vec<(u32, Absence)> {
        self.world.missing.borrow().iter().map(|(nth, absence)| (*nth, *absence)).collect()
    }

    fn is_slow(&self, component: u32) -> bool {
        self.world.components.borrow()[component as usize].slow
    }

    fn is_silent(&self, _: u32) -> bool {
        false
    }

    fn leave(&self, _: u32) {}

    fn filling(&self, component: u32) -> Asked<()> {
        self.ask(None, move |world| {
            // What was asked before has an older version, and is refused.
            for pending in world.pending.borrow().values().filter(|pending| pending.component == Some(component)) {
                pending.fate.set(Fate::Dropped);
            }
            let restarts = world.components.borrow()[component as usize].restarts;
            world.components.borrow_mut()[component as usize] = Component { restarts, ..Component::default() };
            world.clients.borrow_mut().values_mut().for_each(|client| {
                client.wrote.remove(&component);
            });
            world.missing.borrow_mut().insert(component, Absence::Filling);
            Ok(())
        })
    }

    fn rebuilt(&self, component: u32) -> Asked<()> {
        self.ask(None, move |world| {
            let mut missing = world.missing.borrow_mut();
            if missing.get(&component) != Some(&Absence::Filling) {
                return Err(Error::stale("it missed something while it was rebuilt"));
            }
            missing.remove(&component);
            Ok(())
        })
    }

    // Each client has a word of its own, and the last one counts: so has a file's attribute.
    fn grown(&self, size: Bytes) -> Asked<()> {
        let client = self.client;
        self.ask(None, move |world| {
            let (cuts, _) = world.length();
            world.said.borrow_mut().insert(client, (cuts, size.0));
            Ok(())
        })
    }

    fn cut(&self, size: Bytes) -> Asked<()> {
        let client = self.client;
        self.ask(None, move |world| {
            let (cuts, _) = world.length();
            world.said.borrow_mut().insert(client, (cuts + 1, size.0));
            Ok(())
        })
    }

    fn length(&self) -> Asked<Bytes> {
        self.ask(None, |world| Ok(Bytes(world.length().1)))
    }
}

struct Held {
    world: Rc<World>,
    key: (u32, u64),
    number: u64,
    client: u64,
    waits: Rc<Cell<bool>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.waits.set(false);
        // Whoever is handed the lock of a client that is gone sees to it.
        if !self.world.is_dead(self.client)
            && let Ok(mut locks) = self.world.locks.try_borrow_mut()
            && let Some(queue) = locks.get_mut(&self.key)
        {
            queue.retain(|(number, _)| *number != self.number);
        }
    }
}
