//! Locks of connections.

use super::*;
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
        let body = forebay_wire::write_body(&Unlock { request: held.0 }).expect("it fits");
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
