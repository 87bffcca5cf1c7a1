//! What becomes of an I/O: it is begun, and when the mechanics are done with it, does to the content what its fate is.

use super::faults::Fate;
use super::flight::InFlight;
use super::mechanics::{Action, Now, Request};
use super::unflushed::{Part, write_part};
use super::{DiskSpec, Inner, Op, State};
use crate::timeline::Handler;
use forebay_model::{Bytes, Error, Result};
use std::rc::Rc;
use std::task::Waker;

/// Marks an event as a move of the mechanism rather than the end of an I/O.
const MOVE: u64 = 1 << 63;

impl Inner {
    /// Begins an I/O: the mechanics say when it ends.
    pub(super) fn begin(self: &Rc<Self>, state: &mut State, io: InFlight) {
        let (op, offset) = (io.op, io.offset);
        let length = if op == Op::Flush { 0 } else { io.bytes().len() as u64 };
        let id = state.next_id;
        state.next_id += 1;
        state.in_flight.insert(id, io);
        self.timeline.note(&[self.number, op as u64, self.timeline.nanos(), offset, length]);
        let now = self.now(state);
        state.mechanics.submit(now, Request { id, op, offset, length }, &mut state.actions);
        self.schedule(state);
        if let Some(left) = &mut state.cut_after {
            *left -= 1;
            if *left == 0 {
                state.cut_after = None;
                self.timeline.halt();
            }
        }
    }

    fn now(&self, state: &State) -> Now {
        let nanos = self.timeline.nanos();
        Now { nanos, slowness: state.faults.slowness(nanos) }
    }

    /// Puts what the mechanism asked for on the timeline.
    fn schedule(self: &Rc<Self>, state: &mut State) {
        for action in state.actions.drain(..) {
            match action {
                Action::Done(id, at) => self.timeline.call_at(at, self.clone(), id),
                Action::Move(number, at) => self.timeline.call_at(at, self.clone(), MOVE | number),
            }
        }
    }

    /// Does to the content what an I/O that ends now does; its result, and a hash of the bytes.
    fn carry_out(&self, state: &mut State, io: &mut InFlight) -> (Result<()>, u64) {
        let name = &self.geometry.name;
        let length = io.bytes().len() as u64;
        let range = io.offset..io.offset + length;
        let failed = |why: &str| {
            let what = match io.op.doing() {
                Some(doing) => format!("{doing} {length} bytes at offset {} of {name}", range.start),
                None => format!("flushing {name}"),
            };
            Err(Error::device(format!("{what} failed: {why}")))
        };
        const TOLD: &str = "it was told to";
        let dead = state.faults.is_dead(self.timeline.nanos());
        match io.op {
            Op::Read => {
                if dead || io.fate == Fate::Fails {
                    return (failed(TOLD), 0);
                }
                if let Some(sector) = state.faults.unreadable(&range) {
                    return (failed(&format!("the sector at {sector} is unreadable")), 0);
                }
                let buffer = io.buffer.as_deref_mut().unwrap_or_default();
                state.store.read(io.offset, buffer);
                (Ok(()), 0)
            }
            Op::Write => {
                if dead {
                    return (failed(TOLD), 0);
                }
                let hash = match io.fate {
                    Fate::Healthy => {
                        state.faults.rewritten(&range);
                        Self::put(&self.spec, state, io.offset, io.bytes())
                    }
                    Fate::Misdirected(to) => {
                        let to = to.min(self.spec.size.0 - length);
                        Self::put(&self.spec, state, to, io.bytes())
                    }
                    Fate::Lost => 0,
                    Fate::Torn | Fate::Fails => {
                        write_part(&mut state.store, io.offset, io.bytes(), Part::Scattered, &mut state.random);
                        0
                    }
                };
                (if io.fate == Fate::Fails { failed(TOLD) } else { Ok(()) }, hash)
            }
            Op::Flush => {
                if dead || io.fate == Fate::Fails {
                    return (failed(TOLD), 0);
                }
                match io.flushed {
                    true => state.unflushed.settle_one(&mut state.store, io.mark),
                    false => state.unflushed.settle(&mut state.store, io.mark),
                }
                (Ok(()), 0)
            }
        }
    }

    fn put(spec: &DiskSpec, state: &mut State, offset: u64, bytes: &[u8]) -> u64 {
        match spec.write_cache {
            Some(_) => state.unflushed.write(&mut state.store, offset, bytes),
            None => state.store.write(offset, bytes),
        }
    }

    /// Ends an I/O; its waker, to be called when the state is free again.
    fn finish(self: &Rc<Self>, state: &mut State, id: u64) -> Option<Waker> {
        let mut io = state.in_flight.remove(&id)?;
        let (result, hash) = self.carry_out(state, &mut io);
        self.timeline.note(&[self.number, id, self.timeline.nanos(), hash, u64::from(result.is_ok())]);
        let bytes = Bytes(io.bytes().len() as u64);
        let flushes = io.flushed && io.op == Op::Write && result.is_ok();
        let counters = &mut state.counters;
        match io.op {
            _ if result.is_err() => counters.failed += 1,
            Op::Read => (counters.reads, counters.bytes_read) = (counters.reads + 1, counters.bytes_read + bytes),
            Op::Write => {
                (counters.writes, counters.bytes_written) = (counters.writes + 1, counters.bytes_written + bytes);
                counters.between_writes += Bytes(io.offset.abs_diff(state.write_end));
                state.write_end = io.offset + bytes.0;
            }
            Op::Flush => counters.flushes += 1,
        }
        if flushes {
            // A write that did not arrive as a whole is not made durable by it, and the one before that is not either.
            let arrived = matches!(io.fate, Fate::Healthy | Fate::Misdirected(_));
            let mark = if arrived { state.unflushed.mark() } else { 0 };
            let fate = state.faults.fate(Op::Flush);
            self.begin(state, InFlight { op: Op::Flush, offset: 0, fate, mark, ..io });
            return None;
        }
        let mut ticket = io.ticket.borrow_mut();
        ticket.outcome = Some((io.buffer.take(), result));
        ticket.waker.take()
    }
}

/// Events hold the disk itself, so that it lives while anything is under way in it.
impl Handler for Inner {
    fn fire(self: Rc<Self>, token: u64) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let waker = if token & MOVE != 0 {
            let now = self.now(state);
            state.mechanics.moved(now, token & !MOVE, &mut state.actions);
            self.schedule(state);
            None
        } else {
            self.finish(state, token)
        };
        drop(guard);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
