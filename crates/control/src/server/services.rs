//! The two services of the interface: from messages to the handler, and its answers back.

use super::connection::Greeting;
use super::gate::{Admitted, connection};
use crate::convert::Message as _;
use crate::handler::Handler;
use crate::proto::access_server::Access as AccessService;
use crate::proto::control_server::Control as ControlService;
use crate::status::to_status;
use crate::{MOST_MESSAGE, proto};
use forebay_env::real::clock;
use forebay_model::Error;
use forebay_wire::control::access::{Hello, Proven};
use forebay_wire::control::cluster::Report;
use forebay_wire::control::{Call, Question};
use prost::Message;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// How a connection comes to a session.
pub(super) struct Access<H: Handler> {
    pub(super) handler: Arc<H>,
}

#[tonic::async_trait]
impl<H: Handler> AccessService for Access<H> {
    async fn greet(&self, request: Request<proto::Hello>) -> Result<Response<proto::Challenge>, Status> {
        let (_, extensions, hello) = request.into_parts();
        let hello = Hello::from_proto(hello).map_err(to_status)?;
        let challenge = self.handler.challenge().await.map_err(to_status)?;
        connection::<H::Principal>(&extensions).greet(hello, challenge.clone());
        Ok(Response::new(challenge.to_proto()))
    }

    async fn prove(&self, request: Request<proto::Proven>) -> Result<Response<proto::Session>, Status> {
        let (_, extensions, proven) = request.into_parts();
        let connection = connection::<H::Principal>(&extensions);
        let Greeting { hello, challenge } = connection.take_greeting()?;
        let proven = Proven::from_proto(proven).map_err(to_status)?;
        let by = self.handler.authenticate(hello, challenge, proven).await.map_err(to_status)?;
        let user = self.handler.user(&by);
        let token = connection.begin(by, user, clock::now());
        Ok(Response::new(proto::Session { token: token.to_vec() }))
    }
}

/// What a session asks.
pub(super) struct Control<H> {
    pub(super) handler: Arc<H>,
}

#[tonic::async_trait]
impl<H: Handler> ControlService for Control<H> {
    async fn call(&self, request: Request<proto::CallRequest>) -> Result<Response<proto::Reply>, Status> {
        let (admitted, message) = admitted::<H, _>(request);
        let call = Call::from_proto(message).map_err(to_status)?;
        answer(self.handler.call(admitted.by.clone(), call).await.map(|reply| reply.to_proto()))
    }

    async fn ask(&self, request: Request<proto::Question>) -> Result<Response<proto::Reply>, Status> {
        let (admitted, message) = admitted::<H, _>(request);
        let question = Question::from_proto(message).map_err(to_status)?;
        answer(self.handler.ask(admitted.by.clone(), question).await.map(|reply| reply.to_proto()))
    }

    async fn report(&self, request: Request<proto::ReportRequest>) -> Result<Response<proto::Reported>, Status> {
        let (admitted, message) = admitted::<H, _>(request);
        let report = Report::from_proto(message).map_err(to_status)?;
        answer(self.handler.report(admitted.by.clone(), report).await.map(|reported| reported.to_proto()))
    }
}

/// Who asks what; whoever has the first has the room of the request.
fn admitted<H: Handler, M>(request: Request<M>) -> (Admitted<H::Principal>, M) {
    let (_, extensions, message) = request.into_parts();
    let admitted = extensions.get::<Admitted<H::Principal>>().expect("the gate lets nobody else through");
    (admitted.clone(), message)
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
