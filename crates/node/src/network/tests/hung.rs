//! A target that hangs: what is asked of others finds memory, and connections that serve.

use super::*;
use crate::host::TargetHandle;
use crate::service::Order;
use forebay_env::mailbox::{Receiver, mailbox};
use forebay_env::race::{First, race};
use forebay_wire::frame::HEADER;
use forebay_wire::link::Coming;
use std::cell::Cell;

const HUNG: TargetId = TargetId(5);
const WELL: TargetId = TargetId(6);
const MIB: usize = 1 << 20;

/// A node with two targets, of which one takes what it is asked and answers nothing, as the two are reached; and what that was asked.
async fn rigs(env: NetworkEnv, bounds: Bounds) -> (Rig, Rig, Receiver<Order>) {
    let (to_hung, asked) = mailbox();
    let (to_well, mut orders) = mailbox();
    let doors =
        [(HUNG, to_hung), (WELL, to_well)].map(|(id, orders)| TargetDoor { id, handle: TargetHandle::new(orders) });
    let hung = served(env, doors.into(), bounds).await;
    let key = RootKey::new([3; 32]).of_target(WELL, 1);
    hung.node.keys().join(CLUSTER, WELL, [1; 32]);
    hung.node.keys().roll(WELL, key.clone());
    hung.node.keys().advance(WELL, 7, 0);
    let well = Rig { target: WELL, key, ..hung.clone() };
    hung.env.spawner.detach(async move {
        while let Some(order) = orders.receive().await {
            let Order::Object { request, answer, .. } = order else { panic!("nothing else is asked") };
            let reply = match request.ask {
                Ask::Read { .. } => ObjectReply::Bytes,
                Ask::Attributes { .. } => ObjectReply::Attributes { values: Vec::new(), next: None },
                _ => ObjectReply::Done,
            };
            answer.send(Ok(ObjectAnswer::from(reply)), 0).await;
        }
    });
    (hung, well, asked)
}

/// Asks this, and does not wait for the answer.
fn asked(rig: &Rig, link: &Link, ask: Ask) -> Coming {
    let (request, shown) = (ObjectRequest::new(rig.target, ask), rig.shown(&rig.capability(Rights::ALL)));
    let body = request.body().expect("it fits");
    let most = if let Ask::Read { length, .. } = request.ask { length as usize } else { 0 };
    let asked = Asked { command: request.command(), body: &body, payload: vec![], most, shown: Some(&shown) };
    link.ask(asked).expect("it is asked")
}

/// Asks this over a connection, and waits no longer than tests may.
async fn answered(rig: &Rig, link: &Link, ask: Ask, payload: Vec<u8>) -> Result<ObjectAnswer> {
    let all = rig.capability(Rights::ALL);
    match race(rig.ask(link, &all, ask, payload), rig.env.clock.sleep(Duration::from_secs(20))).await {
        First::Left(answer) => answer,
        First::Right(()) => panic!("nobody answers"),
    }
}

#[test]
fn what_waits_for_answers_of_a_target_that_hangs_leaves_memory_for_those_of_others() {
    real::run_network(|env| async move {
        let bounds = Bounds { memory: Bytes::mib(4), ..Bounds::default() };
        let (hung, well, _orders) = rigs(env, bounds).await;
        let attributes = || Ask::Attributes { id: OBJECT, page: 1, from: 0 };
        let mut waiting = Vec::new();
        let mut links = Vec::new();
        for _ in 0..3 {
            let link = hung.link(Credit::new(64 << 20)).await;
            for _ in 0..20 {
                waiting.push(asked(&hung, &link, attributes()));
                waiting.push(asked(&hung, &link, read(0, MIB as u32)));
            }
            link.ping().expect("it is asked").await.expect("it is there");
            links.push(link);
        }
        // Over another connection, and over one of the same.
        let other = well.link(Credit::new(1 << 20)).await;
        for link in [&other, &links[0]] {
            answered(&well, link, attributes(), vec![]).await.expect("it is told");
            answered(&well, link, read(0, MIB as u32), vec![]).await.expect("it is read");
        }
        drop(waiting);
    })
    .expect("the loop of the network");
}

#[test]
fn what_is_written_to_a_target_that_hangs_leaves_memory_for_others_and_is_refused_before_others_wait_behind_it() {
    real::run_network(|env| async move {
        let patience = Duration::from_millis(300);
        let bounds = Bounds { memory: Bytes::mib(4), patience, ..Bounds::default() };
        let (hung, well, mut orders) = rigs(env, bounds).await;
        let mut links = Vec::new();
        for _ in 0..5 {
            links.push(hung.link(Credit::new(1 << 20)).await);
        }
        let refused = Rc::new(Cell::new(0));
        for link in &links {
            let (rig, link, refused) = (hung.clone(), link.clone(), refused.clone());
            hung.env.spawner.detach(async move {
                if kind(answered(&rig, &link, write(0), vec![1; MIB]).await) == Kind::Busy {
                    refused.set(refused.get() + 1);
                }
            });
        }
        let taken = orders.receive().await.expect("one of them has memory");
        let other = well.link(Credit::new(1 << 20)).await;
        answered(&well, &other, write(0), vec![2; MIB]).await.expect("it is written");
        while refused.get() < 4 {
            hung.env.clock.sleep(Duration::from_millis(1)).await;
        }
        // Those who were refused go on over the same connections.
        drop((taken, orders));
        for link in &links {
            answered(&well, link, write(0), vec![3; MIB]).await.expect("it is written");
        }
        assert_eq!(hung.node.memory_used(), Bytes::ZERO);
    })
    .expect("the loop of the network");
}

/// Waits for this no longer than tests may.
async fn soon<T>(rig: &Rig, what: impl Future<Output = T>) -> T {
    match race(what, rig.env.clock.sleep(Duration::from_secs(20))).await {
        First::Left(came) => came,
        First::Right(()) => panic!("it does not come"),
    }
}

#[test]
fn who_connects_again_while_a_target_hangs_is_welcome_in_time_and_uses_the_others() {
    real::run_network(|env| async move {
        let (hung, well, mut orders) = rigs(env, Bounds::default()).await;
        let one = hung.link(Credit::new(1 << 20)).await;
        let hangs = asked(&hung, &one, create());
        let taken = soon(&hung, orders.receive()).await.expect("it is asked");
        // A client gives a hello five seconds.
        let First::Left(two) = race(hung.link_after(&one), hung.env.clock.sleep(Duration::from_secs(5))).await else {
            panic!("nobody says hello")
        };
        answered(&well, &two, create(), vec![]).await.expect("the other target serves");
        // What was asked of the one that hangs may still be done, so nothing may come behind it.
        assert_eq!(kind(answered(&hung, &two, create(), vec![]).await), Kind::Busy);
        drop(taken);
        soon(&hung, hangs).await.expect_err("its connection was replaced");
        let order = loop {
            let mut again = asked(&hung, &two, create());
            match race(orders.receive(), &mut again).await {
                First::Left(Some(Order::EndLink(_))) => {}
                First::Left(order) => break order,
                // It was not done yet.
                First::Right(refused) => assert_eq!(refused.expect_err("nobody answers").kind, Kind::Busy),
            }
        };
        assert!(matches!(order, Some(Order::Object { .. })), "it is asked once nothing of before is under way");
    })
    .expect("the loop of the network");
}

#[test]
fn reads_of_a_target_that_hangs_which_nobody_waits_for_any_more_leave_the_connection_to_others() {
    real::run_network(|env| async move {
        let (hung, well, _orders) = rigs(env, Bounds::default()).await;
        let link = hung.link(Credit::new(64 << 20)).await;
        for _ in 0..1100 {
            drop(asked(&hung, &link, read(0, 4096)));
        }
        for _ in 0..10 {
            answered(&well, &link, read(0, 4096), vec![]).await.expect("the other target serves");
        }
        let refused = soon(&hung, asked(&hung, &link, read(0, 4096))).await.expect_err("it has what it may have");
        assert!(refused.kind == Kind::Busy && refused.message.contains("of target"), "{refused}");
    })
    .expect("the loop of the network");
}

#[test]
fn who_waits_for_memory_behind_a_target_that_hangs_hears_that_the_node_is_there() {
    real::run_network(|env| async move {
        // With so much it is refused long after this has ended.
        let bounds = Bounds { memory: Bytes::mib(4), patience: Duration::from_secs(240), ..Bounds::default() };
        let (hung, _well, mut orders) = rigs(env, bounds).await;
        let (first, link) = (hung.link(Credit::new(1 << 20)).await, hung.link(Credit::new(1 << 20)).await);
        let write_over = |link: &Link| {
            let (rig, link, all) = (hung.clone(), link.clone(), hung.capability(Rights::ALL));
            hung.env.spawner.spawn(async move { rig.ask(&link, &all, write(0), vec![1; MIB]).await })
        };
        let _has_memory = write_over(&first);
        let _taken = soon(&hung, orders.receive()).await.expect("it has memory");
        let _waits = write_over(&link);
        // Besides that it may send the payload it is told nothing else.
        let (before, _) = link.moved();
        let heard = async {
            while link.moved().0 < before + 3 * HEADER as u64 {
                hung.env.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        soon(&hung, heard).await;
        assert!(link.ended().is_none(), "it goes on");
    })
    .expect("the loop of the network");
}
