//! Where others reach a manager: a loop that takes what is asked, in any order from anybody, and has it done.
//!
//! Changes that wait together become one commit, so that what each of them costs is its share of one wait for the device. What
//! is asked and reported is answered between two commits. Always: a round takes a bounded number of errands, so that neither
//! changes nor what time alone changes wait for an end of the questions. The loop ends when it is told to, or when the manager
//! may not be asked any more: then whoever runs it opens another one.

use crate::copies::Copies;
use crate::manager::{Asked, Manager, Now};
use crate::principal::Principal;
use forebay_env::Clock;
use forebay_env::mailbox::{Receiver, Sender};
use forebay_env::pipe::{Inlet, pipe};
use forebay_model::{Error, Moment, Result};
use forebay_wire::control::access::{Challenge, Hello, Proven};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Question, Reply};
use std::rc::Rc;
use std::time::Duration;

/// The most that is taken in one round, and so the most changes of one commit.
const MOST_TOGETHER: usize = 256;
/// How often it is looked at what time alone changes.
const TICK: Duration = Duration::from_secs(1);

/// So many wait for something at most; others are told that there is nothing yet, and ask again.
const MOST_WAITING: usize = 128;
/// For so long somebody waits before it is told that there is nothing yet.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Somebody who waits for something.
struct Waiting {
    by: Principal,
    question: Question,
    answer: Inlet<Result<Reply>>,
    since: Moment,
}

/// What the manager is asked, and where the answer goes.
pub enum Errand {
    /// To change something.
    Change(Asked, Inlet<Result<Reply>>),
    /// A question of somebody.
    Ask(Principal, Question, Inlet<Result<Reply>>),
    /// How a node is.
    Report(Principal, Report, Inlet<Result<Reported>>),
    /// Against what a client has to prove itself.
    Challenge(Inlet<Challenge>),
    /// Who said hello.
    Authenticate(Hello, Challenge, Proven, Inlet<Result<Principal>>),
    /// To do what is due.
    Tick,
    /// To end, when all that was asked before is done.
    End,
}

/// A way to a manager's loop, for any thread. Clones lead to the same one.
#[derive(Clone)]
pub struct Desk {
    errands: Sender<Errand>,
}

impl Desk {
    /// Leads to the loop that has the other end.
    pub fn new(errands: Sender<Errand>) -> Desk {
        Desk { errands }
    }

    /// Has something changed.
    pub async fn change(&self, by: Principal, call: Call) -> Result<Reply> {
        self.ask_by(|answer| Errand::Change(Asked { by, call }, answer)).await?
    }

    /// Asks.
    pub async fn ask(&self, by: Principal, question: Question) -> Result<Reply> {
        self.ask_by(|answer| Errand::Ask(by, question, answer)).await?
    }

    /// Reports.
    pub async fn report(&self, by: Principal, report: Report) -> Result<Reported> {
        self.ask_by(|answer| Errand::Report(by, report, answer)).await?
    }

    /// Against what a client has to prove itself.
    pub async fn challenge(&self) -> Result<Challenge> {
        self.ask_by(Errand::Challenge).await
    }

    /// Who said hello.
    pub async fn authenticate(&self, hello: Hello, challenge: Challenge, proven: Proven) -> Result<Principal> {
        self.ask_by(|answer| Errand::Authenticate(hello, challenge, proven, answer)).await?
    }

    /// Has done what is due; false if nobody does it any more.
    pub fn tick(&self) -> bool {
        self.errands.send(Errand::Tick).is_ok()
    }

    /// Has the loop ended, when all that was asked before is done.
    pub fn end(&self) {
        // One that has ended needs not be told.
        drop(self.errands.send(Errand::End));
    }

    /// As [`Desk::change`], waiting on this thread.
    pub fn change_blocking(&self, by: Principal, call: Call) -> Result<Reply> {
        let (answer, mut outlet) = pipe(0);
        let gone = || Error::disconnected("the manager has ended; ask again when one is there");
        self.errands.send(Errand::Change(Asked { by, call }, answer)).map_err(|_| gone())?;
        outlet.receive_blocking().ok_or_else(gone)?
    }

    async fn ask_by<T>(&self, errand: impl FnOnce(Inlet<T>) -> Errand) -> Result<T> {
        let (answer, mut outlet) = pipe(0);
        let gone = || Error::disconnected("the manager has ended; ask again when one is there");
        self.errands.send(errand(answer)).map_err(|_| gone())?;
        outlet.receive().await.ok_or_else(gone)
    }
}

/// Has everything done that is asked of `manager`. Whoever runs it sends [`Errand::Tick`] every second. What was changed is in
/// `copies` before it is answered.
pub async fn serve(
    manager: &mut Manager,
    clock: Rc<dyn Clock>,
    errands: &mut Receiver<Errand>,
    copies: &mut Copies,
) -> Result<Ended> {
    // What the manager before this one did not come to.
    copies.tick(manager).await?;
    let mut ticked = Moment::default();
    let mut ends = false;
    let mut changes: Vec<(Asked, Inlet<Result<Reply>>)> = Vec::new();
    let mut waiting: Vec<Waiting> = Vec::new();
    while let Some(first) = errands.receive().await {
        let mut next = Some(first);
        let (mut taken, mut is_reported) = (0, false);
        while let Some(errand) = next.take() {
            taken += 1;
            let now = Now { wall: clock.wall(), moment: clock.now() };
            match errand {
                Errand::Change(asked, answer) => changes.push((asked, answer)),
                // Nobody waits for it any more, which is seen of who is in this process: what came over the network is done to its end.
                Errand::Ask(_, _, answer) if !answer.is_open() => {}
                Errand::Report(_, _, answer) if !answer.is_open() => {}
                Errand::Ask(by, question, answer) => {
                    let is_full = waiting.len() >= MOST_WAITING;
                    match manager.ask_or_wait(now, &by, &question, is_full) {
                        Ok(None) => waiting.push(Waiting { by, question, answer, since: now.moment }),
                        Ok(Some(reply)) => tell(answer, Ok(reply)).await,
                        Err(error) => tell(answer, Err(error)).await,
                    }
                }
                Errand::Report(by, report, answer) => {
                    is_reported = true;
                    tell(answer, manager.report(now, &by, &report)).await;
                }
                Errand::Challenge(answer) => tell(answer, manager.challenge()).await,
                Errand::Authenticate(hello, challenge, proven, answer) => {
                    tell(answer, manager.authenticate(&hello, &challenge, &proven)).await;
                }
                Errand::Tick => {}
                Errand::End => ends = true,
            }
            if taken < MOST_TOGETHER {
                next = errands.receive_now();
            }
        }
        let now = Now { wall: clock.wall(), moment: clock.now() };
        let (asked, answers): (Vec<Asked>, Vec<_>) = changes.drain(..).unzip();
        if !asked.is_empty() {
            let results = manager.apply(now, &asked);
            copies.keep(manager).await?;
            for (answer, result) in answers.into_iter().zip(results) {
                tell(answer, result).await;
            }
        } else if is_reported && copies.are_none() {
            // A target that can have one may have come to be there.
            copies.keep(manager).await?;
        }
        if now.moment.since(ticked) >= TICK {
            ticked = now.moment;
            manager.wait_here(now, waiting.iter().map(|one| (&one.by, &one.question)));
            manager.tick(now)?;
            copies.tick(manager).await?;
            manager.has_news();
            answer_waiting(manager, now, &mut waiting).await;
        } else if manager.has_news() {
            answer_waiting(manager, now, &mut waiting).await;
        }
        if ends {
            return Ok(Ended::Told);
        }
        if !manager.is_open() {
            return Ok(Ended::Closed);
        }
    }
    Ok(Ended::Told)
}

/// Answers those for whom there is something, or who have waited for long.
async fn answer_waiting(manager: &mut Manager, now: Now, waiting: &mut Vec<Waiting>) {
    for one in std::mem::take(waiting) {
        let is_over = now.moment.since(one.since) >= LONGEST_WAIT;
        match manager.answer_now(now, &one.by, &one.question) {
            Ok(None) if !is_over => waiting.push(one),
            Ok(None) => tell(one.answer, Ok(Manager::nothing_yet(&one.question))).await,
            Ok(Some(reply)) => tell(one.answer, Ok(reply)).await,
            Err(error) => tell(one.answer, Err(error)).await,
        }
    }
}

/// Why a manager's loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to, or nobody is there to ask.
    Told,
    /// The manager could not commit, or another one has taken over: this one may not be asked any more.
    Closed,
}

/// While no manager is there: whoever asked so far learns of it and may ask again. Whether the loop was told to end.
pub fn refuse_all(errands: &mut Receiver<Errand>) -> bool {
    // What is dropped without an answer is answered with that.
    std::iter::from_fn(|| errands.receive_now()).any(|errand| matches!(errand, Errand::End))
}

/// Answers; whoever asked may be gone.
async fn tell<T>(answer: Inlet<T>, result: T) {
    answer.send(result, 0).await;
}

#[cfg(test)]
mod tests;
