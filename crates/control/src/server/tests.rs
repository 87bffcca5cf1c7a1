use super::*;
use crate::convert::Message as _;
use crate::fake::{Answers, Asked, Fake, KEY, Keys, SECRET, Who, never, now, question, serve, serve_at, when_told};
use crate::handler::HandlerFuture;
use crate::proto::access_client::AccessClient;
use crate::proto::control_client::ControlClient;
use crate::status::{Failure, from_status};
use crate::{SESSION, proto};
use forebay_model::{Kind, Timestamp};
use forebay_wire::control::access::{Challenge, Hello, IssueKey, Proven, proof};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Change, Question, Reply};
use http_body::Frame;
use std::pin::Pin;
use std::result::Result;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(600);

fn inside<T>(test: impl Future<Output = T>) -> T {
    runtime().expect("a loop").block_on(test)
}

async fn connection(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).expect("an address").connect().await.expect("it listens")
}

fn hello(key: u64) -> Hello {
    Hello { key, client: 5, nonce: [1; 16] }
}

async fn greeted(channel: &Channel, key: u64) -> Challenge {
    let challenge = AccessClient::new(channel.clone()).greet(hello(key).to_proto()).await.expect("it is answered");
    Challenge::from_proto(challenge.into_inner()).expect("a challenge")
}

async fn prove(channel: &Channel, proof: [u8; 32]) -> Result<Vec<u8>, Failure> {
    let proven = Proven { proof }.to_proto();
    let session = AccessClient::new(channel.clone()).prove(proven).await.map_err(|status| from_status(&status))?;
    Ok(session.into_inner().token)
}

async fn authenticated(channel: &Channel, key: u64, secret: &[u8; 32]) -> Result<Vec<u8>, Failure> {
    let challenge = greeted(channel, key).await;
    prove(channel, proof(secret, &hello(key), &challenge)).await
}

async fn session(channel: &Channel) -> Vec<u8> {
    authenticated(channel, KEY, &SECRET).await.expect("the key is right")
}

fn with_token<M>(message: M, token: &[u8]) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert_bin(SESSION, MetadataValue::from_bytes(token));
    request
}

async fn ask(channel: &Channel, token: &[u8]) -> Result<Reply, Failure> {
    let request = with_token(question().to_proto(), token);
    let answer: Result<_, Status> = ControlClient::new(channel.clone()).ask(request).await;
    let reply = answer.map_err(|status| from_status(&status))?;
    Ok(Reply::from_proto(reply.into_inner()).expect("a reply"))
}

/// Asks beside the test.
fn asking(channel: &Channel, token: &[u8]) -> JoinHandle<Result<Reply, Failure>> {
    let (channel, token) = (channel.clone(), token.to_vec());
    tokio::spawn(async move { ask(&channel, &token).await })
}

async fn report(channel: &Channel, token: &[u8]) -> Result<proto::Reported, Failure> {
    let report = Report { node: 11, address: "node:1".into(), targets: vec![], wall: Timestamp(3) };
    let answer: Result<_, Status> =
        ControlClient::new(channel.clone()).report(with_token(report.to_proto(), token)).await;
    answer.map(tonic::Response::into_inner).map_err(|status| from_status(&status))
}

/// A manager that does whatever it is asked.
fn fake() -> Fake {
    Fake { keys: Keys::new(), answers: Box::new(|_, _| now(Ok(Reply::Done))) }
}

fn is_without_session<T>(outcome: &Result<T, Failure>) -> bool {
    matches!(outcome, Err(Failure::NoSession(_)))
}

fn is_forbidden<T>(outcome: &Result<T, Failure>) -> bool {
    matches!(outcome, Err(Failure::Answered(error)) if error.kind == Kind::Forbidden)
}

fn limited(change: impl FnOnce(&mut Limits)) -> ServerOptions {
    let mut options = ServerOptions::default();
    change(&mut options.limits);
    options
}

#[test]
fn whoever_proves_that_it_has_a_key_is_answered() {
    let server = serve(ServerOptions::default());
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        assert_eq!(ask(&channel, &token).await, Ok(Reply::Done));
    });
}

#[test]
fn without_a_session_nothing_is_answered() {
    let server = serve(ServerOptions::default());
    inside(async {
        let channel = connection(server.address()).await;
        let unsigned = ControlClient::new(channel.clone()).ask(question().to_proto()).await;
        assert!(is_without_session(&unsigned.map_err(|status| from_status(&status))));
        assert!(is_without_session(&ask(&channel, &[9; 16]).await));
        session(&channel).await;
        assert!(is_without_session(&ask(&channel, &[9; 16]).await), "a token that was guessed");
    });
}

#[test]
fn a_wrong_secret_and_a_key_that_is_not_there_are_refused_alike() {
    let server = serve(ServerOptions::default());
    inside(async {
        let channel = connection(server.address()).await;
        let wrong = authenticated(&channel, KEY, &[9; 32]).await;
        let unknown = authenticated(&channel, 999, &SECRET).await;
        assert!(is_forbidden(&wrong));
        assert_eq!(wrong, unknown);
    });
}

#[test]
fn a_proof_that_was_overheard_is_no_use() {
    let server = serve(ServerOptions::default());
    inside(async {
        let (one, other) = (connection(server.address()).await, connection(server.address()).await);
        let challenge = greeted(&one, KEY).await;
        let overheard = proof(&SECRET, &hello(KEY), &challenge);
        assert!(is_without_session(&prove(&other, overheard).await), "nothing was asked there");
        greeted(&other, KEY).await;
        assert!(is_forbidden(&prove(&other, overheard).await), "another challenge");
        let token = prove(&one, overheard).await.expect("it is that of this connection");
        assert!(is_without_session(&prove(&one, overheard).await), "a challenge is answered once");
        assert!(is_without_session(&ask(&other, &token).await), "a token of another connection");
        assert_eq!(ask(&one, &token).await, Ok(Reply::Done));
    });
}

#[test]
fn a_session_ends_when_nothing_was_asked_for_long() {
    let hasty = serve(limited(|limits| limits.idle = Duration::ZERO));
    inside(async {
        let channel = connection(hasty.address()).await;
        let token = session(&channel).await;
        assert!(is_without_session(&ask(&channel, &token).await));
    });
}

#[test]
fn what_is_larger_than_a_message_may_be_is_refused() {
    let server = serve(ServerOptions::default());
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let label = "x".repeat(MOST_MESSAGE);
        let call = Call { sequence: 1, change: Change::IssueKey(IssueKey { user: 7, label }) };
        let refused = ControlClient::new(channel.clone()).call(with_token(call.to_proto(), &token)).await;
        let failure = from_status(&refused.expect_err("it is too large"));
        assert!(matches!(&failure, Failure::Answered(error) if error.kind == Kind::Usage), "{failure:?}");
        let greeting = proto::Hello { key: KEY, client: 5, nonce: vec![0; MOST_GREETING] };
        let refused = AccessClient::new(channel.clone()).greet(greeting).await;
        let failure = from_status(&refused.expect_err("it is too large"));
        assert!(matches!(&failure, Failure::Answered(error) if error.kind == Kind::Usage), "{failure:?}");
        assert_eq!(ask(&channel, &token).await, Ok(Reply::Done), "the connection is as it was");
    });
}

#[test]
fn so_many_requests_are_under_way_and_one_more_is_told_so() {
    let (began, mut begun) = unbounded_channel();
    let server =
        serve_at("127.0.0.1:0", &Keys::new(), limited(|limits| limits.requests = 2), move |_, _| when_told(&began));
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let (mut under_way, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            under_way.push(asking(&channel, &token));
            answers.push(begun.recv().await.expect("it began"));
        }
        let failure = ask(&channel, &token).await.expect_err("there is no room");
        assert!(matches!(&failure, Failure::Again(error) if error.kind == Kind::Busy), "{failure:?}");
        // One that is given up makes room once it is done.
        under_way.pop().expect("two are under way").abort();
        answers.pop().expect("two are under way").send(Ok(Reply::Done)).expect("it is waited for");
        let trying = tokio::spawn(async move { while let Err(Failure::Again(_)) = ask(&channel, &token).await {} });
        let _answer = begun.recv().await.expect("another one began");
        trying.abort();
    });
}

#[test]
fn whoever_asks_and_gives_up_again_and_again_has_no_more_with_the_manager_than_its_room() {
    let (began, mut begun) = unbounded_channel();
    let options = limited(|limits| limits.requests_of_one = 4);
    let server = serve_at("127.0.0.1:0", &Keys::new(), options, move |_, _| {
        began.send(()).expect("the test goes on");
        never()
    });
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let (mut called, mut refused) = (0, 0);
        for _ in 0..1000 {
            tokio::select! {
                outcome = ask(&channel, &token) => {
                    assert!(matches!(&outcome, Err(Failure::Again(error)) if error.kind == Kind::Busy), "{outcome:?}");
                    refused += 1;
                }
                // It is given up as soon as the manager has it.
                _ = begun.recv() => called += 1,
            }
        }
        assert_eq!((called, refused), (4, 996));
    });
}

/// Tells the test of each that says hello, and answers nobody.
struct Greeted(UnboundedSender<()>);

impl Handler for Greeted {
    type Principal = ();

    fn user(&self, _: &()) -> u32 {
        0
    }

    fn challenge(&self) -> HandlerFuture<Challenge> {
        self.0.send(()).expect("the test goes on");
        Box::pin(std::future::pending())
    }

    fn authenticate(&self, _: Hello, _: Challenge, _: Proven) -> HandlerFuture<()> {
        Box::pin(std::future::pending())
    }

    fn call(&self, _: Arc<()>, _: Call) -> HandlerFuture<Reply> {
        never()
    }

    fn ask(&self, _: Arc<()>, _: Question) -> HandlerFuture<Reply> {
        never()
    }

    fn report(&self, _: Arc<()>, _: Report) -> HandlerFuture<Reported> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn strangers_that_say_hello_and_go_have_no_more_with_the_manager_than_their_room() {
    let (began, mut begun) = unbounded_channel();
    let options = limited(|limits| (limits.greetings, limits.greeting) = (4, PATIENCE));
    let server = ControlServer::start("127.0.0.1:0", Greeted(began), options).expect("it listens");
    inside(async {
        let channel = connection(server.address()).await;
        let (mut called, mut refused) = (0, 0);
        for _ in 0..200 {
            let mut access = AccessClient::new(channel.clone());
            tokio::select! {
                outcome = access.greet(hello(KEY).to_proto()) => {
                    let outcome = outcome.map_err(|status| from_status(&status));
                    assert!(matches!(&outcome, Err(Failure::Again(error)) if error.kind == Kind::Busy), "{outcome:?}");
                    refused += 1;
                }
                _ = begun.recv() => called += 1,
            }
        }
        assert_eq!((called, refused), (4, 196));
    });
}

#[test]
fn strangers_make_room_for_others() {
    let server = serve(limited(|limits| limits.connections = 2));
    inside(async {
        let known = connection(server.address()).await;
        let token = session(&known).await;
        let stranger = connection(server.address()).await;
        greeted(&stranger, KEY).await;
        let next = connection(server.address()).await;
        let next_token = session(&next).await;
        assert_eq!(ask(&known, &token).await, Ok(Reply::Done));
        assert_eq!(ask(&next, &next_token).await, Ok(Reply::Done));
    });
}

#[test]
fn whoever_has_a_key_does_not_keep_others_out() {
    let keys = Keys::new();
    keys.issue(80, [8; 32], 8);
    let options = limited(|limits| limits.connections = 16);
    let server = serve_at("127.0.0.1:0", &keys, options, |_, _| now(Ok(Reply::Done)));
    inside(async {
        let mut held = Vec::new();
        for _ in 0..14 {
            let channel = connection(server.address()).await;
            let token = session(&channel).await;
            held.push((channel, token));
        }
        // None of its own ends that is used.
        let more = connection(server.address()).await;
        let refused = authenticated(&more, KEY, &SECRET).await;
        assert!(matches!(&refused, Err(Failure::Again(error)) if error.kind == Kind::Busy), "{refused:?}");
        let other = connection(server.address()).await;
        let token = authenticated(&other, 80, &[8; 32]).await.expect("there is a place");
        assert_eq!(ask(&other, &token).await, Ok(Reply::Done));
        let (newest, token) = held.last().expect("there are some");
        assert_eq!(ask(newest, token).await, Ok(Reply::Done), "the one that asked longest ago ended");
        let (oldest, token) = &held[0];
        assert_ne!(ask(oldest, token).await, Ok(Reply::Done));
    });
}

#[test]
fn a_session_ends_with_the_first_thing_that_is_forbidden_when_its_key_was_revoked() {
    let keys = Keys::new();
    let server = serve_at("127.0.0.1:0", &keys, ServerOptions::default(), |_, _| {
        now(Err(Error::forbidden("this is for others; ask them")))
    });
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        for _ in 0..3 {
            assert!(is_forbidden(&ask(&channel, &token).await), "its key counts, and so does the session");
        }
        keys.revoke(KEY);
        assert!(is_forbidden(&ask(&channel, &token).await));
        assert!(is_without_session(&ask(&channel, &token).await));
    });
}

#[test]
fn health_and_reflection_answer_whoever_asks() {
    let server = serve(ServerOptions::default());
    inside(async {
        let channel = connection(server.address()).await;
        for service in ["", CONTROL] {
            let request = HealthCheckRequest { service: service.to_string() };
            let answer = HealthClient::new(channel.clone()).check(request).await.expect("it is answered");
            assert_eq!(answer.into_inner().status, ServingStatus::Serving as i32);
        }
        let list = MessageRequest::ListServices(String::new());
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
        let asked = tokio_stream::iter([request]);
        let answers = ServerReflectionClient::new(channel).server_reflection_info(asked).await.expect("it is answered");
        let answer = answers.into_inner().message().await.expect("an answer").expect("an answer");
        let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
            panic!("not a list of services")
        };
        let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
        for name in [CONTROL, "forebay.control.v1.Access", "grpc.health.v1.Health"] {
            assert!(names.iter().any(|listed| listed == name), "{name} is not in {names:?}");
        }
    });
}

#[test]
fn what_is_under_way_when_it_stops_is_answered() {
    let (began, mut begun) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        let (answer, answered) = oneshot::channel();
        began.send((asked, answer)).expect("the test goes on");
        Box::pin(async move { answered.await.expect("the test answers") })
    });
    inside(async {
        let address = server.address();
        let channel = connection(address).await;
        let token = session(&channel).await;
        let under_way = asking(&channel, &token);
        let (asked, answer) = begun.recv().await.expect("it began");
        assert_eq!(asked, Asked::Question(question()));
        let mut stopping = Box::pin(server.stop());
        tokio::select! {
            biased;
            _ = &mut stopping => panic!("something is under way"),
            () = tokio::task::yield_now() => {}
        }
        answer.send(Ok(Reply::Done)).expect("it is waited for");
        assert_eq!(under_way.await.expect("no panic"), Ok(Reply::Done));
        assert_eq!(stopping.await, Ok(()));
        let late = Endpoint::from_shared(format!("http://{address}")).expect("an address").connect().await;
        assert!(late.is_err(), "nobody listens any more");
    });
}

#[test]
fn what_is_never_answered_does_not_keep_it_from_stopping() {
    let (began, mut begun) = unbounded_channel();
    let options = limited(|limits| limits.grace = Duration::ZERO);
    let server = serve_at("127.0.0.1:0", &Keys::new(), options, move |_, _| {
        began.send(()).expect("the test goes on");
        never()
    });
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let under_way = asking(&channel, &token);
        begun.recv().await.expect("it began");
        assert_eq!(server.stop().await, Ok(()));
        assert!(matches!(under_way.await.expect("no panic"), Err(Failure::Broken(_))));
    });
}

#[test]
fn an_answer_has_its_time() {
    let options = limited(|limits| limits.answer = Duration::from_millis(1));
    let server = serve_at("127.0.0.1:0", &Keys::new(), options, |_, _| never());
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let outcome = ask(&channel, &token).await;
        assert!(matches!(&outcome, Err(Failure::Broken(why)) if why.contains("too long")), "{outcome:?}");
        // One that comes in parts ends as well, and is not cut.
        let request = HealthCheckRequest { service: String::new() };
        let mut watching = HealthClient::new(channel).watch(request).await.expect("it is answered").into_inner();
        let end = loop {
            match watching.message().await {
                Ok(part) => assert!(part.is_some(), "it ends with why"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), tonic::Code::DeadlineExceeded);
    });
}

#[test]
fn a_greeting_has_a_time_of_its_own() {
    let options = limited(|limits| (limits.greeting, limits.answer) = (Duration::from_millis(1), PATIENCE));
    let (began, _begun) = unbounded_channel();
    let server = ControlServer::start("127.0.0.1:0", Greeted(began), options).expect("it listens");
    inside(async {
        let mut access = AccessClient::new(connection(server.address()).await);
        let late = access.greet(hello(KEY).to_proto()).await.map_err(|status| from_status(&status));
        assert!(matches!(&late, Err(Failure::Broken(why)) if why.contains("too long")), "{late:?}");
    });
}

#[test]
fn who_asks_how_it_is_has_bounded_room_and_keeps_nobody_from_greeting() {
    let server = serve(limited(|limits| (limits.greetings, limits.answer) = (1, PATIENCE)));
    inside(async {
        let channel = connection(server.address()).await;
        let request = || HealthCheckRequest { service: String::new() };
        let mut health = HealthClient::new(channel.clone());
        let mut watching = health.watch(request()).await.expect("there is room").into_inner();
        assert!(watching.message().await.expect("a part").is_some());
        let refused = health.check(request()).await.map_err(|status| from_status(&status));
        assert!(matches!(&refused, Err(Failure::Again(error)) if error.kind == Kind::Busy), "{refused:?}");
        let token = session(&channel).await;
        assert_eq!(ask(&channel, &token).await, Ok(Reply::Done));
        // When it is taken no longer, there is room again, as soon as the server has heard of that.
        drop(watching);
        loop {
            match health.check(request()).await.map_err(|status| from_status(&status)) {
                Ok(_) => break,
                Err(Failure::Again(error)) if error.kind == Kind::Busy => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        let large = HealthCheckRequest { service: "x".repeat(MOST_GREETING) };
        let refused = health.check(large).await.map_err(|status| from_status(&status));
        assert!(matches!(&refused, Err(Failure::Answered(error)) if error.kind == Kind::Usage), "{refused:?}");
    });
}

#[test]
fn reports_have_room_of_their_own() {
    let (began, mut begun) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), limited(|limits| limits.requests = 1), move |_, _| {
        began.send(()).expect("the test goes on");
        never()
    });
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let under_way = asking(&channel, &token);
        begun.recv().await.expect("it began");
        assert_eq!(report(&channel, &token).await.expect("there is room").epoch, 11);
        under_way.abort();
    });
}

/// Lets clients in as the one in it does, and answers no report.
struct WithoutReports(Fake, UnboundedSender<()>);

impl Handler for WithoutReports {
    type Principal = Who;

    fn user(&self, by: &Who) -> u32 {
        by.user
    }

    fn challenge(&self) -> HandlerFuture<Challenge> {
        self.0.challenge()
    }

    fn authenticate(&self, hello: Hello, challenge: Challenge, proven: Proven) -> HandlerFuture<Who> {
        self.0.authenticate(hello, challenge, proven)
    }

    fn call(&self, by: Arc<Who>, call: Call) -> HandlerFuture<Reply> {
        self.0.call(by, call)
    }

    fn ask(&self, by: Arc<Who>, question: Question) -> HandlerFuture<Reply> {
        self.0.ask(by, question)
    }

    fn report(&self, _: Arc<Who>, _: Report) -> HandlerFuture<Reported> {
        self.1.send(()).expect("the test goes on");
        Box::pin(std::future::pending())
    }
}

#[test]
fn so_many_reports_are_under_way_and_one_more_is_told_so_and_requests_have_room() {
    let (began, mut begun) = unbounded_channel();
    let handler = WithoutReports(fake(), began);
    let options = limited(|limits| limits.reports = 1);
    let server = ControlServer::start("127.0.0.1:0", handler, options).expect("it listens");
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let under_way = tokio::spawn({
            let (channel, token) = (channel.clone(), token.clone());
            async move { report(&channel, &token).await }
        });
        begun.recv().await.expect("it began");
        let failure = report(&channel, &token).await.expect_err("there is no room");
        assert!(matches!(&failure, Failure::Again(error) if error.kind == Kind::Busy), "{failure:?}");
        assert_eq!(ask(&channel, &token).await, Ok(Reply::Done));
        under_way.abort();
    });
}

#[test]
fn one_connection_does_not_take_all_the_room() {
    let (began, mut begun) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        began.send(asked).expect("the test goes on");
        never()
    });
    inside(async {
        let greedy = connection(server.address()).await;
        let token = session(&greedy).await;
        let mut under_way: Vec<_> = (0..=MOST_STREAMS).map(|_| asking(&greedy, &token)).collect();
        for _ in 0..MOST_STREAMS {
            assert_eq!(begun.recv().await, Some(Asked::Question(question())));
        }
        let other = connection(server.address()).await;
        let token = session(&other).await;
        under_way.push(tokio::spawn(async move {
            let mut client = ControlClient::new(other);
            client.ask(with_token(Question::Users.to_proto(), &token)).await.expect("never");
            Ok(Reply::Done)
        }));
        assert_eq!(begun.recv().await, Some(Asked::Question(Question::Users)), "the last of the other one waits");
        under_way.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn beyond_this_machine_it_does_not_listen_without_tls() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = ControlServer::start(address, fake(), ServerOptions::default()).err();
        assert_eq!(refused.map(|error| error.kind), Some(Kind::Usage), "{address}");
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let server = serve(ServerOptions::default());
    let refused = ControlServer::start(&server.address().to_string(), fake(), ServerOptions::default()).err();
    assert_eq!(refused.map(|error| error.kind), Some(Kind::Busy));
}

/// Nobody takes any of them: all that are there are those that the kernel keeps, of which it had 128 before.
#[test]
fn five_hundred_who_come_at_once_have_room_until_they_are_taken() {
    // The second word of one whose first is lost comes after a second.
    const WAIT: Duration = Duration::from_millis(500);
    inside(async {
        let listener = listening_at("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it listens");
        let mut connected = Vec::new();
        for _ in 0..500 {
            let coming = tokio::time::timeout(WAIT, tokio::net::TcpStream::connect(address));
            connected.push(coming.await.expect("there is room").expect("it listens"));
        }
    });
}

#[test]
fn one_user_does_not_take_all_the_room_of_requests_nor_of_reports() {
    let (began, mut begun) = unbounded_channel();
    let keys = Keys::new();
    keys.issue(80, [8; 32], 8);
    let (give, mut given) = unbounded_channel();
    let answers: Box<Answers> = Box::new({
        let began = began.clone();
        move |_, _| {
            let answer = when_told(&give);
            began.send(()).expect("the test goes on");
            answer
        }
    });
    let handler = WithoutReports(Fake { keys, answers }, began);
    let options = limited(|limits| (limits.requests_of_one, limits.reports_of_one) = (1, 1));
    let server = ControlServer::start("127.0.0.1:0", handler, options).expect("it listens");
    inside(async {
        let (channel, others) = (connection(server.address()).await, connection(server.address()).await);
        let token = session(&channel).await;
        let of_other = authenticated(&others, 80, &[8; 32]).await.expect("the key is right");
        let reporting = |channel: &Channel, token: &[u8]| {
            let (channel, token) = (channel.clone(), token.to_vec());
            tokio::spawn(async move { report(&channel, &token).await })
        };
        let (asked, reported) = (asking(&channel, &token), reporting(&channel, &token));
        for _ in 0..2 {
            begun.recv().await.expect("it began");
        }
        let failures = [ask(&channel, &token).await.map(drop), report(&channel, &token).await.map(drop)];
        for failure in failures {
            assert!(matches!(&failure, Err(Failure::Again(error)) if error.kind == Kind::Busy), "{failure:?}");
        }
        let (asked_by_other, reported_by_other) = (asking(&others, &of_other), reporting(&others, &of_other));
        for _ in 0..2 {
            begun.recv().await.expect("there is room for another user");
        }
        // What is given up makes room once it is done.
        asked.abort();
        let answer = given.recv().await.expect("it began");
        answer.send(Ok(Reply::Done)).expect("it is waited for");
        let trying = tokio::spawn(async move { while let Err(Failure::Again(_)) = ask(&channel, &token).await {} });
        begun.recv().await.expect("another one began");
        [reported, reported_by_other].into_iter().for_each(|one| one.abort());
        asked_by_other.abort();
        trying.abort();
    });
}

/// A message of which nothing comes.
struct Nothing;

impl http_body::Body for Nothing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Pending
    }
}

#[test]
fn a_request_whose_message_does_not_come_makes_room_soon() {
    let server = serve(limited(|limits| {
        (limits.requests, limits.message, limits.answer) = (1, Duration::from_millis(50), PATIENCE)
    }));
    inside(async {
        let channel = connection(server.address()).await;
        let token = session(&channel).await;
        let mut request =
            http::Request::post("/forebay.control.v1.Control/Ask").body(Body::new(Nothing)).expect("a request");
        *request.headers_mut() = with_token((), &token).metadata().clone().into_headers();
        request.headers_mut().insert("content-type", "application/grpc".parse().expect("a value"));
        let mut silent = channel.clone();
        std::future::poll_fn(|context| silent.poll_ready(context)).await.expect("a connection");
        let answered = tokio::time::timeout(Duration::from_secs(20), silent.call(request)).await;
        let answered = answered.expect("it is not waited for any longer").expect("an answer");
        assert_eq!(
            Status::from_header_map(answered.headers()).map(|why| why.code()),
            Some(tonic::Code::DeadlineExceeded)
        );
        assert_eq!(ask(&channel, &token).await, Ok(Reply::Done));
    });
}
