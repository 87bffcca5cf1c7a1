use super::*;
use crate::conformance::fabric::{Ground, run as check};
use crate::fabric::NetworkEnv;
use forebay_model::Kind;

/// Connects to `address` and says of what kind the error was.
async fn refusal(env: &NetworkEnv, address: &str) -> Error {
    env.fabric.connect(address).await.err().unwrap()
}

#[test]
fn errors_say_what_to_do() {
    run_network(|env| async move {
        let door = env.fabric.listen("127.0.0.1:0").await.unwrap();
        let taken = env.fabric.listen(&door.address()).await.err().unwrap();
        assert_eq!(taken.kind, Kind::Busy, "{taken}");
        let foreign = env.fabric.listen("192.0.2.1:0").await.err().unwrap();
        assert_eq!(foreign.kind, Kind::Usage, "{foreign}");
        for address in ["nonsense", "127.0.0.1", "127.0.0.1:http"] {
            assert_eq!(refusal(&env, address).await.kind, Kind::Usage, "{address}");
        }
        let address = door.address();
        drop(door);
        let nobody = refusal(&env, &address).await;
        assert_eq!(nobody.kind, Kind::Missing, "{nobody}");
        assert!(nobody.message.contains(&address), "{nobody}");
    })
    .unwrap();
}

#[test]
fn a_name_that_nobody_has_cannot_be_reached() {
    let error = run_network(|env| async move { refusal(&env, "nobody.invalid:7400").await }).unwrap();
    assert_eq!(error.kind, Kind::Disconnected, "{error}");
    assert!(error.message.contains("nobody.invalid"), "{error}");
}

#[test]
fn names_are_looked_up() {
    run_network(|env| async move {
        let door = env.fabric.listen("localhost:0").await.unwrap();
        let port = door.address().rsplit_once(':').unwrap().1.to_string();
        let taken = env.spawner.spawn(async move { door.accept().await.unwrap().peer });
        let duplex = env.fabric.connect(&format!("localhost:{port}")).await.unwrap();
        assert!(duplex.peer.ends_with(&port), "{}", duplex.peer);
        assert!(taken.await.contains(':'));
    })
    .unwrap();
}

#[test]
fn what_takes_too_long_is_given_up() {
    run_network(|_| async move {
        let clock = RealClock::default();
        // The clock of no loop: its timers are ours to fire.
        let mut waiting = Box::pin(within(&clock, CONNECT_LIMIT, std::future::pending::<()>()));
        std::future::poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            clock.fire(clock.now() + CONNECT_LIMIT);
            assert_eq!(waiting.as_mut().poll(context), Poll::Ready(None));
            Poll::Ready(())
        })
        .await;
        assert_eq!(within(&clock, CONNECT_LIMIT, async { 7 }).await, Some(7));
    })
    .unwrap();
}

#[test]
fn tcp_keeps_its_word() {
    let ground = |env: NetworkEnv| Ground { listening: env.clone(), connecting: env, address: "127.0.0.1:0".into() };
    run_network(|env| async move { check(ground(env)).await }).unwrap().assert();
}
