use super::*;
use forebay_model::Bytes;

const WITH_PARITY: Spread = Spread { targets: 2, parity: true };
const STRIPED: Spread = Spread { targets: 3, parity: false };
const WHOLE: ComponentState = ComponentState::Whole;

fn a_pin(label: &str, to: i64) -> Pin {
    Pin {
        id: 1,
        label: label.into(),
        from: Timestamp(1),
        to: Timestamp(to),
        first_sequence: 0,
        end_sequence: 1,
        segments: 1,
        bytes: Bytes::mib(1),
        relatives: Vec::new(),
    }
}

fn away() -> Result<u32> {
    Err(Error::disconnected("nobody answers"))
}

#[test]
fn a_pin_is_refused_while_a_part_does_not_answer_that_is_not_lost() {
    let refused = |answers, spread, states: &[ComponentState]| {
        let error: Error = to_be_pinned(answers, spread, states, "/ring").expect_err("it would not be held there");
        assert!(error.kind == Kind::Busy && error.message.contains("start its node"), "{error:?}");
    };
    refused(vec![Ok(1), away(), Ok(3)], WITH_PARITY, &[WHOLE; 3]);
    refused(vec![Ok(1), Ok(2), away()], WITH_PARITY, &[WHOLE; 3]);
    refused(vec![Ok(1), away(), Ok(3)], WITH_PARITY, &[WHOLE, ComponentState::Filling, WHOLE]);
    refused(vec![Ok(1), away(), Ok(3)], STRIPED, &[WHOLE, ComponentState::Missed, WHOLE]);
    let lost = to_be_pinned(vec![Ok(1), away(), Ok(3)], WITH_PARITY, &[WHOLE, ComponentState::Missed, WHOLE], "/ring");
    assert_eq!(lost.expect("the others hold what makes it"), [Some(1), None, Some(3)]);
}

#[test]
fn the_same_pin_is_refused_wherever_there_is_one_already() {
    let parts = [Some(Vec::new()), None, Some(vec![a_pin("mine", 9)])];
    let error =
        is_new(&parts, "mine", (Timestamp(1), Timestamp(9)), "/ring").expect_err("they could not be told apart");
    assert!(error.kind == Kind::Exists && error.message.contains("another label"), "{error:?}");
    is_new(&parts, "mine", (Timestamp(1), Timestamp(8)), "/ring").expect("other times are another pin");
    is_new(&parts, "yours", (Timestamp(1), Timestamp(9)), "/ring").expect("so is another label");
}
