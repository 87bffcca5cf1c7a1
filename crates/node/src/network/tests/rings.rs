//! Rings over the network: what is refused, and what ends.

use super::*;
use crate::host::TargetHandle;
use crate::service::Order;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::{Buffer, Slab};
use forebay_model::block::Packer;
use forebay_model::ring::{Beginning, RingSpec};
use forebay_wire::command::{Durable, Reply, Request, WriterOpened};
use forebay_wire::control::names::FileId;
use forebay_wire::link::Coming;
use forebay_wire::ring::{ImageAsk, PartHead, RingAsk, RingQuery, RingRequest, relative_of};

const WRITER: u64 = 77;

impl Rig {
    async fn of_ring(&self, link: &Link, of: &Capability, ask: RingAsk, payload: Vec<u8>) -> Result<Answer> {
        self.ask_ring(link, of, ask, payload)?.await
    }

    fn ask_ring(&self, link: &Link, of: &Capability, ask: RingAsk, payload: Vec<u8>) -> Result<Coming> {
        let most = if let RingAsk::Next(_) = ask { 4 << 20 } else { 0 };
        let request = RingRequest { target: self.target, ring: OBJECT, ask };
        let payload = if payload.is_empty() { Vec::new() } else { vec![bytes::Bytes::from(payload)] };
        let (body, shown) = (request.body().expect("it fits"), self.shown(of));
        link.ask(Asked { command: request.command(), body: &body, payload, most, shown: Some(&shown) })
    }

    async fn opened(&self) -> (Link, Capability) {
        let (link, all) = (self.link(Credit::new(1 << 20)).await, self.capability(Rights::ALL));
        let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new("/whatever", Bytes::mib(32)) };
        self.of_ring(&link, &all, RingAsk::Create(spec), Vec::new()).await.expect("there is room");
        self.of_ring(&link, &all, open(false), Vec::new()).await.expect("nobody records");
        (link, all)
    }
}

/// Runs a test on the loop of the network, with a target whose orders the test takes.
fn with_door<F: Future<Output = ()> + 'static>(orders: Sender<Order>, test: impl FnOnce(Rig) -> F + 'static) {
    real::run_network(|env| async move {
        let door = TargetDoor { id: TargetId(5), handle: TargetHandle::new(orders) };
        test(served(env, vec![door], Bounds::default()).await).await;
    })
    .expect("the loop of the network");
}

fn open(resume: bool) -> RingAsk {
    RingAsk::OpenWriter { writer: WRITER, resume }
}

fn append(number: u64) -> RingAsk {
    RingAsk::Append { writer: WRITER, number, age: Duration::ZERO }
}

/// Blocks of a session, with one element each.
fn blocks(count: usize) -> Vec<Vec<u8>> {
    let slab = Slab::new(Bytes::kib(64), 1).expect("memory");
    let mut packer: Packer<Buffer> = Packer::new(WRITER);
    let block = |number| {
        packer.give(slab.try_take().expect("it is back"));
        assert!(packer.push(Timestamp(number), &[b"an element"], &[]));
        let sealed = packer.seal().expect("there is something in it");
        sealed.buffer[..sealed.length].to_vec()
    };
    (0..count as i64).map(block).collect()
}

fn query(follow: bool) -> RingAsk {
    let now = Timestamp(0);
    RingAsk::Query(RingQuery {
        text: String::new(),
        now,
        follow,
        limit: None,
        gaps_only: false,
        blocks: false,
        numbered: false,
    })
}

#[test]
fn blocks_are_taken_in_their_order_once_and_read_back() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.opened().await;
        let blocks = blocks(3);
        rig.of_ring(&link, &all, append(1), blocks[0].clone()).await.expect("it follows");
        let hole = rig.of_ring(&link, &all, append(3), blocks[2].clone()).await.expect_err("the second is missing");
        assert_eq!(hole.kind, Kind::Usage);
        let again = rig.of_ring(&link, &all, append(1), blocks[0].clone()).await.expect_err("it is there");
        assert_eq!(again.kind, Kind::Usage);
        // Over another connection the session goes on where it was, whatever is still on its way over this one.
        let other = rig.link(Credit::new(1 << 20)).await;
        let opened = rig.of_ring(&other, &all, open(true), Vec::new()).await.expect("it is the same session");
        let opened: WriterOpened = forebay_wire::read_body(&opened.body).expect("it opened");
        assert_eq!(opened.received, 1);
        let late = rig.of_ring(&link, &all, append(2), blocks[1].clone()).await.expect_err("it went on elsewhere");
        assert_eq!(late.kind, Kind::Busy, "{late:?}");
        for number in 2..=3 {
            let block = blocks[number as usize - 1].clone();
            rig.of_ring(&other, &all, append(number), block).await.expect("it follows");
        }
        let mut seen = Durable::default();
        while seen.number < 3 {
            let ask = RingAsk::Durable { writer: WRITER, seen };
            let told = rig.of_ring(&other, &all, ask, Vec::new()).await.expect("it goes on");
            seen = forebay_wire::read_body(&told.body).expect("what is durable");
        }
        rig.of_ring(&other, &all, RingAsk::CloseWriter(WRITER), Vec::new()).await.expect("all is durable");
        let asked = rig.link(Credit::new(1 << 20)).await;
        rig.of_ring(&asked, &all, query(false), Vec::new()).await.expect("it begins");
        let part = rig.of_ring(&asked, &all, RingAsk::Next(1), Vec::new()).await.expect("it is answered");
        assert_eq!(*part.payload, b"an element".repeat(3));
        let end = rig.of_ring(&asked, &all, RingAsk::Next(1), Vec::new()).await.expect("it is answered");
        match forebay_wire::read_body(&end.body).expect("the end") {
            PartHead::End(summary) => assert_eq!(summary.elements, 3),
            PartHead::Items(items) => panic!("{items:?} come after all"),
        }
        let over = rig.of_ring(&asked, &all, RingAsk::Next(1), Vec::new()).await.expect_err("it has ended");
        assert_eq!(over.kind, Kind::Missing);
    });
}

#[test]
fn what_is_no_block_ends_the_connection_and_is_not_in_the_ring() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.opened().await;
        let mut block = blocks(1).remove(0);
        block[100] ^= 1;
        let ended = rig.of_ring(&link, &all, append(1), block).await.expect_err("it is damaged");
        assert_eq!(ended.kind, Kind::Disconnected, "{ended:?}");
        let other = rig.link(Credit::new(1 << 20)).await;
        let status = rig.of_ring(&other, &all, RingAsk::Status, Vec::new()).await.expect("it is there");
        match forebay_wire::read_body(&status.body).expect("a status") {
            Reply::Rings(rings) => assert_eq!(rings[0].next_sequence, 0),
            reply => panic!("{reply:?} is no status"),
        }
    });
}

#[test]
fn an_element_that_was_begun_on_another_target_does_not_go_on_where_a_ring_begins_with_that_ones_numbers() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = (rig.link(Credit::new(1 << 20)).await, rig.capability(Rights::ALL));
        let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new("/whatever", Bytes::mib(32)) };
        rig.of_ring(&link, &all, RingAsk::Create(spec), Vec::new()).await.expect("there is room");
        let begins = RingAsk::Begin(Beginning { sequence: 1000, writer: WRITER, number: 1 });
        rig.of_ring(&link, &all, begins, Vec::new()).await.expect("nothing was recorded");
        let opened = rig.of_ring(&link, &all, open(true), Vec::new()).await.expect("nobody records");
        let opened: WriterOpened = forebay_wire::read_body(&opened.body).expect("it opened");
        assert_eq!(opened.received, 1, "the first is on the other one");
        let slab = Slab::new(Bytes::kib(64), 1).expect("memory");
        let mut packer: Packer<Buffer> = Packer::new(WRITER);
        packer.give(slab.try_take().expect("there is one"));
        assert!(packer.begin(Timestamp(1), &[], 0));
        assert!(packer.part(&[1; 90_000]) < 90_000);
        drop(packer.seal().expect("it is full"));
        packer.give(slab.try_take().expect("it is back"));
        assert_eq!(packer.part(&[1; 10]), 10);
        packer.end();
        let second = packer.seal().expect("there is something in it");
        let second = second.buffer[..second.length].to_vec();
        let ended = rig.of_ring(&link, &all, append(2), second).await.expect_err("its beginning is elsewhere");
        assert_eq!(ended.kind, Kind::Disconnected, "{ended:?}");
    });
}

#[test]
fn each_request_takes_its_right_and_who_is_shut_out_records_and_reads_no_more() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.opened().await;
        let reader = rig.capability(Rights::READ | Rights::GET_ATTRIBUTES);
        let block = blocks(1).remove(0);
        for (ask, payload) in [
            (open(true), Vec::new()),
            (append(1), block.clone()),
            (RingAsk::CloseWriter(WRITER), Vec::new()),
            (RingAsk::Unpin(1), Vec::new()),
            (RingAsk::Image(ImageAsk::Portrait), Vec::new()),
            (RingAsk::Image(ImageAsk::Read { offset: 0, length: 1 }), Vec::new()),
            (RingAsk::Image(ImageAsk::Receive), vec![0]),
            (RingAsk::Image(ImageAsk::Write { offset: 0 }), vec![0; 4096]),
            (RingAsk::Image(ImageAsk::Received), Vec::new()),
            (RingAsk::Resize(Bytes::mib(64)), Vec::new()),
        ] {
            let refused = rig.of_ring(&link, &reader, ask, payload).await.expect_err("it may only read");
            assert_eq!(refused.kind, Kind::Forbidden);
        }
        let asked = rig.link(Credit::new(1 << 20)).await;
        rig.of_ring(&asked, &reader, query(true), Vec::new()).await.expect("it may read");
        rig.of_ring(&link, &all, append(1), block.clone()).await.expect("it may write");
        rig.fence(FIRST_FENCE + 1).await.expect("it is raised");
        // What was begun before is over, whatever is shown now.
        let newer = Capability { version: FIRST_FENCE + 1, ..all.clone() };
        let seen = Durable { number: 1, sequence: 1, full: false };
        loop {
            let ask = RingAsk::Durable { writer: WRITER, seen };
            match rig.of_ring(&link, &all, ask, Vec::new()).await {
                Ok(_) => {}
                Err(error) => break assert_eq!(error.kind, Kind::Stale),
            }
        }
        let old = rig.of_ring(&link, &all, open(true), Vec::new()).await.expect_err("it was revoked");
        assert_eq!(old.kind, Kind::Stale);
        rig.of_ring(&link, &newer, open(true), Vec::new()).await.expect("it goes on with a newer one");
        loop {
            match rig.of_ring(&asked, &reader, RingAsk::Next(1), Vec::new()).await {
                Ok(_) => {}
                Err(error) => break assert_eq!(error.kind, Kind::Disconnected),
            }
        }
    });
}

#[test]
fn a_session_of_which_nothing_is_heard_is_over_and_others_may_record() {
    let bounds = Bounds { patience: Duration::from_millis(400), ..Bounds::default() };
    with_node(bounds, |rig| async move {
        let (link, all) = rig.opened().await;
        let other = rig.link(Credit::new(1 << 20)).await;
        let open = || RingAsk::OpenWriter { writer: WRITER + 1, resume: false };
        let refused = rig.of_ring(&other, &all, open(), Vec::new()).await.expect_err("somebody records");
        assert_eq!(refused.kind, Kind::Busy);
        while rig.of_ring(&other, &all, open(), Vec::new()).await.is_err() {
            rig.env.clock.sleep(Duration::from_millis(20)).await;
        }
        let gone = rig.of_ring(&link, &all, append(1), blocks(1).remove(0)).await.expect_err("it is over");
        assert_eq!(gone.kind, Kind::Disconnected);
    });
}

#[test]
fn a_query_ends_with_its_connection_also_while_a_part_of_its_answer_is_waited_for() {
    let (to_target, mut orders) = mailbox();
    with_door(to_target, |rig| async move {
        let (link, all) = (rig.link(Credit::new(1 << 20)).await, rig.capability(Rights::ALL));
        rig.of_ring(&link, &all, query(true), Vec::new()).await.expect("it begins");
        let Some(Order::Query { query, batches, end, .. }) = orders.receive().await else { panic!("no query") };
        let part = rig.ask_ring(&link, &all, RingAsk::Next(1), Vec::new()).expect("it is asked");
        // What was asked before this is taken in when this is answered.
        link.ping().expect("it is asked").await.expect("it is answered");
        link.close();
        part.await.expect_err("the connection is over");
        match orders.receive().await {
            Some(Order::CancelQuery(ended)) => assert_eq!(ended, query),
            _ => panic!("the query goes on"),
        }
        drop((batches, end));
    });
}

#[test]
fn relatives_of_a_ring_are_entries_and_never_rings_of_its_target_by_their_names() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.opened().await;
        let ask = |ask| rig.of_ring(&link, &all, ask, Vec::new());
        let own = forebay_wire::ring::name_of(OBJECT);
        let pin = |along| RingAsk::Pin { label: String::new(), from: Timestamp(0), to: Timestamp(1), along };
        let many = (0..17).map(|n| relative_of(FileId(n))).collect();
        for refused in [
            RingAsk::Relate(vec![own.clone()]),
            RingAsk::Relate(vec!["/another".into()]),
            RingAsk::Relate(many),
            RingAsk::Create(RingSpec { relatives: vec![own.clone()], ..RingSpec::new("/x", Bytes::mib(32)) }),
            pin(vec![(own, 1)]),
        ] {
            assert_eq!(ask(refused.clone()).await.expect_err("it is none").kind, Kind::Usage, "{refused:?}");
        }
        let relatives = vec![relative_of(FileId(5)), relative_of(FileId(6))];
        let answer = ask(RingAsk::Relate(relatives.clone())).await.expect("they are entries");
        let Reply::Ring(ring) = forebay_wire::read_body(&answer.body).expect("it reads") else { panic!("no ring") };
        assert_eq!(ring.spec.relatives, relatives);
        let reader = rig.capability(Rights::READ);
        let refused = rig.of_ring(&link, &reader, RingAsk::Relate(Vec::new()), Vec::new()).await;
        assert_eq!(refused.expect_err("it is only read").kind, Kind::Forbidden);
    });
}

#[test]
fn a_ring_is_not_made_nor_resized_beyond_the_bytes_that_its_capability_is_for() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let charged = Capability { bytes: 0..Bytes::mib(32).0, ..rig.capability(Rights::ALL) };
        let make = |capacity| RingAsk::Create(RingSpec { block: Bytes::kib(64), ..RingSpec::new("/x", capacity) });
        let refused = rig.of_ring(&link, &charged, make(Bytes::mib(33)), Vec::new()).await.expect_err("it is more");
        assert_eq!(refused.kind, Kind::Forbidden);
        rig.of_ring(&link, &charged, make(Bytes::mib(32)), Vec::new()).await.expect("there is room");
        let resize = |capacity| rig.of_ring(&link, &charged, RingAsk::Resize(capacity), Vec::new());
        assert_eq!(resize(Bytes::mib(48)).await.expect_err("it is more").kind, Kind::Forbidden);
        resize(Bytes::mib(32)).await.expect("it has that");
        let grown = Capability { bytes: 0..Bytes::mib(48).0, ..charged.clone() };
        rig.of_ring(&link, &grown, RingAsk::Resize(Bytes::mib(48)), Vec::new()).await.expect("there is room");
    });
}

#[test]
fn no_more_pins_are_asked_for_than_there_is_memory_for() {
    let (to_target, mut orders) = mailbox();
    with_door(to_target, |rig| async move {
        let all = rig.capability(Rights::ALL);
        let (link, other) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let ask = |_| rig.ask_ring(&link, &all, RingAsk::Pins, Vec::new()).expect("it is asked");
        let _pins: Vec<Coming> = (0..10).map(ask).collect();
        let ping = Asked { command: Command::PING, body: &[], payload: Vec::new(), most: 0, shown: None };
        link.ask(ping).expect("it is asked").await.expect("they were taken in before");
        let _small = rig.ask_ring(&other, &all, RingAsk::Unpin(1), Vec::new()).expect("it is asked");
        let mut asked = Vec::new();
        loop {
            match orders.receive().await {
                Some(Order::Ask { request: Request::Pins { .. }, answer, .. }) => asked.push(answer),
                Some(Order::Ask { request: Request::Unpin { .. }, .. }) => break,
                _ => panic!("another order"),
            }
        }
        // Each may be as large as a body.
        assert!((1..=4).contains(&asked.len()), "{} were asked for", asked.len());
    });
}

#[test]
fn what_is_asked_of_an_image_is_not_ordered_once_its_connection_is_over() {
    let (to_target, mut orders) = mailbox();
    real::run_network(|env| async move {
        let door = TargetDoor { id: TargetId(5), handle: TargetHandle::new(to_target) };
        let rig = served(env, vec![door], Bounds { memory: Bytes::mib(1), ..Bounds::default() }).await;
        let all = rig.capability(Rights::ALL);
        let (link, other) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let image = |link: &Link, ask| rig.ask_ring(link, &all, RingAsk::Image(ask), Vec::new()).expect("it is asked");
        let _first = image(&link, ImageAsk::Portrait);
        let Some(Order::Image { answer, .. }) = orders.receive().await else { panic!("no request") };
        // There is no room for it before the first is answered.
        let _second = image(&link, ImageAsk::Read { offset: 0, length: 4096 });
        let ping = Asked { command: Command::PING, body: &[], payload: Vec::new(), most: 0, shown: None };
        link.ask(ping).expect("it is asked").await.expect("it was taken in before");
        link.close();
        while rig.node.connections() > 1 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        let _third = image(&other, ImageAsk::Portrait);
        drop(answer);
        match orders.receive().await {
            Some(Order::Image { ask, .. }) => assert_eq!(ask, ImageAsk::Portrait, "nobody waits for the second"),
            _ => panic!("another order"),
        }
    })
    .expect("the loop of the network");
}
