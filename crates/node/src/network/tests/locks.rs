//! Locks of connections.

use super::*;
use forebay_env::race::{First, race};
use forebay_wire::link::Coming;
use forebay_wire::lock::{Lock, Locked, Unlock};

impl Rig {
    /// Asks for the lock of a part of the object.
    pub(super) fn lock(&self, link: &Link, shown: &Shown) -> Coming {
        let body = forebay_wire::write_body(&Lock { target: self.target, id: OBJECT, part: 3 }).expect("it fits");
        let asked = Asked { command: Command::LOCK, body: &body, payload: vec![], most: 0, shown: Some(shown) };
        link.ask(asked).expect("it is asked")
    }

    /// Gives a lock back.
    async fn unlock(&self, link: &Link, held: RequestId) {
        self.unlock_with(link, held, false).await;
    }

    /// Gives a lock back, and says whether something may still come that was asked under it.
    async fn unlock_with(&self, link: &Link, held: RequestId, deserted: bool) {
        let body = forebay_wire::write_body(&Unlock { request: held.0, deserted }).expect("it fits");
        let asked = Asked { command: Command::UNLOCK, body: &body, payload: vec![], most: 0, shown: None };
        link.ask(asked).expect("it is asked").await.expect("it is given back");
    }
}

#[test]
fn locks_are_held_in_turn_and_say_from_which_version_on_they_keep_others_out() {
    with_node(Bounds::default(), |rig| async move {
        let shown = rig.shown(&rig.capability(Rights::WRITE));
        let (one, two) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let fence = |answer: Answer| forebay_wire::read_body::<Locked>(&answer.body).expect("a lock").fence;
        let held = rig.lock(&one, &shown);
        let held_by = held.request();
        // What was before this node was started, nobody knows.
        assert_eq!(fence(held.await.expect("nobody holds it")), FIRST_FENCE + 1);
        let next = rig.lock(&two, &shown);
        rig.unlock(&one, held_by).await;
        assert_eq!(fence(next.await.expect("it is free")), FIRST_FENCE + 1);
        let waits = rig.lock(&one, &shown);
        rig.fence(FIRST_FENCE + 1).await.expect("it is durable");
        two.close();
        // Who was shut out while it waited gets nothing.
        assert_eq!(waits.await.expect_err("it shows an old version").kind, Kind::Stale);
        let newer = Capability { version: FIRST_FENCE + 1, ..rig.capability(Rights::WRITE) };
        // One was lost under the version before, or so the node has to take it.
        let held = rig.lock(&one, &rig.shown(&newer));
        let held_by = held.request();
        assert_eq!(fence(held.await.expect("its holder is gone")), FIRST_FENCE + 2);
        rig.unlock(&one, held_by).await;
        let reading = rig.shown(&rig.capability(Rights::READ));
        let refused = rig.lock(&one, &reading).await.expect_err("who reads locks nothing");
        assert_eq!(refused.kind, Kind::Forbidden);
    });
}

#[test]
fn whoever_held_a_lock_before_the_node_was_started_is_kept_out_by_a_fence_that_was_raised_since() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let fence = |answer: Answer| forebay_wire::read_body::<Locked>(&answer.body).expect("a lock").fence;
        for version in [FIRST_FENCE + 1, FIRST_FENCE + 2] {
            rig.fence(version).await.expect("it is durable");
        }
        let newest = rig.shown(&Capability { version: FIRST_FENCE + 2, ..rig.capability(Rights::WRITE) });
        // Lost since then is another thing.
        for (deserted, expected) in [(true, FIRST_FENCE + 1), (false, FIRST_FENCE + 3), (false, FIRST_FENCE + 3)] {
            let held = rig.lock(&link, &newest);
            let held_by = held.request();
            assert_eq!(fence(held.await.expect("nobody holds it")), expected);
            rig.unlock_with(&link, held_by, deserted).await;
        }
    });
}

#[test]
fn who_gives_a_lock_back_under_which_something_may_still_come_has_the_next_holder_fence_the_file() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let fence = |answer: Answer| forebay_wire::read_body::<Locked>(&answer.body).expect("a lock").fence;
        let first = rig.lock(&link, &rig.shown(&rig.capability(Rights::WRITE)));
        let mut held_by = first.request();
        assert_eq!(fence(first.await.expect("nobody holds it")), FIRST_FENCE + 1);
        rig.fence(FIRST_FENCE + 1).await.expect("it is durable");
        let newer = rig.shown(&Capability { version: FIRST_FENCE + 1, ..rig.capability(Rights::WRITE) });
        for (deserted, expected) in [(false, FIRST_FENCE + 1), (true, FIRST_FENCE + 2), (false, FIRST_FENCE + 2)] {
            rig.unlock_with(&link, held_by, deserted).await;
            let held = rig.lock(&link, &newer);
            held_by = held.request();
            assert_eq!(fence(held.await.expect("it is free")), expected, "deserted: {deserted}");
        }
    });
}

#[test]
fn who_hangs_with_a_lock_loses_it_when_what_it_showed_has_run_out_and_whoever_is_there_does_not() {
    let bounds = Bounds { patience: Duration::from_millis(200), ..Bounds::default() };
    with_node(bounds, |rig| async move {
        let (holder, other) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let until = Timestamp(rig.env.clock.wall().0 + 400_000_000);
        let held = rig.lock(&holder, &rig.shown(&Capability { until, ..rig.capability(Rights::WRITE) }));
        held.await.expect("nobody holds it");
        rig.fence(FIRST_FENCE + 1).await.expect("it is durable");
        let newer = Capability { version: FIRST_FENCE + 1, ..rig.capability(Rights::WRITE) };
        let waits = rig.lock(&other, &rig.shown(&newer));
        for _ in 0..60 {
            holder.ping().expect("it is asked").await.expect("it is there");
            rig.env.clock.sleep(Duration::from_millis(20)).await;
        }
        assert!(rig.env.clock.wall() > until && holder.ended().is_none(), "it is there");
        assert_eq!(rig.node.cuts(), CutCounts::default());
        // From now on nothing comes.
        let First::Left(answer) = race(waits, rig.env.clock.sleep(Duration::from_secs(20))).await else {
            panic!("the lock is held for ever")
        };
        let fence = forebay_wire::read_body::<Locked>(&answer.expect("it is free").body).expect("a lock").fence;
        assert_eq!(fence, FIRST_FENCE + 2, "its holder lost it, and may not know");
        while holder.ended().is_none() {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        let said = holder.ended().expect("it ended").message;
        assert!(said.contains("others wait for a lock"), "{said}");
        assert_eq!(rig.node.cuts(), CutCounts { slow: 1, ..CutCounts::default() });
    });
}
