#![allow(clippy::disallowed_methods)]

use super::*;
use crate::fake::{Asked, KEY, Keys, SECRET, Who, large_reply, never, now, question, serve, serve_at, when_told};
use crate::{ControlServer, Limits, MOST_MESSAGE, ServerOptions, ServerTls};
use forebay_env::real::run_network;
use forebay_model::{Error, Kind, Timestamp};
use forebay_wire::control::REMEMBERED;
use forebay_wire::control::access::{IssueKey, RevokeKey};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::unbounded_channel;

/// On the loop of a process that talks to other machines, as clients and nodes have it.
fn inside<F: Future<Output: 'static> + 'static>(test: F) -> F::Output {
    run_network(|_| test).expect("a loop")
}

fn key() -> AccessKey {
    AccessKey { key: KEY, secret: SECRET }
}

/// With patience that only what never ends uses up.
fn patient() -> ClientOptions {
    ClientOptions { client: Some(5), patience: Duration::from_secs(600), ..ClientOptions::default() }
}

const HASTY: Duration = Duration::from_millis(500);

fn hasty(patience: Duration) -> ClientOptions {
    ClientOptions { patience, ..patient() }
}

/// A client that soon gives up, once it is connected, which may take it several times by chance.
async fn connected_hasty(address: &str, patience: Duration) -> ControlClient {
    loop {
        if let Ok(client) = ControlClient::connect(address, key(), hasty(patience)).await {
            return client;
        }
    }
}

async fn connected(server: &ControlServer) -> ControlClient {
    ControlClient::connect(&server.address().to_string(), key(), patient()).await.expect("it answers")
}

fn revoke(key: u64) -> Change {
    Change::RevokeKey(RevokeKey { key })
}

#[test]
fn what_is_asked_is_answered() {
    let (heard, mut asked) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |who, asked| {
        heard.send((who.clone(), asked)).expect("the test goes on");
        now(Ok(Reply::Done))
    });
    inside(async move {
        let options = ClientOptions { sequence: 40, ..patient() };
        let client = ControlClient::connect(&server.address().to_string(), key(), options).await.expect("it answers");
        let call = Call { sequence: 3, change: revoke(1) };
        assert_eq!(client.call(call.clone()).await, Ok(Reply::Done));
        assert_eq!(client.clone().ask(question()).await, Ok(Reply::Done));
        assert_eq!(client.change(revoke(2)).await, Ok(Reply::Done));
        assert_eq!(client.clone().change(revoke(3)).await, Ok(Reply::Done));
        let who = Who { user: 7, client: 5 };
        let expected = [
            Asked::Call(call),
            Asked::Question(question()),
            Asked::Call(Call { sequence: 40, change: revoke(2) }),
            Asked::Call(Call { sequence: 41, change: revoke(3) }),
        ];
        for expected in expected {
            assert_eq!(asked.recv().await, Some((who.clone(), expected)));
        }
        let report = Report { node: 11, address: "node:1".into(), targets: vec![], wall: Timestamp(3) };
        assert_eq!(
            client.report(report).await,
            Ok(Reported { epoch: 11, least_epoch: 7, targets: vec![], wall: Timestamp(3), shut_out: vec![] })
        );
        assert_eq!((client.client(), client.address()), (5, server.address().to_string().as_str()));
    });
}

#[test]
fn every_kind_of_error_arrives_as_it_was() {
    // After that one it is asked again.
    let kinds = || Kind::ALL.into_iter().filter(|kind| *kind != Kind::Disconnected);
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        let Asked::Call(call) = asked else { return never() };
        let kind = kinds().nth(call.sequence as usize).expect("there is one");
        now(Err(Error::new(kind, "a sentence with \u{e4} and % and\na line")))
    });
    inside(async move {
        let client = connected(&server).await;
        for (sequence, kind) in (0..).zip(kinds()) {
            let answer = client.call(Call { sequence, change: revoke(1) }).await;
            assert_eq!(answer, Err(Error::new(kind, "a sentence with \u{e4} and % and\na line")));
        }
    });
}

#[test]
fn a_wrong_key_or_secret_is_told_at_once() {
    let server = serve(ServerOptions::default());
    inside(async move {
        let address = server.address().to_string();
        for wrong in [AccessKey { secret: [0; 32], ..key() }, AccessKey { key: 999, ..key() }] {
            let refused = ControlClient::connect(&address, wrong, patient()).await.err();
            assert_eq!(refused.map(|error| error.kind), Some(Kind::Forbidden));
        }
    });
}

#[test]
fn whoever_is_not_there_is_named_with_how_long_it_was_tried() {
    let server = serve(ServerOptions::default());
    let address = server.address().to_string();
    inside(async move {
        let client = connected_hasty(&address, HASTY).await;
        drop(server);
        let again = ControlClient::connect(&address, key(), hasty(HASTY)).await.map(|_| ());
        for outcome in [client.ask(question()).await.map(|_| ()), again] {
            let error = outcome.expect_err("nobody is there");
            assert_eq!(error.kind, Kind::Disconnected);
            for part in [address.as_str(), "0.5 s", "refused"] {
                assert!(error.message.contains(part), "{error} does not say {part}");
            }
        }
    });
}

#[test]
fn a_change_is_asked_for_again_under_its_number_when_the_manager_comes_back() {
    let (heard, mut asked) = unbounded_channel();
    let first = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), {
        let heard = heard.clone();
        move |_, asked| {
            heard.send(asked).expect("the test goes on");
            never()
        }
    });
    let address = first.address().to_string();
    inside(async move {
        let client = ControlClient::connect(&address, key(), patient()).await.expect("it answers");
        let calling = async {
            let call = Call { sequence: 9, change: revoke(1) };
            assert_eq!(client.call(call).await, Ok(Reply::Done));
        };
        let restarting = async {
            let before = asked.recv().await;
            drop(first);
            let second = serve_at(&address, &Keys::new(), ServerOptions::default(), move |_, asked| {
                heard.send(asked).expect("the test goes on");
                now(Ok(Reply::Done))
            });
            assert_eq!(asked.recv().await, before);
            second
        };
        tokio::join!(calling, restarting);
    });
}

#[test]
fn what_the_manager_could_not_try_is_asked_again() {
    let tried = AtomicBool::new(false);
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, _| {
        let first = !tried.swap(true, Ordering::SeqCst);
        now(if first { Err(Error::disconnected("the manager begins anew")) } else { Ok(Reply::Done) })
    });
    inside(async move {
        assert_eq!(connected(&server).await.ask(question()).await, Ok(Reply::Done));
    });
}

#[test]
fn a_server_without_room_is_asked_again_until_there_is_some() {
    let (began, mut begun) = unbounded_channel();
    let options = ServerOptions { limits: Limits { requests: 1, ..Limits::default() }, ..ServerOptions::default() };
    let server = serve_at("127.0.0.1:0", &Keys::new(), options, move |_, _| when_told(&began));
    inside(async move {
        let client = connected(&server).await;
        let mut one = Box::pin(client.ask(question()));
        let answer = tokio::select! {
            _ = &mut one => panic!("it is not answered yet"),
            answer = begun.recv() => answer.expect("it began"),
        };
        // On a machine that has no time for it, it may have heard nothing when it gives up, and is given longer.
        let mut patience = HASTY;
        let refused = loop {
            let impatient = connected_hasty(client.address(), patience).await;
            match impatient.ask(question()).await.map_err(|error| error.kind) {
                Err(Kind::Disconnected) if patience < Duration::from_secs(60) => patience *= 2,
                refused => break refused,
            }
        };
        assert_eq!(refused, Err(Kind::Busy));
        let mut other = Box::pin(client.ask(question()));
        tokio::select! {
            biased;
            _ = &mut other => panic!("it is never answered"),
            _ = begun.recv() => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        // The first is given up and done, and so there is room for the other.
        drop(one);
        answer.send(Ok(Reply::Done)).expect("it is waited for");
        tokio::select! {
            _ = other => panic!("it is not answered yet"),
            answer = begun.recv() => drop(answer),
        }
    });
}

#[test]
fn so_much_is_asked_at_once_and_more_waits() {
    let (began, mut begun) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        let (answer, answered) = tokio::sync::oneshot::channel();
        began.send((asked, answer)).expect("the test goes on");
        Box::pin(async move { answered.await.expect("the test answers") })
    });
    inside(async move {
        let options = ClientOptions { at_once: 1, ..patient() };
        let client = ControlClient::connect(&server.address().to_string(), key(), options).await.expect("it answers");
        let calls = async { tokio::join!(client.change(revoke(1)), client.change(revoke(2))) };
        let answering = async {
            for sequence in [1, 2] {
                let (asked, answer) = begun.recv().await.expect("one began");
                assert_eq!(asked, Asked::Call(Call { sequence, change: revoke(sequence) }));
                assert!(begun.try_recv().is_err(), "only one is under way");
                answer.send(Ok(Reply::Done)).expect("it is waited for");
            }
        };
        assert_eq!(tokio::join!(calls, answering).0, (Ok(Reply::Done), Ok(Reply::Done)));
    });
}

#[test]
fn a_change_that_is_not_answered_yet_is_not_overtaken_by_so_many_that_its_number_is_too_low() {
    let (began, mut begun) = unbounded_channel();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        let Asked::Call(Call { sequence, .. }) = asked else { return now(Ok(Reply::Done)) };
        began.send(sequence).expect("the test goes on");
        if sequence == 1 { never() } else { now(Ok(Reply::Done)) }
    });
    inside(async move {
        let client = connected(&server).await;
        let mut first = Box::pin(client.change(revoke(1)));
        tokio::select! {
            _ = &mut first => panic!("it is never answered"),
            sequence = begun.recv() => assert_eq!(sequence, Some(1)),
        }
        for sequence in 2..=REMEMBERED {
            assert_eq!(client.change(revoke(1)).await, Ok(Reply::Done));
            assert_eq!(begun.recv().await, Some(sequence));
        }
        let mut next = Box::pin(client.change(revoke(1)));
        // A question that is answered meanwhile: it had its time.
        tokio::select! {
            biased;
            _ = &mut next => panic!("its number would make the first one too low"),
            answer = client.ask(question()) => assert_eq!(answer, Ok(Reply::Done)),
        }
        assert!(begun.try_recv().is_err(), "it waits");
        drop(first);
        assert_eq!(next.await, Ok(Reply::Done));
        assert_eq!(begun.recv().await, Some(REMEMBERED + 1));
    });
}

#[test]
fn what_is_too_large_is_refused_and_not_sent() {
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), |_, asked| match asked {
        Asked::Call(_) => never(),
        Asked::Question(_) => now(Ok(large_reply(MOST_MESSAGE))),
    });
    inside(async move {
        let client = connected(&server).await;
        let change = Change::IssueKey(IssueKey { user: 7, label: "x".repeat(MOST_MESSAGE) });
        let refused = client.change(change).await.expect_err("it is too large");
        assert_eq!(refused.kind, Kind::Usage);
        assert!(refused.message.contains(&MOST_MESSAGE.to_string()), "{refused}");
        let refused = client.ask(question()).await.expect_err("it is too large");
        assert_eq!(refused.kind, Kind::Refused);
    });
}

#[test]
fn a_message_of_the_largest_size_passes() {
    let largest = Arc::new(Mutex::new(0));
    let seen = largest.clone();
    let server = serve_at("127.0.0.1:0", &Keys::new(), ServerOptions::default(), move |_, asked| {
        let Asked::Call(Call { change: Change::IssueKey(issue), .. }) = asked else { return never() };
        *seen.lock().expect("no panic") = issue.label.len();
        now(Ok(large_reply(issue.label.len())))
    });
    inside(async move {
        let client = connected(&server).await;
        let length = MOST_MESSAGE - 100;
        let change = Change::IssueKey(IssueKey { user: 7, label: "x".repeat(length) });
        assert_eq!(client.change(change).await, Ok(large_reply(length)));
        assert_eq!(*largest.lock().expect("no panic"), length);
    });
}

/// Files with an authority, and with what it vouches for.
struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Certificates {
        let directory = tempfile::tempdir().expect("a directory");
        let authority_key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(vec![]).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).expect("a certificate").pem();
        let issuer = Issuer::new(authority, authority_key);
        let own_key = KeyPair::generate().expect("a key");
        let names = vec!["manager.example".to_string(), "127.0.0.1".to_string()];
        let own = CertificateParams::new(names).expect("names").signed_by(&own_key, &issuer).expect("a certificate");
        let certificates = Certificates { directory };
        let files = [("authority", authority_pem), ("own", own.pem()), ("key", own_key.serialize_pem())];
        for (name, text) in files {
            std::fs::write(certificates.path(name), text).expect("it can be written");
        }
        certificates
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self) -> ServerOptions {
        let tls = ServerTls { certificate: self.path("own"), key: self.path("key") };
        ServerOptions { tls: Some(tls), ..ServerOptions::default() }
    }

    fn client(&self, name: Option<&str>, options: ClientOptions) -> ClientOptions {
        let tls = ClientTls { authority: self.path("authority"), name: name.map(str::to_string) };
        ClientOptions { tls: Some(tls), ..options }
    }
}

#[test]
fn with_tls_it_asks_whom_its_authority_vouches_for() {
    let certificates = Certificates::new();
    let keys = Keys::new();
    let server = serve_at("0.0.0.0:0", &keys, certificates.server(), |_, _| now(Ok(Reply::Done)));
    inside(async move {
        let address = format!("127.0.0.1:{}", server.address().port());
        for name in [None, Some("manager.example")] {
            let options = certificates.client(name, patient());
            let client = ControlClient::connect(&address, key(), options).await.expect("it is vouched for");
            assert_eq!(client.ask(question()).await, Ok(Reply::Done));
        }
        let wrong_name = certificates.client(Some("other.example"), hasty(HASTY));
        let others = Certificates::new();
        let wrong_authority = others.client(None, hasty(HASTY));
        let refusals = [
            (wrong_name, Kind::Forbidden, "other.example"),
            (wrong_authority, Kind::Forbidden, "authority.pem"),
            (patient(), Kind::Usage, "--ca"),
        ];
        for (options, kind, says) in refusals {
            let error = ControlClient::connect(&address, key(), options).await.err().expect("it is not trusted");
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(says) && error.message.contains(&address), "{error}");
        }
        let plain = serve(ServerOptions::default());
        let options = certificates.client(None, patient());
        let refused = ControlClient::connect(&plain.address().to_string(), key(), options).await.err();
        let error = refused.expect("it shows nothing");
        assert!(error.kind == Kind::Usage && error.message.contains("does not speak TLS"), "{error}");
    });
}

#[test]
fn files_that_hold_no_certificates_are_named() {
    let certificates = Certificates::new();
    for (file, text) in [("own", "nonsense"), ("key", "nonsense"), ("authority", "nonsense")] {
        std::fs::write(certificates.path(file), text).expect("it can be written");
    }
    let fake = crate::fake::Fake { keys: Keys::new(), answers: Box::new(|_, _| never()) };
    let refused = ControlServer::start("127.0.0.1:0", fake, certificates.server()).err().expect("no certificate");
    assert_eq!(refused.kind, Kind::Usage);
    assert!(refused.message.contains("own"), "{refused}");
    inside(async move {
        std::fs::remove_file(certificates.path("authority")).expect("it was there");
        let options = certificates.client(None, hasty(HASTY));
        let refused = ControlClient::connect("127.0.0.1:1", key(), options).await.err().expect("no authority");
        assert_eq!(refused.kind, Kind::Missing);
        assert!(refused.message.contains("authority"), "{refused}");
    });
}

#[test]
fn beyond_this_machine_it_asks_nobody_without_tls() {
    inside(async {
        for address in ["192.0.2.1:7500", "manager.example:7500"] {
            let refused = ControlClient::connect(address, key(), patient()).await.err();
            assert_eq!(refused.map(|error| error.kind), Some(Kind::Usage), "{address}");
        }
    });
}

#[test]
fn a_client_shows_its_secret_to_nobody() {
    let shown = format!("{:?}", AccessKey { key: 1, secret: [222; 32] });
    assert!(shown.contains("not told") && !shown.contains("222"), "{shown}");
}
