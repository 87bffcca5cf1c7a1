#![allow(clippy::disallowed_methods)]

use super::*;
use crate::conformance::fabric::{Ground, run as check};
use crate::conformance::streams::{fill, rest, send};
use crate::fabric::{Duplex, NetworkEnv};
use crate::real::{run_network, run_network_with};
use forebay_model::Kind;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::PathBuf;

/// An authority, and files with what it signed.
struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("authority"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { dir, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Shows a certificate for `name`, in years from 1990 to this one.
    fn showing(&self, name: &str, until: i32) -> Tls {
        let mut params = CertificateParams::new([name.to_string()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(1990, 1, 1), date_time_ymd(until, 1, 1));
        let key = KeyPair::generate().unwrap();
        std::fs::write(self.path("own"), params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(self.path("key"), key.serialize_pem()).unwrap();
        Tls::default().showing(&self.path("own"), &self.path("key")).unwrap()
    }

    fn trusting(&self) -> Tls {
        Tls::default().trusting(&self.path("authority")).unwrap()
    }
}

/// What whoever trusts one is told at a door that shows another, or nothing: each on a thread of its own.
fn meet(shows: Tls, trusts: Tls) -> Result<Vec<u8>> {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = crate::pipe::pipe::<()>(0);
    let serving = std::thread::spawn(move || {
        run_network_with(shows, |env: NetworkEnv| async move {
            let door = env.fabric.listen("127.0.0.1:0").await.unwrap();
            tell.send(door.address()).unwrap();
            let mut ended = ended;
            let spawner = env.spawner.clone();
            env.spawner.detach(async move {
                while let Ok(Duplex { mut read, mut write, .. }) = door.accept().await {
                    spawner.detach(async move {
                        let mut asked = [0; 4];
                        if fill(&mut read, &mut asked).await.is_ok_and(|count| count == 4 && asked == *b"ping") {
                            send(&mut write, b"pong").await.unwrap();
                        }
                    });
                }
            });
            ended.receive().await;
        })
        .unwrap();
    });
    let address = told.recv().unwrap();
    let met = run_network_with(trusts, |env| async move {
        let Duplex { mut read, mut write, .. } = env.fabric.connect(&address).await?;
        let lost = |error: std::io::Error| match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => error.clone(),
            None => Error::disconnected(error.to_string()),
        };
        send(&mut write, b"ping").await.map_err(lost)?;
        rest(&mut read).await.map_err(lost)
    });
    drop(end);
    serving.join().unwrap();
    met.unwrap()
}

#[test]
fn tls_keeps_the_word_of_a_network() {
    let authority = Authority::new();
    let tls = authority.showing("127.0.0.1", 2999);
    let tls = tls.trusting(&authority.path("authority")).unwrap();
    let ground = |env: NetworkEnv| Ground { listening: env.clone(), connecting: env, address: "127.0.0.1:0".into() };
    run_network_with(tls, |env| async move { check(ground(env)).await }).unwrap().assert();
}

#[test]
fn who_is_not_vouched_for_is_not_spoken_to_and_it_is_said_why() {
    let (authority, other) = (Authority::new(), Authority::new());
    assert_eq!(meet(authority.showing("127.0.0.1", 2999), authority.trusting()).unwrap(), b"pong");
    for (shows, trusts, kind, words) in [
        (other.showing("127.0.0.1", 2999), authority.trusting(), Kind::Forbidden, "authority.pem"),
        (authority.showing("127.0.0.1", 2001), authority.trusting(), Kind::Stale, "has run out"),
        (authority.showing("10.0.0.7", 2999), authority.trusting(), Kind::Forbidden, "other names"),
    ] {
        let error = meet(shows, trusts).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words) && error.message.contains("127.0.0.1"), "{error}");
    }
}

#[test]
fn whoever_speaks_no_tls_is_told_apart() {
    let authority = Authority::new();
    // Who does not know TLS gets an alert of it, and nothing else.
    let said = meet(authority.showing("127.0.0.1", 2999), Tls::default()).unwrap();
    assert_eq!(said[..2], [21, 3], "{said:?}");
    let error = meet(Tls::default(), authority.trusting()).unwrap_err();
    assert_eq!(error.kind, Kind::Disconnected, "{error}");
    assert!(error.message.contains("does it speak TLS?"), "{error}");
}

#[test]
fn of_a_connection_that_ends_before_its_handshake_nothing_is_left() {
    let authority = Authority::new();
    run_network_with(authority.showing("127.0.0.1", 2999), |env| async move {
        let door = env.fabric.listen("127.0.0.1:0").await.unwrap();
        let address = door.address();
        let (tell, mut ended) = crate::mailbox::mailbox();
        let silent = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            // It says nothing, and hears nothing but the end.
            let heard = std::io::Read::read(&mut stream, &mut [0; 9]);
            tell.send(heard.unwrap_or(0)).unwrap();
        });
        let before = env.spawner.detached();
        drop(door.accept().await.unwrap());
        assert_eq!(ended.receive().await, Some(0));
        silent.join().unwrap();
        // What ended it does so with its last step.
        crate::yield_now().await;
        assert_eq!(env.spawner.detached(), before);
    })
    .unwrap();
}

#[test]
fn files_that_hold_something_else_are_named() {
    let authority = Authority::new();
    drop(authority.showing("127.0.0.1", 2999));
    std::fs::write(authority.path("text"), "no certificate").unwrap();
    let [own, key, text] = ["own", "key", "text"].map(|name| authority.path(name));
    for (outcome, name) in [
        (Tls::default().showing(&text, &key), "text"),
        (Tls::default().showing(&own, &text), "text"),
        (Tls::default().showing(&own, &own), "own"),
        (Tls::default().showing(&authority.path("authority"), &key), "authority"),
        (Tls::default().trusting(&text), "text"),
        (Tls::default().trusting(&key), "key"),
    ] {
        let error = outcome.err().unwrap();
        assert!(error.kind == Kind::Usage && error.message.contains(name), "{error}");
    }
    assert_eq!(Tls::default().trusting(&authority.path("nothing")).err().unwrap().kind, Kind::Missing);
    let shown = authority.showing("127.0.0.1", 2999);
    shown.check_name("127.0.0.1:7400").unwrap();
    assert_eq!(shown.check_name("127.0.0.2:7400").unwrap_err().kind, Kind::Usage);
    let strange = run_network(|_| async { name_of("[::1]:7400").is_ok() && name_of("host_1:1").is_ok() });
    assert!(strange.unwrap());
}
