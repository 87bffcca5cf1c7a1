//! A manager for tests: it knows keys, and answers as a test says.

use crate::handler::{Handler, HandlerFuture};
use crate::server::{ControlServer, ServerOptions};
use forebay_env::real::random;
use forebay_model::{Error, Result};
use forebay_wire::control::access::{Challenge, Hello, Proven, User, is_same, proof};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Question, Reply};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// The key of user 7.
pub(crate) const KEY: u64 = 70;
/// Its secret.
pub(crate) const SECRET: [u8; 32] = [7; 32];

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) user: u32,
    pub(crate) client: u64,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Call(Call),
    Question(Question),
}

pub(crate) type Answers = dyn Fn(&Who, Asked) -> HandlerFuture<Reply> + Send + Sync;

/// Keys with their secrets and users; shared with the test, which may take some back.
#[derive(Clone)]
pub(crate) struct Keys(Arc<Mutex<BTreeMap<u64, Known>>>);

struct Known {
    secret: [u8; 32],
    user: u32,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys(Arc::new(Mutex::new(BTreeMap::from([(KEY, Known { secret: SECRET, user: 7 })]))))
    }

    pub(crate) fn revoke(&self, key: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// One more key, of a user.
    pub(crate) fn issue(&self, key: u64, secret: [u8; 32], user: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Known { secret, user });
    }

    fn user(&self, hello: &Hello, challenge: &Challenge, proven: &Proven) -> Option<u32> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(&hello.key)?;
        is_same(&proof(&known.secret, hello, challenge), &proven.proof).then_some(known.user)
    }
}

pub(crate) struct Fake {
    pub(crate) keys: Keys,
    pub(crate) answers: Box<Answers>,
}

impl Handler for Fake {
    type Principal = Who;

    fn user(&self, by: &Who) -> u32 {
        by.user
    }

    fn challenge(&self) -> HandlerFuture<Challenge> {
        let mut nonce = [0; 16];
        random::fill(&mut nonce);
        now(Ok(Challenge { nonce }))
    }

    fn authenticate(&self, hello: Hello, challenge: Challenge, proven: Proven) -> HandlerFuture<Who> {
        let user = self.keys.user(&hello, &challenge, &proven);
        let who = user.map(|user| Who { user, client: hello.client });
        now(who.ok_or_else(|| Error::forbidden("the access key does not allow this client in; check it")))
    }

    fn call(&self, by: Arc<Who>, call: Call) -> HandlerFuture<Reply> {
        (self.answers)(&by, Asked::Call(call))
    }

    fn ask(&self, by: Arc<Who>, question: Question) -> HandlerFuture<Reply> {
        (self.answers)(&by, Asked::Question(question))
    }

    fn report(&self, by: Arc<Who>, report: Report) -> HandlerFuture<Reported> {
        now(Ok(Reported {
            epoch: report.node,
            least_epoch: u64::from(by.user),
            targets: vec![],
            wall: report.wall,
            shut_out: vec![],
        }))
    }
}

/// An answer that is there at once.
pub(crate) fn now<T: Send + 'static>(answer: Result<T>) -> HandlerFuture<T> {
    Box::pin(std::future::ready(answer))
}

/// An answer that never comes.
pub(crate) fn never() -> HandlerFuture<Reply> {
    Box::pin(std::future::pending())
}

/// What the test answers, which is given the means to; done when it drops that.
pub(crate) fn when_told(test: &UnboundedSender<oneshot::Sender<Result<Reply>>>) -> HandlerFuture<Reply> {
    let (answer, answered) = oneshot::channel();
    test.send(answer).expect("the test goes on");
    Box::pin(async move { answered.await.unwrap_or(Ok(Reply::Done)) })
}

/// A server at `address` that answers so.
pub(crate) fn serve_at(
    address: &str,
    keys: &Keys,
    options: ServerOptions,
    answers: impl Fn(&Who, Asked) -> HandlerFuture<Reply> + Send + Sync + 'static,
) -> ControlServer {
    let fake = Fake { keys: keys.clone(), answers: Box::new(answers) };
    ControlServer::start(address, fake, options).expect("it listens")
}

/// A server that does whatever it is asked.
pub(crate) fn serve(options: ServerOptions) -> ControlServer {
    serve_at("127.0.0.1:0", &Keys::new(), options, |_, _| now(Ok(Reply::Done)))
}

/// Some question.
pub(crate) fn question() -> Question {
    Question::Map
}

/// An answer that takes more than so many bytes.
pub(crate) fn large_reply(bytes: usize) -> Reply {
    Reply::Users(vec![User { user: 1, name: "x".repeat(bytes), groups: vec![] }])
}
