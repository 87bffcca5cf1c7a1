//! Memory that nobody may keep from others.

use super::frames::greeted;
use super::*;
use crate::host::TargetHandle;
use crate::service::Order;
use forebay_env::conformance::streams::send;
use forebay_env::mailbox::mailbox;
use forebay_wire::object::MOST_ATTRIBUTES;
use futures_io::AsyncWrite;

#[test]
fn who_is_refused_and_does_not_listen_takes_no_memory() {
    with_node(Bounds { patience: Duration::from_millis(200), ..Bounds::default() }, |rig| async move {
        let Duplex { read: _from, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
        let frame = |n| Frame::of(RequestId(n), Command(99), Flags::NONE, &()).expect("it fits").to_bytes();
        let bytes: Vec<u8> = std::iter::once(hello()).chain((1..200_000).map(frame)).flatten().collect();
        let mut sent = 0;
        // It is ended with most of it not even taken in.
        let ended = std::future::poll_fn(|context| {
            while sent < bytes.len() {
                match std::pin::Pin::new(&mut write).poll_write(context, &bytes[sent..]) {
                    std::task::Poll::Ready(Ok(count)) => sent += count,
                    std::task::Poll::Ready(Err(_)) => return std::task::Poll::Ready(true),
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                }
                assert!(rig.node.memory_used() <= Bytes::kib(64));
            }
            std::task::Poll::Ready(false)
        })
        .await;
        assert!(ended, "{sent} of {} bytes were taken", bytes.len());
    });
}

#[test]
fn answers_that_nobody_takes_any_more_leave_the_memory_to_others() {
    with_node(Bounds { memory: Bytes::mib(1), ..Bounds::default() }, |rig| async move {
        let (other, all) = rig.made().await;
        rig.ask(&other, &all, write(0), vec![7; 400_000]).await.expect("it is durable");
        // It asks for four of them, and lets nothing of any come.
        let (source, mut write, nonces) = greeted(&rig).await;
        let body = ObjectRequest::new(rig.target, read(0, 400_000)).body().expect("it fits");
        for number in 1..=4 {
            let shown = rig.shown(&all);
            let frame =
                Frame::shown(RequestId(number), Command::READ_OBJECT, 0, &body, Vec::<u8>::new(), (&shown, &nonces));
            send(&mut write, &frame.expect("it fits").to_bytes()).await.expect("it hears");
        }
        while rig.node.memory_used().0 < 800_000 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        drop((source, write));
        let read = rig.ask(&other, &all, read(0, 400_000), Vec::new()).await.expect("there is memory for it");
        assert_eq!(read.payload.len(), 400_000);
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}

#[test]
fn requests_of_64_mebibytes_are_whole_and_one_at_a_time_has_memory() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        let most = LARGEST.0 as usize;
        let content = |n: u8| (0..most).map(|at| (at / 4096) as u8 ^ n).collect::<Vec<u8>>();
        rig.ask(&link, &all, write(0), content(1)).await.expect("it is durable");
        let asked = read(0, most as u32);
        let read_back = rig.ask(&link, &all, asked.clone(), Vec::new()).await.expect("bytes").payload.into_vec();
        assert!(read_back == content(1));
        for too_large in [read(0, most as u32 + 1), read(0, u32::MAX)] {
            assert_eq!(kind(rig.ask(&link, &all, too_large, Vec::new()).await), Kind::Usage);
        }
        assert_eq!(kind(rig.ask(&link, &all, write(0), vec![0; most + 1]).await), Kind::Usage);
        // Of those that are larger than a connection's window, two do not find room at once.
        let length = most / 3 * 2;
        let left = Rc::new(std::cell::Cell::new(0));
        for n in 0..3 {
            let (rig, link, all) = (rig.clone(), rig.link(Credit::new(1 << 20)).await, all.clone());
            let left = left.clone();
            left.set(left.get() + 1);
            rig.env.spawner.clone().detach(async move {
                rig.ask(&link, &all, write(0), vec![n; length]).await.expect("it is durable");
                let read = rig.ask(&link, &all, super::read(0, length as u32), Vec::new()).await.expect("bytes");
                let read = read.payload.into_vec();
                assert!(read.len() == length && read.iter().all(|byte| *byte == read[0]));
                left.set(left.get() - 1);
            });
        }
        let mut used = Bytes::ZERO;
        while left.get() > 0 {
            rig.env.clock.sleep(Duration::from_micros(100)).await;
            used = used.max(rig.node.memory_used());
        }
        // One that writes and one that reads.
        assert!((length..2 * length + (1 << 20)).contains(&(used.0 as usize)), "{used}");
        let rest = rig.ask(&link, &all, read(length as u64, (most - length) as u32), Vec::new()).await.expect("bytes");
        assert!(rest.payload.into_vec() == content(1)[length..]);
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}

#[test]
fn no_more_attributes_are_asked_for_than_there_is_memory_for_and_what_is_small_goes_past_them() {
    let (to_target, mut orders) = mailbox();
    real::run_network(|env| async move {
        let door = TargetDoor { id: TargetId(5), handle: TargetHandle::new(to_target) };
        let rig = served(env, vec![door], Bounds::default()).await;
        let (other, all) = (rig.link(Credit::new(1 << 20)).await, rig.capability(Rights::ALL));
        let (mut source, mut write, nonces) = greeted(&rig).await;
        let ask = Ask::Attributes { id: OBJECT, page: 1, from: 0 };
        let (body, shown) = (ObjectRequest::new(rig.target, ask).body().expect("it fits"), rig.shown(&all));
        for number in 1..=200 {
            let shown = (&shown, &nonces);
            let frame = Frame::shown(RequestId(number), Command::ATTRIBUTES, 0, &body, Vec::<u8>::new(), shown);
            send(&mut write, &frame.expect("it fits").to_bytes()).await.expect("it hears");
        }
        let ping = Frame::of(RequestId(201), Command::PING, Flags::NONE, &()).expect("it fits").to_bytes();
        send(&mut write, &ping).await.expect("it hears");
        // By then all of them were taken in.
        while source.receive().await.expect("it goes on").expect("an answer").request != RequestId(201) {}
        let small = rig.env.spawner.spawn({
            let (rig, other, all) = (rig.clone(), other.clone(), all.clone());
            async move { rig.ask(&other, &all, Ask::Stat { id: OBJECT, page: None }, Vec::new()).await }
        });
        let mut asked = Vec::new();
        loop {
            let Some(Order::Object { request, answer, .. }) = orders.receive().await else { panic!("no request") };
            if matches!(request.ask, Ask::Stat { .. }) {
                break;
            }
            asked.push(answer);
        }
        // Nobody answered it.
        assert_eq!(kind(small.await), Kind::Disconnected);
        let (held, used) = (asked.len() * MOST_ATTRIBUTES, rig.node.memory_used().0 as usize);
        assert!(held > 0 && held <= used && used <= 4 << 20, "{} were asked for: {used} bytes", asked.len());
        // As they go, the others come to their turn.
        let taking = rig.env.spawner.spawn(async move {
            let mut left = 200;
            while left > 0 {
                let head = source.receive().await.expect("it goes on").expect("an answer");
                if head.command == Command::ATTRIBUTES {
                    assert!(!head.flags.has(Flags::ERROR), "{head:?}");
                    left -= 1;
                }
            }
        });
        let mut waiting = asked.into_iter();
        for _ in 0..200 {
            let answer = match waiting.next() {
                Some(answer) => answer,
                None => match orders.receive().await {
                    Some(Order::Object { answer, .. }) => answer,
                    _ => panic!("no request"),
                },
            };
            let values = vec![(1, vec![7; 200_000])];
            let reply = ObjectReply::Attributes { values, next: None };
            answer.send(Ok(ObjectAnswer::from(reply)), 0).await;
        }
        taking.await;
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    })
    .expect("the loop of the network");
}
