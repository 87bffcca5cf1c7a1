use super::*;

/// As it arrives: through the headers of HTTP.
fn sent(status: &Status) -> Status {
    let mut headers = tonic::codegen::http::HeaderMap::new();
    status.add_header(&mut headers).expect("it fits headers");
    Status::from_header_map(&headers).expect("there is a status")
}

#[test]
fn every_kind_arrives_as_it_was() {
    for kind in Kind::ALL {
        let error = Error::new(kind, format!("of kind {kind:?}: \u{e4}\n%20 done"));
        let expected = match kind {
            Kind::Disconnected => Failure::Again(error.clone()),
            _ => Failure::Answered(error.clone()),
        };
        assert_eq!(from_status(&sent(&to_status(error))), expected);
    }
}

#[test]
fn the_numbers_of_kinds_in_the_interface_are_those_on_the_wire() {
    for kind in Kind::ALL {
        let message = Error::new(kind, "").to_proto();
        assert_eq!(message.kind, i32::from(kind.code()), "{kind:?}");
    }
}

#[test]
fn that_there_is_no_session_is_told_from_what_is_stale() {
    let status = sent(&no_session("the session is over"));
    assert_eq!(from_status(&status), Failure::NoSession(Error::stale("the session is over")));
}

#[test]
fn that_there_is_no_room_is_asked_again() {
    let status = sent(&no_room("7 requests are under way".into()));
    assert_eq!(from_status(&status), Failure::Again(Error::busy("7 requests are under way")));
}

#[test]
fn a_kind_of_a_later_version_is_told_with_its_sentence() {
    let message = proto::Error { kind: 99, message: "the moon is in the way".into() };
    let mut status = Status::new(Code::Internal, "");
    status.metadata_mut().insert_bin(ERROR, MetadataValue::from_bytes(&message.encode_to_vec()));
    let Failure::Answered(error) = from_status(&sent(&status)) else { panic!("it was answered") };
    assert_eq!(error.kind, Kind::Version);
    assert!(error.message.contains("the moon is in the way"), "{error}");
}

#[test]
fn a_long_sentence_is_cut_and_not_lost() {
    let long = "\u{e4}".repeat(100_000);
    let status = sent(&to_status(Error::full(long.clone())));
    let Failure::Answered(error) = from_status(&status) else { panic!("it was answered") };
    assert_eq!((error.kind, error.message), (Kind::Full, long[..LONGEST].to_string()));
    assert!(status.message().len() <= LONGEST_FOR_TOOLS);
}

#[test]
fn what_was_made_on_the_way_has_a_kind_too() {
    let kind = |code| match from_status(&Status::new(code, "a proxy says so")) {
        Failure::Answered(error) => Some(error.kind),
        _ => None,
    };
    assert_eq!(kind(Code::OutOfRange), Some(Kind::Usage));
    assert_eq!(kind(Code::Unimplemented), Some(Kind::Version));
    assert_eq!(kind(Code::Unauthenticated), Some(Kind::Forbidden));
    for code in [Code::Unknown, Code::Internal, Code::Cancelled, Code::DeadlineExceeded, Code::Unavailable] {
        assert!(matches!(from_status(&Status::new(code, "cut")), Failure::Broken(_)), "{code:?}");
    }
}
