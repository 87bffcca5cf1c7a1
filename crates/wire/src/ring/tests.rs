use super::*;
use forebay_model::Kind;

/// One of each.
pub(crate) fn one_of_each() -> Vec<RingRequest> {
    let query = RingQuery {
        text: "after 1m ago".into(),
        now: Timestamp(7),
        follow: true,
        limit: Some(3),
        gaps_only: false,
        blocks: false,
        numbered: false,
    };
    let asks = vec![
        RingAsk::Create(RingSpec::new("/r", Bytes::mib(64))),
        RingAsk::Status,
        RingAsk::Resize(Bytes::mib(128)),
        RingAsk::Pin { label: "it".into(), from: Timestamp(1), to: Timestamp(2) },
        RingAsk::Unpin(4),
        RingAsk::Pins,
        RingAsk::OpenWriter { writer: 5, resume: true },
        RingAsk::Append { writer: 5, number: 6, age: Duration::from_millis(7) },
        RingAsk::Durable { writer: 5, seen: Durable { number: 1, sequence: 2, full: true } },
        RingAsk::CloseWriter(5),
        RingAsk::Query(query),
        RingAsk::Next(8),
    ];
    let of = |ask| RingRequest { target: TargetId(3), ring: ObjectId { volume: 1, object: 2 }, ask };
    asks.into_iter().map(of).collect()
}

#[test]
fn every_request_is_read_as_it_was_written_under_a_number_of_its_own() {
    let mut seen = Vec::new();
    for request in one_of_each() {
        let body = request.body().expect("it fits");
        assert!(!seen.contains(&request.command()), "{:?}", request.command());
        seen.push(request.command());
        assert_eq!(RingRequest::read(request.command(), &body).expect("it reads"), Some(request.clone()));
        assert_eq!(RingRequest::read(request.command(), &[]).expect_err("it is cut").kind, Kind::Damaged);
        let longer = [&body[..], &[0]].concat();
        assert_eq!(RingRequest::read(request.command(), &longer).expect_err("too long").kind, Kind::Damaged);
    }
    assert_eq!(RingRequest::read(Command::READ_OBJECT, &[]).expect("nothing is read"), None);
}

#[test]
fn what_a_ring_is_called_at_its_target_is_a_name() {
    let ring = ObjectId { volume: u64::MAX, object: u64::MAX };
    forebay_model::ring::check_name(&name_of(ring)).expect("a name");
}

#[test]
fn a_part_whose_items_tell_of_other_bytes_than_came_is_refused() {
    let item = Item::Element { sequence: 0, time: Timestamp(0), length: 4, caller: 2, cut: 0, first: true, last: true };
    let batch = |bytes| Batch { items: vec![item, Item::Expired { from: 0, to: 1 }], payload: vec![0; bytes] };
    check(&batch(6)).expect("all is told");
    assert_eq!(check(&batch(7)).expect_err("one is too many").kind, Kind::Damaged);
}
