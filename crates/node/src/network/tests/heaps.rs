//! Heaps over the network: what is refused, what is seen of one another's transactions, and what is undone.

use super::*;
use crate::host::TargetHandle;
use crate::service::Order;
use forebay_env::mailbox::mailbox;
use forebay_env::race::{First, race};
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_wire::command::Reply;
use forebay_wire::heap::network::{MOST_TRANSACTIONS, NetworkAsk, NetworkRequest, name_of};
use forebay_wire::heap::{HeapAsk, HeapReply, NewRoot};

impl Rig {
    async fn of_heap(&self, link: &Link, of: &Capability, ask: NetworkAsk, payload: &[u8]) -> Result<Answer> {
        self.of_heap_with(link, Some(&self.shown(of)), ask, payload).await
    }

    async fn of_heap_with(
        &self,
        link: &Link,
        shown: Option<&Shown>,
        ask: NetworkAsk,
        payload: &[u8],
    ) -> Result<Answer> {
        let most = if matches!(ask, NetworkAsk::Records { ask: HeapAsk::Get { .. }, .. }) { 4 << 20 } else { 0 };
        let request = NetworkRequest { target: self.target, heap: OBJECT, ask };
        let payload = if payload.is_empty() { Vec::new() } else { vec![bytes::Bytes::from(payload.to_vec())] };
        let body = request.body().expect("it fits");
        link.ask(Asked { command: request.command(), body: &body, payload, most, shown })?.await
    }

    /// What is answered to something that is asked in a transaction.
    async fn said(
        &self,
        link: &Link,
        of: &Capability,
        (transaction, ask): (u64, HeapAsk),
        payload: &[u8],
    ) -> Result<HeapReply> {
        let answer = self.of_heap(link, of, NetworkAsk::Records { transaction, ask }, payload).await?;
        forebay_wire::read_body(&answer.body)
    }

    async fn put(&self, link: &Link, of: &Capability, transaction: u64, record: &[u8]) -> Result<RecordId> {
        let ask = HeapAsk::Put { lengths: vec![record.len() as u32], from: 0, more: false };
        match self.said(link, of, (transaction, ask), record).await? {
            HeapReply::Ids(ids) => Ok(ids[0]),
            other => panic!("{other:?} is no id"),
        }
    }

    /// The bytes of a record, as a transaction sees it.
    async fn got(&self, link: &Link, of: &Capability, transaction: u64, id: RecordId) -> Option<Vec<u8>> {
        let ask = NetworkAsk::Records { transaction, ask: HeapAsk::Get { ids: vec![id], from: 0, as_of: None } };
        let answer = self.of_heap(link, of, ask, &[]).await.expect("it is looked at");
        match forebay_wire::read_body(&answer.body).expect("it reads") {
            HeapReply::Records(found) => found[0].is_ok().then(|| answer.payload.to_vec()),
            other => panic!("{other:?} are no records"),
        }
    }

    async fn last_commit(&self, link: &Link, of: &Capability) -> u64 {
        let answer = self.of_heap(link, of, NetworkAsk::Info, &[]).await.expect("it is there");
        match forebay_wire::read_body(&answer.body).expect("it reads") {
            Reply::Heap(info) => info.last.commit,
            other => panic!("{other:?} is no heap"),
        }
    }

    /// Records that are put and not committed, or were freed.
    async fn kept(&self, link: &Link, of: &Capability) -> u64 {
        let answer = self.of_heap(link, of, NetworkAsk::Info, &[]).await.expect("it is there");
        match forebay_wire::read_body(&answer.body).expect("it reads") {
            Reply::Heap(info) => info.classes.iter().map(|class| class.kept).sum(),
            other => panic!("{other:?} is no heap"),
        }
    }

    async fn with_heap(&self) -> (Link, Capability) {
        let (link, all) = (self.link(Credit::new(1 << 20)).await, self.capability(Rights::ALL));
        let create = NetworkAsk::Create(HeapSettings::default());
        self.of_heap(&link, &all, create, &[]).await.expect("there is room");
        (link, all)
    }
}

fn commit() -> HeapAsk {
    HeapAsk::Commit { root: NewRoot::Same }
}

fn put() -> HeapAsk {
    HeapAsk::Put { lengths: vec![4], from: 0, more: false }
}

#[test]
fn transactions_of_one_connection_do_not_see_what_another_has_not_committed_and_those_that_are_aborted_leave_nothing() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.with_heap().await;
        let mine = rig.put(&link, &all, 1, b"mine").await.expect("it is put");
        let others = rig.put(&link, &all, 2, b"others").await.expect("it is put");
        assert_eq!(rig.got(&link, &all, 1, mine).await, Some(b"mine".to_vec()));
        assert_eq!(rig.got(&link, &all, 2, mine).await, None);
        assert_eq!(rig.got(&link, &all, 1, others).await, None);
        rig.said(&link, &all, (2, commit()), &[]).await.expect("it is committed");
        assert_eq!(rig.got(&link, &all, 1, others).await, Some(b"others".to_vec()));
        assert_eq!(rig.got(&link, &all, 3, mine).await, None);
        rig.said(&link, &all, (1, HeapAsk::Abort), &[]).await.expect("it is undone");
        rig.said(&link, &all, (1, HeapAsk::Abort), &[]).await.expect("there is nothing of it");
        rig.said(&link, &all, (1, commit()), &[]).await.expect("nothing is committed");
        assert_eq!(rig.got(&link, &all, 1, mine).await, None);
    });
}

#[test]
fn what_nothing_shown_allows_is_refused_and_changes_nothing() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.with_heap().await;
        let id = rig.put(&link, &all, 1, b"kept").await.expect("it is put");
        rig.said(&link, &all, (1, commit()), &[]).await.expect("it is committed");
        let before = rig.last_commit(&link, &all).await;
        let elsewhere = Capability { object: ObjectId { object: 10, ..OBJECT }, ..all.clone() };
        let (reader, writer) = (rig.capability(Rights::READ), rig.capability(Rights::WRITE));
        let of = |ask| NetworkAsk::Records { transaction: 7, ask };
        let get = || HeapAsk::Get { ids: vec![id], from: 0, as_of: None };
        let attempts = [
            (None, of(put()), &b"more"[..]),
            (None, of(get()), &[]),
            (Some(&elsewhere), of(put()), b"more"),
            (Some(&elsewhere), of(commit()), &[]),
            (Some(&elsewhere), NetworkAsk::Info, &[]),
            (Some(&reader), of(put()), b"more"),
            (Some(&reader), of(HeapAsk::Free { ids: vec![id] }), &[]),
            (Some(&reader), of(commit()), &[]),
            (Some(&reader), NetworkAsk::Create(HeapSettings::default()), &[]),
            (Some(&writer), of(get()), &[]),
            (Some(&writer), of(HeapAsk::Root { as_of: None }), &[]),
            (Some(&writer), of(HeapAsk::History { before: None, most: 1 }), &[]),
        ];
        for (of, ask, payload) in attempts {
            let shown = of.map(|of| rig.shown(of));
            let refused =
                rig.of_heap_with(&link, shown.as_ref(), ask.clone(), payload).await.expect_err("it is refused");
            assert_eq!(refused.kind, Kind::Forbidden, "{ask:?}: {refused}");
        }
        assert_eq!(rig.got(&link, &reader, 1, id).await, Some(b"kept".to_vec()), "the connection goes on");
        assert_eq!(rig.last_commit(&link, &all).await, before);
        // And what it cannot be, whoever asks.
        let again = rig.of_heap(&link, &all, NetworkAsk::Create(HeapSettings::default()), &[]).await;
        assert_eq!(again.expect_err("it is there").kind, Kind::Exists);
        for (ask, payload) in [
            (of(HeapAsk::Put { lengths: vec![5], from: 0, more: false }), &b"more"[..]),
            (of(HeapAsk::Put { lengths: vec![0], from: 0, more: false }), &[]),
            (of(commit()), b"more"),
            (NetworkAsk::Info, b"more"),
        ] {
            let odd = rig.of_heap(&link, &all, ask.clone(), payload).await.expect_err("it is wrong");
            assert_eq!(odd.kind, Kind::Usage, "{ask:?}: {odd}");
        }
    });
}

#[test]
fn what_was_put_with_something_that_was_revoked_is_undone_and_who_put_it_has_to_abort() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.with_heap().await;
        let id = rig.put(&link, &all, 1, b"lost").await.expect("it is put");
        rig.fence(FIRST_FENCE + 1).await.expect("it is raised");
        let old = rig.said(&link, &all, (1, commit()), &[]).await.expect_err("it was revoked");
        assert_eq!(old.kind, Kind::Stale, "{old}");
        let fresh = rig.put(&link, &all, 2, b"late").await.expect_err("it was revoked");
        assert_eq!(fresh.kind, Kind::Stale, "{fresh}");
        // With a newer one nothing is committed as if it were all.
        let newer = Capability { version: FIRST_FENCE + 1, ..all.clone() };
        let other = rig.said(&link, &newer, (1, commit()), &[]).await.expect_err("a part is undone");
        assert!(other.kind == Kind::Stale && other.message.contains("abort"), "{other}");
        rig.said(&link, &newer, (1, HeapAsk::Abort), &[]).await.expect("it is undone");
        assert_eq!(rig.got(&link, &newer, 1, id).await, None);
        let next = rig.put(&link, &newer, 1, b"next").await.expect("it is put");
        rig.said(&link, &newer, (1, commit()), &[]).await.expect("it is committed");
        assert_eq!(rig.got(&link, &newer, 3, next).await, Some(b"next".to_vec()));
        // What is removed is deleted, with all that was put into it.
        rig.put(&link, &newer, 1, b"gone").await.expect("it is put");
        rig.node.door(rig.target).expect("it is served").handle.remove(OBJECT).await.expect("it is removed");
        let gone = rig.said(&link, &newer, (1, commit()), &[]).await.expect_err("the heap is no more");
        assert_eq!(gone.kind, Kind::Missing, "{gone}");
    });
}

#[test]
fn with_its_connection_a_transaction_is_undone() {
    let (to_target, mut orders) = mailbox();
    real::run_network(|env| async move {
        let door = TargetDoor { id: TargetId(5), handle: TargetHandle::new(to_target) };
        let rig = served(env, vec![door], Bounds::default()).await;
        let (link, all) = (rig.link(Credit::new(1 << 20)).await, rig.capability(Rights::ALL));
        let asked = NetworkAsk::Records { transaction: 1, ask: put() };
        let body = NetworkRequest { target: rig.target, heap: OBJECT, ask: asked }.body().expect("it fits");
        let coming = link.ask(Asked {
            command: Command::PUT_RECORDS,
            body: &body,
            payload: vec![bytes::Bytes::from_static(b"lost")],
            most: 0,
            shown: Some(&rig.shown(&all)),
        });
        let Some(Order::Heap { link: of, request, payload, .. }) = orders.receive().await else { panic!("no request") };
        assert_eq!((request.heap, &payload[..]), (name_of(OBJECT), &b"lost"[..]));
        link.close();
        coming.expect("it is asked").await.expect_err("the connection is over");
        match orders.receive().await {
            Some(Order::EndLink(ended)) => assert_eq!(ended, of),
            _ => panic!("the transaction goes on"),
        }
    })
    .expect("the loop of the network");
}

#[test]
fn units_that_are_being_read_for_a_copy_over_a_connection_that_was_replaced_are_waited_for_by_the_next_one() {
    let (to_target, mut orders) = mailbox();
    real::run_network(|env| async move {
        let door = TargetDoor { id: TargetId(5), handle: TargetHandle::new(to_target) };
        let rig = served(env, vec![door], Bounds::default()).await;
        let (one, all) = (rig.link(Credit::new(1 << 20)).await, rig.capability(Rights::ALL));
        let asked = |link: &Link| {
            let units = HeapAsk::ReadUnits { watch: 1, first: 0, count: 1 };
            let ask = NetworkAsk::Records { transaction: 1, ask: units };
            let request = NetworkRequest { target: rig.target, heap: OBJECT, ask };
            let (body, shown) = (request.body().expect("it fits"), rig.shown(&all));
            let (command, most) = (request.command(), 1 << 16);
            link.ask(Asked { command, body: &body, payload: Vec::new(), most, shown: Some(&shown) })
                .expect("it is asked")
        };
        let first = asked(&one);
        let Some(Order::Heap { answer, .. }) = orders.receive().await else { panic!("no request") };
        let two = rig.link_after(&one).await;
        let beside = async {
            while let Some(order) = orders.receive().await {
                assert!(matches!(order, Order::EndLink(_)), "something is done beside the first one");
            }
        };
        match race(asked(&two), beside).await {
            First::Left(refused) => assert_eq!(refused.expect_err("the first one may yet be done").kind, Kind::Busy),
            First::Right(()) => panic!("the target is gone"),
        }
        first.await.expect_err("its connection was replaced");
        answer.send(Ok(HeapReply::Done.into()), 0).await;
        loop {
            let mut again = asked(&two);
            match race(orders.receive(), &mut again).await {
                First::Left(Some(Order::Heap { .. })) => break,
                First::Left(other) => assert!(matches!(other, Some(Order::EndLink(_))), "nothing else is asked"),
                // It was not known yet that the first one is done.
                First::Right(refused) => assert_eq!(refused.expect_err("nobody answers").kind, Kind::Busy),
            }
        }
    })
    .expect("the loop of the network");
}

#[test]
fn a_connection_aborts_what_it_began_with_what_ran_out_and_nothing_of_anybody_elses() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.with_heap().await;
        let over = Capability { until: Timestamp(rig.env.clock.wall().0 - 1), ..all.clone() };
        let abort = || NetworkAsk::Records { transaction: 1, ask: HeapAsk::Abort };
        rig.put(&link, &all, 1, b"lost").await.expect("it is put");
        let other = rig.link(Credit::new(1 << 20)).await;
        for (shown, kind) in [(None, Kind::Forbidden), (Some(rig.shown(&over)), Kind::Stale)] {
            let refused = rig.of_heap_with(&other, shown.as_ref(), abort(), &[]).await;
            assert_eq!(refused.expect_err("it has none of its own").kind, kind);
            assert_eq!(rig.kept(&link, &all).await, 1);
        }
        for shown in [None, Some(rig.shown(&over))] {
            rig.of_heap_with(&link, shown.as_ref(), abort(), &[]).await.expect("it is undone");
            assert_eq!(rig.kept(&link, &all).await, 0);
            rig.put(&link, &all, 1, b"lost too").await.expect("its number is free");
        }
        // What was revoked is undone already.
        rig.fence(FIRST_FENCE + 1).await.expect("it is raised");
        rig.of_heap_with(&link, Some(&rig.shown(&all)), abort(), &[]).await.expect("nothing is left");
        let newer = Capability { version: FIRST_FENCE + 1, ..all };
        rig.put(&link, &newer, 1, b"next").await.expect("its number is free");
    });
}

#[test]
fn a_connection_has_so_many_transactions_each_of_one_heap_and_one_that_ends_makes_room() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.with_heap().await;
        let last = MOST_TRANSACTIONS as u64;
        for number in 0..last {
            rig.put(&link, &all, number, b"some").await.expect("there is room");
        }
        let busy = rig.put(&link, &all, last, b"more").await.expect_err("they are too many");
        assert!(busy.kind == Kind::Busy && busy.message.contains("16 transactions"), "{busy}");
        let other = ObjectId { object: 10, ..OBJECT };
        let of_other = Capability { object: other, ..all.clone() };
        let ask = NetworkAsk::Records { transaction: 3, ask: commit() };
        let request = NetworkRequest { target: rig.target, heap: other, ask };
        let (body, shown) = (request.body().expect("it fits"), rig.shown(&of_other));
        let asked =
            Asked { command: request.command(), body: &body, payload: Vec::new(), most: 0, shown: Some(&shown) };
        let mixed = link.ask(asked).expect("it is asked").await.expect_err("it is of another heap");
        assert_eq!(mixed.kind, Kind::Usage, "{mixed}");
        rig.said(&link, &all, (3, HeapAsk::Abort), &[]).await.expect("it is undone");
        rig.put(&link, &all, last, b"more").await.expect("there is room again");
        // Over another connection there is room of its own.
        let another = rig.link(Credit::new(1 << 20)).await;
        rig.put(&another, &all, 0, b"some").await.expect("there is room");
    });
}
