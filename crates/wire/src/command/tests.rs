use super::{AddTarget, ITEMS_PER_FRAME, PlanRequest, Request};
use crate::frame::{MAX_BODY, RequestId};
use crate::{FrameReader, FrameWriter};
use forebay_model::heap::HeapSettings;
use forebay_model::ring::{Item, RingSpec};
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
        Request::Pin { ring: ring(), label: "flare".into(), from: Timestamp(-5), to: Timestamp(7) },
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
    for item in [element, gap, Item::Expired { from: u64::MAX, to: u64::MAX }] {
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
