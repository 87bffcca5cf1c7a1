//! The client: one handle for all who ask in the name of one key.
//!
//! It connects and proves who it is by itself, as often as it takes. What is asked is asked again until it is answered or
//! [`ClientOptions::patience`] is over; a change under the same number each time, so that it is done once at most. A
//! future that is dropped gives up, and whether the change was done is not known.

mod background;
mod link;
mod numbers;
mod request;
mod retry;

use crate::tls::ClientTls;
use background::Background;
use forebay_env::real::random;
use forebay_model::Result;
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Change, Question, Reply};
use link::Link;
use numbers::Numbers;
use request::Request;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Its id.
    pub key: u64,
    /// Its secret.
    pub secret: [u8; 32],
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKey {{ key: {}, secret: not told }}", self.key)
    }
}

/// How a client is to be.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Whom it trusts; without, it asks on this machine alone.
    pub tls: Option<ClientTls>,
    /// Its number, if it was there before; if not, one by chance.
    pub client: Option<u64>,
    /// The number of the first change that [`ControlClient::change`] asks for: higher than any that this client has used.
    pub sequence: u64,
    /// How long something is asked again and again before that is an error.
    pub patience: Duration,
    /// How much is asked at the same time; more waits.
    pub at_once: usize,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { tls: None, client: None, sequence: 1, patience: Duration::from_secs(30), at_once: 64 }
    }
}

/// Asks the manager. Cheap to clone; when the last one is dropped, what was asked is given up.
#[derive(Clone)]
pub struct ControlClient {
    shared: Arc<Shared>,
}

struct Shared {
    asking: Arc<Asking>,
    background: Background,
    numbers: Numbers,
}

/// What a request needs while it is under way.
struct Asking {
    link: Link,
    patience: Duration,
    room: Semaphore,
}

impl ControlClient {
    /// A client of the manager at `address` (`host:port`), once it has answered. [`forebay_model::Kind::Forbidden`] if the
    /// key or its secret is wrong; [`forebay_model::Kind::Disconnected`] if nobody answers for as long as there is
    /// patience; [`forebay_model::Kind::Usage`] if the address is another machine's and there is no TLS.
    pub async fn connect(address: &str, key: AccessKey, options: ClientOptions) -> Result<ControlClient> {
        let client = ControlClient::toward(address, key, options)?;
        let asking = client.shared.asking.clone();
        client.shared.background.run(async move { retry::connected(&asking).await }).await?;
        Ok(client)
    }

    /// A client of the manager at `address`, whether or not that answers now: it is connected to when something is asked.
    /// [`forebay_model::Kind::Usage`] if there cannot be one.
    pub fn toward(address: &str, key: AccessKey, options: ClientOptions) -> Result<ControlClient> {
        let client = options.client.unwrap_or_else(random::number);
        let link = Link::new(address, key, client, options.tls.as_ref())?;
        let asking = Arc::new(Asking { link, patience: options.patience, room: Semaphore::new(options.at_once) });
        let background = Background::start()?;
        let numbers = Numbers::from(options.sequence);
        Ok(ControlClient { shared: Arc::new(Shared { asking, background, numbers }) })
    }

    /// Asks for a change under a number of the caller's. Asked for again, under that number, it is not done again.
    pub async fn call(&self, call: Call) -> Result<Reply> {
        self.ask_for(call).await
    }

    /// Asks for a change under the next number of this client, as soon as that cannot make the number of another one too low
    /// that is still asked for.
    pub async fn change(&self, change: Change) -> Result<Reply> {
        let number = self.shared.numbers.next().await;
        self.call(Call { sequence: number.sequence(), change }).await
    }

    /// Asks a question.
    pub async fn ask(&self, question: Question) -> Result<Reply> {
        self.ask_for(question).await
    }

    /// Says how a node is.
    pub async fn report(&self, report: Report) -> Result<Reported> {
        self.ask_for(report).await
    }

    /// The number by which the manager knows this client.
    pub fn client(&self) -> u64 {
        self.shared.asking.link.client()
    }

    /// Where the manager is.
    pub fn address(&self) -> &str {
        self.shared.asking.link.address()
    }

    async fn ask_for<R: Request>(&self, request: R) -> Result<R::Answer> {
        let asking = self.shared.asking.clone();
        self.shared.background.run(async move { retry::answered(&asking, request).await }).await
    }
}

#[cfg(test)]
mod tests;
