//! Nodes that take requests and answer none.
//!
//! Whatever comes over a connection says that the node is there. If nothing does for half of patience though something was asked,
//! the node is asked whether it is there, which one that has much to do answers as well. A node that says nothing to that for the
//! other half is *silent*: who can do without it does not wait any longer. Who cannot goes on waiting, as the network may have been
//! cut for a moment: the connection is ended only when the node has been silent for longer than that.
//!
//! A machine that lost its power and is back knows nothing of the connection, which finds that out when it sends something again,
//! after seconds. So whether a silent node says hello over another connection is tried all the time. If it does, and still says
//! nothing over this one, this one is ended.

use super::{Nodes, PAUSE, Shared, State};
use forebay_env::race::{First, race};
use forebay_model::{Error, Moment};
use forebay_wire::link::Link;
use std::cell::Cell;
use std::rc::{Rc, Weak};

/// In so many parts of patience it is looked whether a node is silent.
const LOOKS: u32 = 10;
/// So many parts of patience each take to find out whether one that is silent is back.
const TRIES: u32 = 5;

impl Nodes {
    /// Whether a node is silent: it was asked something as long ago as patience lasts, and nothing has come from it since. One to
    /// which the connection ended since then is so as long as another one is tried in vain.
    pub(crate) fn is_silent(&self, address: &str) -> bool {
        let now = self.shared.env.clock.now();
        if self.shared.silent.borrow().get(address).is_none_or(|until| now >= *until) {
            return false;
        }
        match self.shared.links.borrow().get(address) {
            Some(State::Open(link)) => link.ended().is_none(),
            // One that is there answers at once.
            Some(State::Connecting(attempt)) => now >= attempt.begun + PAUSE,
            Some(State::Failed(_)) => true,
            None => false,
        }
    }
}

/// The question whether a node is there.
struct Question {
    /// How many bytes have gone when it has.
    end: u64,
    /// When it was asked; if other bytes go before it, when the last of them went.
    asked: Moment,
}

/// Whether a silent node says hello over another connection.
#[derive(Clone, Copy, Default)]
enum Greeting {
    /// That is not being tried.
    #[default]
    None,
    /// It is.
    Asked,
    /// It does.
    Answered,
}

/// Tries whether a node says hello over another connection, which ends then.
fn greet(nodes: &Weak<Shared>, address: &str, greeting: &Rc<Cell<Greeting>>) {
    let Some(nodes) = nodes.upgrade() else { return };
    greeting.set(Greeting::Asked);
    let (address, greeting) = (address.to_string(), greeting.clone());
    nodes.env.spawner.clone().detach(async move {
        // It replaces none. Who asks for a connection of a machine that is not there yet asks more and more seldom, so another one is
        // asked for soon.
        let asked = race(nodes.greet(&address, None), nodes.env.clock.sleep(nodes.patience / TRIES)).await;
        let is_answered = matches!(asked, First::Left(Ok(_)));
        greeting.set(if is_answered { Greeting::Answered } else { Greeting::None });
    });
}

/// Looks whether the node at the other end of a link is silent, as long as there is the link, and ends it if it stays so, or if nobody
/// has use for it any more.
pub(super) async fn listen(nodes: Weak<Shared>, address: String, link: Link) {
    let env = nodes.upgrade().map(|nodes| (nodes.env.clock.clone(), nodes.patience));
    let Some((clock, patience)) = env else { return };
    let (mut before, mut heard, mut question) = (link.moved(), clock.now(), None);
    let mut greeting: Rc<Cell<Greeting>> = Rc::default();
    let silent = |until: Option<Moment>| {
        let Some(nodes) = nodes.upgrade() else { return };
        let mut silent = nodes.silent.borrow_mut();
        match until {
            Some(until) => silent.insert(address.clone(), until),
            None => silent.remove(&address),
        };
    };
    while link.ended().is_none() {
        clock.sleep(patience / LOOKS).await;
        if nodes.strong_count() == 0 {
            // What was asked may still go out, but not for ever.
            clock.sleep(patience).await;
            return link.abandon(&Error::disconnected("nobody has use for the connection any more"));
        }
        if link.ended().is_some() {
            // One that was silent is so until it says hello over another one.
            return;
        }
        let now = clock.now();
        let (came, gone) = link.moved();
        let (has_come, has_gone) = (came > before.0, gone > before.1);
        before = (came, gone);
        if has_come || !link.is_waiting() {
            (heard, question) = (now, None);
            greeting = Rc::default();
            silent(None);
            continue;
        }
        let still = now.since(heard);
        let Some(Question { end, asked }) = &mut question else {
            if still >= patience / 2 {
                // Whatever comes counts, the answer is as good as others.
                drop(link.ping());
                question = Some(Question { end: link.left(), asked: now });
            }
            continue;
        };
        if has_gone && gone < *end {
            *asked = now;
        }
        let unanswered = now.since(*asked);
        if still >= patience && unanswered >= patience / 2 {
            silent(Some(now + 2 * patience));
            match greeting.get() {
                Greeting::None => greet(&nodes, &address, &greeting),
                Greeting::Asked => {}
                Greeting::Answered => link.abandon(&Error::disconnected(
                    "the node is there and does not answer over this connection: it was started again, or much was lost on the way",
                )),
            }
        }
        if still >= patience * 5 / 2 && unanswered >= 2 * patience {
            link.abandon(&Error::disconnected("the node takes requests and answers none: it hangs, or is cut off"));
        }
    }
}
