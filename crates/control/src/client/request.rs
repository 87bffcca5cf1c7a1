//! What can be asked, and how: a request as a message that can be sent again.

use crate::convert::Message;
use crate::proto;
use crate::proto::control_client::ControlClient;
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Question, Reply};
use std::future::Future;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// What gRPC has for the requests.
pub(super) type Stub = ControlClient<Channel>;
type Sent<T> = Result<Response<T>, Status>;

/// A request, and what answers it.
pub(super) trait Request: Message<Proto: prost::Message + Clone + Sync> + Send + 'static {
    /// What is answered.
    type Answer: Message<Proto: Send> + Send + 'static;

    /// Asks once.
    fn send(
        stub: &mut Stub,
        request: tonic::Request<Self::Proto>,
    ) -> impl Future<Output = Sent<<Self::Answer as Message>::Proto>> + Send;
}

impl Request for Call {
    type Answer = Reply;

    fn send(stub: &mut Stub, request: tonic::Request<proto::CallRequest>) -> impl Future<Output = Sent<proto::Reply>> {
        stub.call(request)
    }
}

impl Request for Question {
    type Answer = Reply;

    fn send(stub: &mut Stub, request: tonic::Request<proto::Question>) -> impl Future<Output = Sent<proto::Reply>> {
        stub.ask(request)
    }
}

impl Request for Report {
    type Answer = Reported;

    fn send(
        stub: &mut Stub,
        request: tonic::Request<proto::ReportRequest>,
    ) -> impl Future<Output = Sent<proto::Reported>> {
        stub.report(request)
    }
}
