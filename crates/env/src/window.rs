//! What is under way on a connection, within a window: one thread takes requests in, any others see to what comes of
//! them, and one takes that out again. A request has its room from before memory is taken for it until what came of it
//! is out of the way.

use crate::watched::Watched;
use std::collections::VecDeque;
use std::sync::Arc;

/// The window. It always has room for one request, whatever that weighs.
pub struct Window<T> {
    state: Watched<State<T>>,
    most: usize,
    weight: usize,
}

struct State<T> {
    ready: VecDeque<(T, usize)>,
    /// Rooms, and what they weigh.
    count: usize,
    weight: usize,
    closed: bool,
}

/// Room for one request; there is room for others again when it is dropped.
pub struct Room<T> {
    window: Arc<Window<T>>,
    weight: usize,
    /// It goes with what came of the request.
    moved: bool,
}

impl<T> Window<T> {
    /// A window for `most` requests of `weight` together.
    pub fn new(most: usize, weight: usize) -> Arc<Window<T>> {
        let state = State { ready: VecDeque::new(), count: 0, weight: 0, closed: false };
        Arc::new(Window { state: Watched::new(state), most, weight })
    }

    /// Waits until there is room for a request of `weight`.
    pub fn make_room(self: &Arc<Self>, weight: usize) -> Room<T> {
        let mut state = self.state.wait_while(self.state.lock(), |state| !self.has_room(state, weight));
        state.count += 1;
        state.weight += weight;
        self.room(weight)
    }

    fn has_room(&self, state: &State<T>, weight: usize) -> bool {
        state.count == 0 || state.count < self.most && state.weight + weight <= self.weight
    }

    /// Waits for what came of a request, which still has its room; `None` once the window is closed and nobody has room
    /// any more.
    pub fn take(self: &Arc<Self>) -> Option<(T, Room<T>)> {
        let none_yet = |state: &mut State<T>| state.ready.is_empty() && !(state.closed && state.count == 0);
        let (thing, weight) = self.state.wait_while(self.state.lock(), none_yet).ready.pop_front()?;
        Some((thing, self.room(weight)))
    }

    /// Nobody makes room any more.
    pub fn close(&self) {
        self.state.change(|state| state.closed = true);
    }

    fn room(self: &Arc<Self>, weight: usize) -> Room<T> {
        Room { window: self.clone(), weight, moved: false }
    }
}

impl<T> Room<T> {
    /// This is what came of the request: [`Window::take`] has it in its turn.
    pub fn fill(mut self, thing: T) {
        self.moved = true;
        self.window.state.change(|state| state.ready.push_back((thing, self.weight)));
    }
}

impl<T> Drop for Room<T> {
    fn drop(&mut self) {
        if !self.moved {
            self.window.state.change(|state| {
                state.count -= 1;
                state.weight -= self.weight;
            });
        }
    }
}

#[cfg(test)]
mod tests;
