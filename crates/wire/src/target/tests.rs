use super::*;
use forebay_model::{Kind, Rate};

#[test]
fn what_is_asked_of_a_target_is_read_as_it_was_written_and_never_half_of_it() {
    for ask in [TargetAsk::Profile, TargetAsk::Plan(PlanRequest::new(Rate(7_000_000)))] {
        let request = TargetRequest { target: TargetId(3), ask };
        let body = request.body().expect("it fits");
        assert_eq!(TargetRequest::read(request.command(), &body).expect("it reads"), Some(request.clone()));
        let short = &body[..body.len() - 1];
        assert_eq!(TargetRequest::read(request.command(), short).expect_err("it is cut").kind, Kind::Damaged);
        let longer = [&body[..], &[0]].concat();
        assert_eq!(TargetRequest::read(request.command(), &longer).expect_err("too long").kind, Kind::Damaged);
    }
    assert_eq!(TargetRequest::read(Command::STATUS, &[]).expect("nothing is read"), None);
}
