//! How long a node waits for one client: to say hello, to go on with a frame that it began, and to take what it asked for.
//!
//! Time is up when nothing of what is waited for has moved for a while, and for a hello however it comes; frames about
//! something else do not count, nor does the time in which the node itself does not listen.

use super::answers::Answers;
use forebay_env::Clock;
use forebay_model::Error;
use forebay_wire::sink::FrameSink;
use forebay_wire::source::FrameSource;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What is waited for.
pub(super) struct Patience {
    answers: Rc<Answers>,
    sink: FrameSink,
    /// Within a frame.
    begun: Rc<Cell<bool>>,
    came: Rc<Cell<u64>>,
    is_met: Cell<bool>,
    /// The node does not listen, and how often it did not.
    rests: Cell<u64>,
    rested: Cell<u64>,
}

/// The node does not listen until this is dropped.
pub(super) struct Rest(Rc<Patience>);

impl Patience {
    pub(super) fn new(source: &FrameSource, answers: Rc<Answers>, sink: FrameSink) -> Rc<Patience> {
        let (begun, came) = (source.begun(), source.came());
        let (is_met, rests, rested) = (Cell::new(false), Cell::new(0), Cell::new(0));
        Rc::new(Patience { answers, sink, begun, came, is_met, rests, rested })
    }

    /// The client has said hello.
    pub(super) fn met(&self) {
        self.is_met.set(true);
    }

    /// The node does something else first.
    pub(super) fn rest(self: &Rc<Self>) -> Rest {
        self.rests.set(self.rests.get() + 1);
        Rest(self.clone())
    }

    /// Ends when the client has tried the node's patience.
    pub(super) async fn lost(self: Rc<Self>, clock: &Rc<dyn Clock>, patience: Duration) -> Error {
        let (mut read, mut taken, mut unmet) = (None, None, None);
        loop {
            clock.sleep(patience).await;
            let is_listening = self.rests.get() == 0;
            let awaited = is_listening && self.begun.get();
            let reading = awaited.then(|| (self.came.get(), self.rested.get()));
            let kept = self.answers.is_waiting() || self.sink.is_waiting();
            let taking = kept.then(|| (self.answers.progress(), self.sink.progress()));
            // Otherwise whoever sends a byte now and then would be here for ever without saying who it is.
            let waiting = (is_listening && !self.is_met.get()).then(|| self.rested.get());
            if waiting.is_some() && waiting == unmet {
                return Error::disconnected(format!("the peer did not say hello for {patience:?}"));
            }
            if (reading.is_some() && reading == read) || (taking.is_some() && taking == taken) {
                return Error::disconnected(format!("the peer did not go on for {patience:?}"));
            }
            (read, taken, unmet) = (reading, taking, waiting);
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.rests.set(self.0.rests.get() - 1);
        self.0.rested.set(self.0.rested.get() + 1);
    }
}
