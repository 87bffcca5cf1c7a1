//! The two services of the interface: from messages to the handler, and its answers back.
//!
//! Always: what the handler was asked has its room until the handler is done with it, also if whoever asked has given that up: so no more
//! waits for the manager than there is room for.

use super::connection::{Connection, Connections, Greeting, Shown};
use super::gate::{Admitted, Entered, connection};
use crate::convert::Message as _;
use crate::handler::{Handler, HandlerFuture};
use crate::proto::access_server::Access as AccessService;
use crate::proto::control_server::Control as ControlService;
use crate::status::to_status;
use crate::{MOST_MESSAGE, proto};
use forebay_env::real::clock;
use forebay_model::{Error, Kind};
use forebay_wire::control::access::{Hello, Proven};
use forebay_wire::control::cluster::Report;
use forebay_wire::control::{Call, Question};
use prost::Message;
use std::sync::Arc;
use tonic::{Extensions, Request, Response, Status};

/// How a connection comes to a session.
pub(super) struct Access<H: Handler> {
    pub(super) handler: Arc<H>,
    pub(super) connections: Arc<Connections<H::Principal>>,
}

#[tonic::async_trait]
impl<H: Handler> AccessService for Access<H> {
    async fn greet(&self, request: Request<proto::Hello>) -> Result<Response<proto::Challenge>, Status> {
        let (_, extensions, hello) = request.into_parts();
        let hello = Hello::from_proto(hello).map_err(to_status)?;
        let challenge = done(self.handler.challenge(), room(&extensions)).await.map_err(to_status)?;
        connection::<H::Principal>(&extensions).greet(hello, challenge.clone());
        Ok(Response::new(challenge.to_proto()))
    }

    async fn prove(&self, request: Request<proto::Proven>) -> Result<Response<proto::Session>, Status> {
        let (_, extensions, proven) = request.into_parts();
        let connection = connection::<H::Principal>(&extensions);
        let greeting = connection.take_greeting()?;
        let shown = Shown { greeting, proven: Proven::from_proto(proven).map_err(to_status)? };
        let by = done(proven_by(&*self.handler, shown.clone()), room(&extensions)).await.map_err(to_status)?;
        let user = self.handler.user(&by);
        let token = self.connections.begin(connection, (by, user), shown, clock::now())?;
        Ok(Response::new(proto::Session { token: token.to_vec() }))
    }
}

/// Who has shown this, if it counts.
fn proven_by<H: Handler>(handler: &H, shown: Shown) -> HandlerFuture<H::Principal> {
    let Shown { greeting: Greeting { hello, challenge }, proven } = shown;
    handler.authenticate(hello, challenge, proven)
}

/// What a session asks.
pub(super) struct Control<H> {
    pub(super) handler: Arc<H>,
}

impl<H: Handler> Control<H> {
    /// An answer as it is sent. With one that says that somebody may not do something, it is looked whether what its session began with still
    /// counts: otherwise its key was revoked, and the session is over.
    async fn answered<M: Message>(
        &self,
        asker: &Asker<H::Principal>,
        result: forebay_model::Result<M>,
    ) -> Result<Response<M>, Status> {
        let is_forbidden = |error: &Error| error.kind == Kind::Forbidden;
        let by = &asker.admitted.by;
        if result.as_ref().is_err_and(is_forbidden)
            && let Some(shown) = asker.connection.shown(by)
            && done(proven_by(&*self.handler, shown), asker.admitted.clone())
                .await
                .is_err_and(|error| is_forbidden(&error))
        {
            asker.connection.end(by);
        }
        answer(result)
    }
}

#[tonic::async_trait]
impl<H: Handler> ControlService for Control<H> {
    async fn call(&self, request: Request<proto::CallRequest>) -> Result<Response<proto::Reply>, Status> {
        let (asker, message) = asker::<H, _>(request);
        let call = Call::from_proto(message).map_err(to_status)?;
        let result = done(self.handler.call(asker.admitted.by.clone(), call), asker.admitted.clone()).await;
        self.answered(&asker, result.map(|reply| reply.to_proto())).await
    }

    async fn ask(&self, request: Request<proto::Question>) -> Result<Response<proto::Reply>, Status> {
        let (asker, message) = asker::<H, _>(request);
        let question = Question::from_proto(message).map_err(to_status)?;
        let result = done(self.handler.ask(asker.admitted.by.clone(), question), asker.admitted.clone()).await;
        self.answered(&asker, result.map(|reply| reply.to_proto())).await
    }

    async fn report(&self, request: Request<proto::ReportRequest>) -> Result<Response<proto::Reported>, Status> {
        let (asker, message) = asker::<H, _>(request);
        let report = Report::from_proto(message).map_err(to_status)?;
        let result = done(self.handler.report(asker.admitted.by.clone(), report), asker.admitted.clone()).await;
        if result.is_ok() {
            asker.connection.reported(&asker.admitted.by);
        }
        self.answered(&asker, result.map(|reported| reported.to_proto())).await
    }
}

/// What a handler answers. It is waited for with the room of what it was asked, whether or not somebody waits for this.
async fn done<T: Send + 'static>(answering: HandlerFuture<T>, room: impl Send + 'static) -> forebay_model::Result<T> {
    let answered = tokio::spawn(async move {
        let answer = answering.await;
        drop(room);
        answer
    });
    answered.await.unwrap_or_else(|_| Err(Error::disconnected("the server ended before the answer came; ask again")))
}

/// The room of a greeting.
fn room(extensions: &Extensions) -> Option<Entered> {
    extensions.get().cloned()
}

/// Who asks; whoever has this has the room of the request.
struct Asker<P> {
    admitted: Admitted<P>,
    connection: Arc<Connection<P>>,
}

/// Who asks what.
fn asker<H: Handler, M>(request: Request<M>) -> (Asker<H::Principal>, M) {
    let (_, extensions, message) = request.into_parts();
    let admitted = extensions.get::<Admitted<H::Principal>>().expect("the gate lets nobody else through");
    let connection = connection::<H::Principal>(&extensions).clone();
    (Asker { admitted: admitted.clone(), connection }, message)
}

fn answer<M: Message>(answer: forebay_model::Result<M>) -> Result<Response<M>, Status> {
    let message = answer.map_err(to_status)?;
    let size = message.encoded_len();
    if size > MOST_MESSAGE {
        return Err(to_status(Error::refused(format!(
            "the answer has {size} bytes, and one message has {MOST_MESSAGE} at most; ask for less at a time"
        ))));
    }
    Ok(Response::new(message))
}
