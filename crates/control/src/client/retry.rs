//! Asking again: what that may help, when, and what is said in the end.
//!
//! Between two tries there is a pause that doubles, up to [`LONGEST`], and of which half is by chance, so that clients who
//! lost the same manager do not come back at the same moment.

use super::Asking;
use super::request::Request;
use crate::MOST_MESSAGE;
use crate::status::Failure;
use forebay_env::real::{clock, random};
use forebay_model::{Error, Kind, Result};
use prost::Message as _;
use std::future::Future;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// The answer to a request, however often it has to be asked.
pub(super) async fn answered<R: Request>(asking: &Asking, request: R) -> Result<R::Answer> {
    let message = request.to_proto();
    let size = message.encoded_len();
    if size > MOST_MESSAGE {
        return Err(Error::usage(format!(
            "the request has {size} bytes, and one message has {MOST_MESSAGE} at most; ask for less at a time"
        )));
    }
    again(asking, |left| asking.link.ask::<R>(message.clone(), left)).await
}

/// That there is a session.
pub(super) async fn connected(asking: &Asking) -> Result<()> {
    again(asking, |_| async { asking.link.session().await.map(|_| ()) }).await
}

/// Tries until it is answered, or the patience is over. Each try is told how much is left.
async fn again<T, F>(asking: &Asking, mut once: impl FnMut(Duration) -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, Failure>>,
{
    let start = clock::now();
    let mut last = None;
    let trying = async {
        let _room = asking.room.acquire().await.expect("nobody closes it");
        let mut pause = SHORTEST;
        loop {
            let left = asking.patience.saturating_sub(clock::now().since(start));
            match once(left).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Answered(error)) => return Err(error),
                // The first time it is only that the session is over, which is mended at once.
                Err(failure @ Failure::NoSession(_)) if last.is_none() => {
                    last = Some(failure);
                    continue;
                }
                Err(failure) => last = Some(failure),
            }
            let half = pause / 2;
            tokio::time::sleep(half + half.mul_f64(by_chance())).await;
            pause = (pause * 2).min(LONGEST);
        }
    };
    match tokio::time::timeout(asking.patience, trying).await {
        Ok(outcome) => outcome,
        Err(_) => Err(given_up(asking, last)),
    }
}

/// What is said when the patience is over.
fn given_up(asking: &Asking, last: Option<Failure>) -> Error {
    let why = match last {
        // The manager is there, and has no room.
        Some(Failure::Again(error)) if error.kind == Kind::Busy => return error,
        Some(Failure::Again(error) | Failure::NoSession(error) | Failure::Answered(error)) => error.message,
        Some(Failure::Broken(why)) => why,
        None => "no answer came".to_string(),
    };
    let (address, seconds) = (asking.link.address(), asking.patience.as_secs_f64());
    Error::disconnected(format!(
        "the manager at {address} was tried for {seconds} s in vain: {why}; check that it runs and can be reached. A change \
         may have been done: ask for it again under the same number"
    ))
}

/// From 0 to 1.
fn by_chance() -> f64 {
    random::number() as f64 / u64::MAX as f64
}
