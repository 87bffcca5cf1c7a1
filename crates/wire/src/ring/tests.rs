use super::*;
use forebay_model::Kind;
use forebay_model::ring::Beginning;

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
        RingAsk::Pin {
            label: "it".into(),
            from: Timestamp(1),
            to: Timestamp(2),
            along: vec![(relative_of(FileId(9)), 3)],
        },
        RingAsk::Relate(vec![relative_of(FileId(9))]),
        RingAsk::Begin(Beginning { sequence: 70, writer: 8, number: 3 }),
        RingAsk::Unpin(4),
        RingAsk::Pins,
        RingAsk::OpenWriter { writer: 5, resume: true },
        RingAsk::Append { writer: 5, number: 6, age: Duration::from_millis(7) },
        RingAsk::Durable { writer: 5, seen: Durable { number: 1, sequence: 2, full: true } },
        RingAsk::CloseWriter(5),
        RingAsk::Query(query),
        RingAsk::Next(8),
        RingAsk::Image(ImageAsk::Portrait),
        RingAsk::Image(ImageAsk::Read { offset: 9, length: 10 }),
        RingAsk::Image(ImageAsk::Receive),
        RingAsk::Image(ImageAsk::Write { offset: 11 }),
        RingAsk::Image(ImageAsk::Received),
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
fn what_stands_for_a_relative_is_known_from_every_ring_of_a_target() {
    assert_eq!(relative_of(FileId(0x2a)), "/ring/0/2a");
    assert_eq!(entry_of("/ring/0/2a"), Some(FileId(0x2a)));
    for other in ["/ring/1/2a", "/ring/0/02a", "/ring/0/", "/r", "/ring/0/2a/3"] {
        assert_eq!(entry_of(other), None, "{other}");
    }
    let relatives: Vec<String> = (0..MOST_RELATIVES as u64 + 1).map(|n| relative_of(FileId(n))).collect();
    check_relatives(&relatives[1..]).expect("as many as there may be");
    assert_eq!(check_relatives(&relatives).expect_err("one more").kind, Kind::Usage);
    assert_eq!(check_relatives(&["/r".to_string()]).expect_err("a name of a directory").kind, Kind::Usage);
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

#[test]
fn what_moves_a_ring_has_a_payload_where_one_belongs_and_none_is_too_large() {
    let most = 4 << 20;
    for (ask, payload, is_fit) in [
        (ImageAsk::Portrait, 0, true),
        (ImageAsk::Portrait, 1, false),
        (ImageAsk::Read { offset: 0, length: most }, 0, true),
        (ImageAsk::Read { offset: 0, length: most + 1 }, 0, false),
        (ImageAsk::Receive, 0, false),
        (ImageAsk::Receive, most, true),
        (ImageAsk::Write { offset: 0 }, 0, false),
        (ImageAsk::Write { offset: 0 }, most + 1, false),
        (ImageAsk::Received, 1, false),
    ] {
        assert_eq!(
            ask.check(payload as usize).map_err(|error| error.kind),
            if is_fit { Ok(()) } else { Err(Kind::Usage) }
        );
    }
}
