use super::*;
use crate::conformance::fabric::{Ground, run as check};
use crate::fabric::NetworkEnv;
use forebay_model::Kind;
use std::task::Poll;

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
fn all_addresses_that_a_machine_may_take_are_of_one_machine() {
    let machine = |address: &str| super::Far::of(address.parse().unwrap()).machine;
    assert_eq!(machine("10.1.2.3:400"), machine("[::ffff:10.1.2.3]:7"));
    assert_ne!(machine("10.1.2.3:400"), machine("10.1.2.4:400"));
    assert_eq!(machine("[2001:db8:1:2:a::1]:400"), machine("[2001:db8:1:2:b:c:d:e]:7"));
    assert_ne!(machine("[2001:db8:1:2::1]:400"), machine("[2001:db8:1:3::1]:400"));
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
fn an_address_that_is_silent_leaves_time_for_the_next_one() {
    run_network(|_| async move {
        let clock = RealClock::default();
        let places = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"].map(|place| place.parse().unwrap());
        let end = clock.now() + CONNECT_LIMIT;
        let attempt = |place: SocketAddr| async move {
            match place.ip().to_string().as_str() {
                "192.0.2.1" => std::future::pending().await,
                "192.0.2.2" => Err(ErrorKind::ConnectionRefused.into()),
                "192.0.2.3" => Ok("there"),
                _ => panic!("one is enough"),
            }
        };
        let mut connecting = Box::pin(first(&clock, end, &places, attempt));
        std::future::poll_fn(|context| {
            assert!(connecting.as_mut().poll(context).is_pending());
            // A quarter of the time is that of the first one.
            clock.fire(clock.now() + CONNECT_LIMIT / 4);
            let Poll::Ready(Ok((said, place))) = connecting.as_mut().poll(context) else { panic!("it waits") };
            assert_eq!((said, place), ("there", places[2]));
            Poll::Ready(())
        })
        .await;
        let refused = |_| async { Err::<(), _>(ErrorKind::ConnectionRefused.into()) };
        assert!(matches!(first(&clock, end, &places, refused).await, Err(Failed::With(_))));
        assert!(matches!(first(&clock, end, &[], refused).await, Err(Failed::Nowhere)));
    })
    .unwrap();
}

#[test]
fn what_the_network_did_to_a_peer_ends_no_door() {
    use libc::{EACCES, EMFILE, ENOMEM, EPERM, ETIMEDOUT};
    use libc::{EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENONET, ENOPROTOOPT, EOPNOTSUPP, EPROTO};
    let of = std::io::Error::from_raw_os_error;
    let network = [EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENONET, ENOPROTOOPT, EOPNOTSUPP, EPROTO];
    for code in network.into_iter().chain([EACCES, EMFILE, ENOMEM, EPERM, ETIMEDOUT]) {
        assert!(!of_the_door(&of(code)), "{}", of(code));
    }
    for code in [libc::EBADF, libc::EINVAL, libc::ENOTSOCK] {
        assert!(of_the_door(&of(code)), "{}", of(code));
    }
}

#[test]
fn tcp_keeps_its_word() {
    let ground = |env: NetworkEnv| Ground { listening: env.clone(), connecting: env, address: "127.0.0.1:0".into() };
    run_network(|env| async move { check(ground(env)).await }).unwrap().assert();
}
