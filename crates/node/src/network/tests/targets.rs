//! What a target says of itself over the network, and to whom.

use super::*;
use forebay_model::PlanRequest;
use forebay_wire::command::Reply;
use forebay_wire::target::{ITSELF, TargetAsk, TargetRequest};

impl Rig {
    async fn of_target(&self, link: &Link, of: Option<&Capability>, ask: TargetAsk) -> Result<Reply> {
        let request = TargetRequest { target: self.target, ask };
        let (body, shown) = (request.body().expect("it fits"), of.map(|of| self.shown(of)));
        let asked =
            Asked { command: request.command(), body: &body, payload: Vec::new(), most: 0, shown: shown.as_ref() };
        forebay_wire::read_body(&link.ask(asked)?.await?.body)
    }
}

#[test]
fn who_may_ask_about_a_target_is_told_what_was_measured_of_it_and_what_it_could_promise_and_nobody_else() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        let itself = Capability { object: ITSELF, version: 0, ..rig.capability(Rights::GET_ATTRIBUTES) };
        let Reply::Profiles(told) = rig.of_target(&link, Some(&itself), TargetAsk::Profile).await.expect("it is told")
        else {
            panic!("no profile");
        };
        assert_eq!((told.len(), told[0].target), (1, rig.target));
        assert_eq!(told[0].profile, Profile::guess(Bytes::mib(256), false));
        let plan = |request| rig.of_target(&link, Some(&itself), TargetAsk::Plan(request));
        for (rate, can) in [(1_000_000, true), (1 << 50, false)] {
            let Reply::Plans(told) = plan(PlanRequest::new(Rate(rate))).await.expect("it is told") else {
                panic!("no plan");
            };
            assert_eq!((told.len(), told[0].target, told[0].plan.can), (1, rig.target, can), "{rate}");
        }
        let modest = PlanRequest::new(Rate(1));
        for absurd in [
            PlanRequest::new(Rate(u64::MAX)),
            PlanRequest { capacity: Some(Bytes(u64::MAX)), ..modest },
            PlanRequest { block: Bytes::ZERO, ..modest },
            PlanRequest { flush_interval: Duration::MAX, ..modest },
            PlanRequest { pin_percent: 100, ..modest },
            PlanRequest { keys: u32::MAX, ..modest },
        ] {
            assert_eq!(plan(absurd).await.expect_err("there is no such ring").kind, Kind::Usage, "{absurd:?}");
        }
        let other = Capability { rights: Rights::READ, ..itself.clone() };
        for shown in [None, Some(&all), Some(&other)] {
            let refused = rig.of_target(&link, shown, TargetAsk::Profile).await;
            assert_eq!(refused.expect_err("it is not for that").kind, Kind::Forbidden, "{shown:?}");
        }
        // What stands for the target is no object.
        let stat = Ask::Stat { id: ITSELF, page: None };
        assert_eq!(kind(rig.ask(&link, &itself, stat, Vec::new()).await), Kind::Stale);
        assert_eq!(kind(rig.ask(&link, &itself, read(0, 1), Vec::new()).await), Kind::Forbidden);
    });
}
