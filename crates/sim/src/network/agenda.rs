//! What happens next in a network. Of a queue of segments only the first is here, so that the heap is as large as there
//! are links at work, and not segments under way.

use super::segment::SocketId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Where something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The first segment of a machine's link reaches the switch.
    Up(u32),
    /// The first segment of a port of the switch reaches its machine.
    Down(u32),
    /// The first segment of a machine to itself reaches it.
    Local(u32),
    /// A delayed segment reaches the switch.
    Stray(u64),
    /// A timer of a connection.
    Timer(SocketId),
}

/// Events in the order of time; those of one moment in the order in which they were put in.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, Place)>>,
    serial: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: u64, place: Place) {
        self.heap.push(Reverse((at, self.serial, place)));
        self.serial += 1;
    }

    /// When the next event is.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event and puts the one that follows it at the same place, which `following` tells, in its stead.
    pub(super) fn take(&mut self, following: impl FnOnce(Place) -> Option<u64>) -> Option<(u64, Place)> {
        let mut top = self.heap.peek_mut()?;
        let Reverse((at, _, place)) = *top;
        match following(place) {
            Some(next) => {
                *top = Reverse((next, self.serial, place));
                self.serial += 1;
            }
            None => {
                PeekMut::pop(top);
            }
        }
        Some((at, place))
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}
