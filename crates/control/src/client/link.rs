//! The connection of a client, with the session that was proven on it: made when somebody needs it, and anew when it is
//! gone.

use super::AccessKey;
use super::request::{Request, Stub};
use crate::convert::Message;
use crate::proto::access_client::AccessClient;
use crate::status::{Failure, from_status};
use crate::tls::{ClientTls, causes, is_loopback, speaks_tls};
use crate::{MOST_GREETING, MOST_MESSAGE, SESSION};
use forebay_env::real::{random, tls_trouble};
use forebay_model::{Error, Kind, Result};
use forebay_wire::control::access::{Challenge, Hello, Proven, proof};
use std::time::Duration;
use tokio::sync::Mutex;
use tonic::metadata::{BinaryMetadataValue, MetadataValue};
use tonic::transport::Endpoint;

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long each step of proving may take.
const PROVING: Duration = Duration::from_secs(10);
/// How long the manager may be silent before it is asked whether it is there, and how long it has to answer that.
const SILENCE: Duration = Duration::from_secs(10);

/// A connection to one address that is there when it is needed.
pub(super) struct Link {
    address: String,
    endpoint: Endpoint,
    key: AccessKey,
    client: u64,
    has_tls: bool,
    current: Mutex<Current>,
}

/// What is there now.
#[derive(Default)]
struct Current {
    session: Option<Session>,
    /// How many there have been.
    made: u64,
}

/// A connection on which it was proven who asks.
#[derive(Clone)]
pub(super) struct Session {
    stub: Stub,
    token: BinaryMetadataValue,
    number: u64,
}

impl Link {
    /// [`forebay_model::Kind::Usage`] if there cannot be one.
    pub(super) fn new(address: &str, key: AccessKey, client: u64, tls: Option<&ClientTls>) -> Result<Link> {
        if tls.is_none() && !is_loopback(address) {
            return Err(Error::usage(format!(
                "{address} is another machine: say which authority vouches for it (--ca FILE; of a node, --tls DIR), so that nobody else reads along"
            )));
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|_| Error::usage(format!("{address} is no address; give one like manager:7500")))?
            .connect_timeout(CONNECTING)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(SILENCE)
            .keep_alive_timeout(SILENCE);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls.config()?).map_err(|e| tls.refused(&e))?;
        }
        let (address, has_tls) = (address.to_string(), tls.is_some());
        Ok(Link { address, endpoint, key, client, has_tls, current: Mutex::default() })
    }

    pub(super) fn client(&self) -> u64 {
        self.client
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Asks once, and waits no longer than `left`.
    pub(super) async fn ask<R: Request>(
        &self,
        message: R::Proto,
        left: Duration,
    ) -> std::result::Result<R::Answer, Failure> {
        let mut session = self.session().await?;
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert_bin(SESSION, session.token.clone());
        request.set_timeout(left);
        match R::send(&mut session.stub, request).await {
            Ok(response) => R::Answer::from_proto(response.into_inner()).map_err(Failure::Answered),
            Err(status) => {
                let failure = from_status(&status);
                if matches!(failure, Failure::NoSession(_) | Failure::Broken(_)) {
                    self.forget(session.number).await;
                }
                Err(failure)
            }
        }
    }

    /// The session that there is, or a new one.
    pub(super) async fn session(&self) -> std::result::Result<Session, Failure> {
        // Whoever comes second waits here, and uses what the first has made.
        let mut current = self.current.lock().await;
        if let Some(session) = &current.session {
            return Ok(session.clone());
        }
        let number = current.made + 1;
        let session = self.make(number).await?;
        current.made = number;
        current.session = Some(session.clone());
        Ok(session)
    }

    /// Why there is no connection. What a certificate lacks, it lacks also when it is asked again.
    fn not_connected(&self, error: &tonic::transport::Error) -> Failure {
        match tls_trouble(error, &format!("the manager at {}", self.address)) {
            Some(error) if error.kind != Kind::Disconnected => Failure::Answered(error),
            _ => Failure::Broken(causes(error)),
        }
    }

    /// Why there was no greeting; whoever speaks TLS does not understand one without.
    async fn not_greeted(&self, failure: Failure) -> Failure {
        if !self.has_tls && matches!(failure, Failure::Broken(_)) && speaks_tls(&self.address).await {
            return Failure::Answered(Error::usage(format!(
                "the manager at {} speaks TLS: say which authority vouches for it (--ca FILE; of a node, --tls DIR)",
                self.address
            )));
        }
        failure
    }

    /// Does without this session from now on.
    async fn forget(&self, number: u64) {
        let mut current = self.current.lock().await;
        current.session.take_if(|session| session.number == number);
    }

    async fn make(&self, number: u64) -> std::result::Result<Session, Failure> {
        let channel = self.endpoint.connect().await.map_err(|e| self.not_connected(&e))?;
        let mut access = AccessClient::new(channel.clone())
            .max_decoding_message_size(MOST_GREETING)
            .max_encoding_message_size(MOST_GREETING);
        let mut nonce = [0; 16];
        random::fill(&mut nonce);
        let hello = Hello { key: self.key.key, client: self.client, nonce };
        let challenge = match access.greet(limited(hello.clone().to_proto())).await {
            Ok(challenge) => challenge,
            Err(status) => return Err(self.not_greeted(from_status(&status)).await),
        };
        let challenge = Challenge::from_proto(challenge.into_inner()).map_err(Failure::Answered)?;
        let proven = Proven { proof: proof(&self.key.secret, &hello, &challenge) };
        let session = access.prove(limited(proven.to_proto())).await.map_err(|s| from_status(&s))?;
        let token = MetadataValue::from_bytes(&session.into_inner().token);
        let stub = Stub::new(channel).max_decoding_message_size(MOST_MESSAGE).max_encoding_message_size(MOST_MESSAGE);
        Ok(Session { stub, token, number })
    }
}

fn limited<M>(message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(PROVING);
    request
}

#[cfg(test)]
mod tests;
