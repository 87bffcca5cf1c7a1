#![allow(clippy::disallowed_methods)]

use super::{AddTarget, ITEMS_PER_FRAME, PlanRequest, Request};
use crate::frame::{MAX_BODY, RequestId};
use crate::{FrameReader, FrameWriter};
use forebay_model::heap::HeapSettings;
use forebay_model::ring::{Beginning, Item, Losses, RingSpec, RingState, RingStatus};
use forebay_model::settings::SettingsChange;
use forebay_model::{Bytes, Cause, Gap, Profile, Rate, TargetId, Timestamp};
use std::time::Duration;

pub(crate) fn one_of_each() -> Vec<Request> {
    let ring = || "/station/7".to_string();
    let spec = RingSpec::new("/station/7", Bytes::gib(1));
    vec![
        Request::Info,
        Request::Status { ring: None },
        Request::Status { ring: Some(ring()) },
        Request::CreateRing(spec),
        Request::DeleteRing { ring: ring() },
        Request::ResizeRing { ring: ring(), capacity: Bytes::gib(2) },
        Request::RelateRing { ring: ring(), relatives: vec!["/station/8".into(), "/station/9".into()] },
        Request::BeginRing { ring: ring(), beginning: Beginning { sequence: 70, writer: 8, number: 3 } },
        Request::Pin {
            ring: ring(),
            label: "flare".into(),
            from: Timestamp(-5),
            to: Timestamp(7),
            along: vec![(ring(), 9)],
        },
        Request::Unpin { ring: ring(), pin: 3 },
        Request::Pins { ring: ring() },
        Request::Profiles,
        Request::SetProfile { target: TargetId(9), profile: Profile::guess(Bytes::gib(4), true) },
        Request::Measure { target: TargetId(9), budget: Duration::from_secs(30) },
        Request::Plan(PlanRequest {
            rate: Rate::mb(60),
            capacity: None,
            pin_percent: 5,
            flush_interval: Duration::from_secs(1),
            block: Bytes::mib(1),
            keys: 6,
        }),
        Request::Scrub { target: TargetId(9), rate: Some(Rate::mb(50)), span: Duration::from_secs(1), anew: true },
        Request::Settings {
            target: TargetId(9),
            change: SettingsChange { logged_up_to: Some(Bytes::kib(32)), hot_percent: Some(70), ..Default::default() },
        },
        Request::AddTarget(AddTarget { path: "/dev/sdb".into(), size: Some(Bytes::gib(1)), force: true }),
        Request::CreateHeap { heap: "/pages".into(), settings: HeapSettings::default() },
        Request::Heaps,
        Request::HeapInfo { heap: "/pages".into() },
        Request::DeleteHeap { heap: "/pages".into() },
    ]
}

#[test]
fn every_request_arrives_as_it_was_sent() {
    let mut writer = FrameWriter::new(Vec::new());
    for (number, request) in one_of_each().iter().enumerate() {
        request.send(&mut writer, RequestId(number as u64)).expect("it fits");
    }
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    for (number, request) in one_of_each().into_iter().enumerate() {
        let head = reader.receive().expect("a good frame").expect("another frame");
        assert_eq!(head.request, RequestId(number as u64));
        assert_eq!(head.command, request.command());
        assert_eq!(Request::receive(&mut reader, &head).expect("a good body"), Some(request));
    }
}

#[test]
fn the_items_of_a_frame_fit_its_body_whatever_they_are() {
    let element = Item::Element {
        sequence: u64::MAX,
        time: Timestamp::MIN,
        length: u32::MAX,
        caller: u16::MAX,
        cut: u32::MAX,
        first: true,
        last: true,
    };
    let gap =
        Item::Gap(Gap { cause: Cause::ClockBack, count: Some(u64::MAX), first: Timestamp::MIN, last: Timestamp::MIN });
    let block = Item::Block { writer: u64::MAX, number: u64::MAX, first: u64::MAX, durable: u64::MAX };
    for item in [element, gap, Item::Expired { from: u64::MAX, to: u64::MAX }, block] {
        let bytes = postcard::to_allocvec(&vec![item; ITEMS_PER_FRAME]).expect("it can be written");
        assert!(bytes.len() <= MAX_BODY as usize, "{} bytes", bytes.len());
    }
}

#[test]
fn every_command_is_described() {
    let page = include_str!("../../../../docs/protocol/commands.md");
    for request in one_of_each() {
        let row = format!("| {} |", request.command().0);
        assert!(page.lines().any(|line| line.starts_with(&row)), "{row} is missing");
    }
}

/// What a ring says of itself, as a table, and its bytes field by field. A field that is added has to be named here.
fn ring_status() -> (String, Vec<u8>, RingStatus) {
    let status = RingStatus {
        spec: RingSpec::new("/station/7", Bytes::gib(1)),
        state: RingState::Ready,
        segments: 64,
        pinned_segments: 2,
        first_sequence: 300,
        next_sequence: 70_000,
        readable_sequence: 69_000,
        oldest: Some(Timestamp(-5)),
        newest: None,
        written: Bytes::mib(900),
        elements: 4_000_000,
        missed_deadlines: 1,
        losses: Losses::default(),
        staging_peak: Bytes::mib(3),
        staging: Bytes::mib(4),
        index_memory: Bytes::kib(5),
        memory_limit: Bytes::mib(60),
        recording: true,
        pins: Vec::new(),
        begins: 250,
    };
    let (mut table, mut bytes) = (String::from("| field | type | what |\n| --- | --- | --- |\n"), Vec::new());
    macro_rules! fields {
        ($($field:ident: $kind:literal, $what:literal;)*) => {
            let RingStatus { $($field),* } = status.clone();
            $(
                table.push_str(&format!("| `{}` | `{}` | {} |\n", stringify!($field), $kind, $what));
                bytes.extend(crate::body::write(&$field).expect("it can be written"));
            )*
        };
    }
    fields! {
        spec: "RingSpec", "how it was created; sizes as they are now";
        state: "RingState", "0 recovering, 1 ready, 2 full, 3 failed";
        segments: "u64", "segments in all";
        pinned_segments: "u64", "of these, those that pins hold";
        first_sequence: "u64", "number of the oldest element that is kept";
        next_sequence: "u64", "number of the next element";
        readable_sequence: "u64", "number after the last element that can be read";
        oldest: "Option<Timestamp>", "time of the oldest element that is kept";
        newest: "Option<Timestamp>", "time of the newest element that was accepted";
        written: "Bytes", "written since the target was opened, with padding and index";
        elements: "u64", "accepted since then";
        missed_deadlines: "u64", "blocks that were late since then";
        losses: "Losses", "losses in what is kept: elements by cause, then gaps by cause";
        staging_peak: "Bytes", "the most staging memory that was in use at once";
        staging: "Bytes", "staging memory in all";
        index_memory: "Bytes", "memory of the index of the open segment";
        memory_limit: "Bytes", "the most memory that it takes";
        recording: "bool", "whether somebody records into it";
        pins: "Vec<Pin>", "pins, oldest first";
        begins: "u64", "number of the first element that was ever recorded, or will be";
    }
    (table, bytes, status)
}

/// The page shows what the code says. `UPDATE=1 cargo test -p forebay-wire` writes the table into the page.
#[test]
fn the_page_about_commands_shows_what_a_ring_says_of_itself_in_the_order_of_its_bytes() {
    const BEGIN: &str = "<!-- printed by the code: begin -->\n";
    const END: &str = "<!-- printed by the code: end -->";
    let (printed, bytes, status) = ring_status();
    assert_eq!(crate::body::write(&status).expect("it can be written"), bytes, "the table has the order of the bytes");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/commands.md");
    let page = std::fs::read_to_string(path).expect("docs/protocol/commands.md is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the table begins");
    let (shown, after) = rest.split_once(END).expect("the page marks where the table ends");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, [before, BEGIN, &printed, END, after].concat()).expect("the page can be written");
    } else {
        assert_eq!(shown, printed, "run UPDATE=1 cargo test -p forebay-wire");
    }
}
