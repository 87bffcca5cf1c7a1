mod chance;

use super::Message;
use crate::proto;
use chance::Chance;
use forebay_model::layout::Raid;
use forebay_model::{Error, Kind, TargetId};
use forebay_wire::control::access::{Challenge, Hello, Proven};
use forebay_wire::control::cluster::{Report, Reported, SetTarget, TargetReport, TargetState, ToTarget};
use forebay_wire::control::names::{CreateFile, Entry, FileId, FileKind, Place, SetAttributes};
use forebay_wire::control::{Call, Change, Question, Reply};
use serde::Deserialize;
use std::fmt::Debug;

/// Through the bytes that are sent.
fn there_and_back<T>(value: T) -> forebay_model::Result<T>
where
    T: Message<Proto: prost::Message + Default>,
{
    let bytes = prost::Message::encode_to_vec(&value.to_proto());
    T::from_proto(prost::Message::decode(&bytes[..]).expect("it is a message"))
}

/// Values by chance: of an enum, so many of each case.
fn round_trips<T>(rounds: u64)
where
    T: Message<Proto: prost::Message + Default> + for<'a> Deserialize<'a> + Clone + PartialEq + Debug,
{
    let mut case = 0;
    loop {
        let mut cases = 1;
        for seed in 0..rounds {
            let mut chance = Chance::new(seed, case);
            let value = T::deserialize(&mut chance).expect("there is a value for everything");
            cases = chance.cases();
            let back = there_and_back(value.clone());
            assert_eq!(back, Ok(value), "case {case}, seed {seed}");
        }
        case += 1;
        if case >= cases {
            return;
        }
    }
}

#[test]
fn every_change_arrives_as_it_was() {
    round_trips::<Change>(50);
    round_trips::<Call>(50);
}

#[test]
fn every_question_arrives_as_it_was() {
    round_trips::<Question>(50);
}

#[test]
fn every_reply_arrives_as_it_was() {
    round_trips::<Reply>(50);
}

#[test]
fn every_report_and_its_answer_arrive_as_they_were() {
    round_trips::<Report>(200);
    round_trips::<Reported>(200);
}

#[test]
fn what_is_said_to_prove_who_asks_arrives_as_it_was() {
    round_trips::<Hello>(20);
    round_trips::<Challenge>(20);
    round_trips::<Proven>(20);
}

#[test]
fn every_level_of_raid_arrives_as_it_was() {
    round_trips::<Raid>(10);
}

#[test]
fn the_lowest_byte_of_an_id_comes_first() {
    let message = SetTarget { target: TargetId(0x0102), state: TargetState::Up }.to_proto();
    assert_eq!(message.target, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_is_not_there_is_told_from_zero() {
    let place = Place::of(FileId(7));
    let none =
        SetAttributes { place, mode: None, owner: None, group: None, size: None, modified: None, accessed: None };
    let root = SetAttributes { owner: Some(0), ..none.clone() };
    assert_eq!(there_and_back(none.clone()), Ok(none));
    assert_eq!(there_and_back(root.clone()), Ok(root));
}

fn refusal<T: Message + Debug>(message: T::Proto) -> Error {
    T::from_proto(message).expect_err("it must be refused")
}

#[test]
fn what_has_to_be_said_is_missed_by_its_name() {
    let file = proto::CreateFile {
        place: None,
        mode: 0o644,
        exclusive: true,
        policy: None,
        open: false,
        alone: false,
        cached: false,
    };
    let error = refusal::<CreateFile>(file);
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("CreateFile.place"), "{error}");
    let entry = proto::Entry { file: 1, parent: 1, attributes: None };
    assert_eq!(refusal::<Entry>(entry).kind, Kind::Usage);
    assert_eq!(refusal::<Call>(proto::CallRequest { sequence: 1, change: None }).kind, Kind::Usage);
}

#[test]
fn a_case_that_is_not_known_is_of_a_later_version() {
    assert_eq!(refusal::<Change>(proto::Change { change: None }).kind, Kind::Version);
    assert_eq!(refusal::<Question>(proto::Question { question: None }).kind, Kind::Version);
    assert_eq!(refusal::<Reply>(proto::Reply { reply: None }).kind, Kind::Version);
    let target = vec![0; 16];
    assert_eq!(refusal::<SetTarget>(proto::SetTarget { target: target.clone(), state: 77 }).kind, Kind::Version);
    assert_eq!(refusal::<SetTarget>(proto::SetTarget { target, state: 0 }).kind, Kind::Usage);
    assert_eq!(refusal::<Raid>(proto::Raid { level: 9, copies: 0 }).kind, Kind::Version);
    assert_eq!(refusal::<Error>(proto::Error { kind: 99, message: String::new() }).kind, Kind::Version);
}

#[test]
fn a_number_or_a_length_that_cannot_be_is_refused() {
    let mut chance = Chance::new(1, 0);
    let report = TargetReport::deserialize(&mut chance).expect("a value").to_proto();
    for load in [256, u32::MAX] {
        assert_eq!(refusal::<TargetReport>(proto::TargetReport { load, ..report.clone() }).kind, Kind::Usage);
    }
    for length in [0, 15, 17] {
        let error = refusal::<TargetReport>(proto::TargetReport { cluster: vec![0; length], ..report.clone() });
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.message.contains("TargetReport.cluster"), "{error}");
        let told =
            proto::ToTarget { target: vec![0; length], refused: None, keys: vec![], orders: vec![], astray: vec![] };
        assert_eq!(refusal::<ToTarget>(told).kind, Kind::Usage);
    }
    let copies_of_nothing = proto::Raid { level: proto::RaidLevel::Five.into(), copies: 2 };
    assert_eq!(refusal::<Raid>(copies_of_nothing).kind, Kind::Usage);
    let raid = Some(Raid::Five.to_proto());
    let striping = proto::Striping { raid, unit: 65536, width: 2, depth: 1, groups: 1 };
    assert_eq!(refusal::<forebay_model::layout::Striping>(striping).kind, Kind::Usage);
}

/// Whatever comes is refused or is a value.
#[test]
fn bytes_that_were_changed_are_a_message_or_an_error() {
    for seed in 0..2000 {
        let mut chance = Chance::new(seed, seed % 23);
        let change = Change::deserialize(&mut chance).expect("a value");
        let mut bytes = prost::Message::encode_to_vec(&change.to_proto());
        if let Some(at) = (chance.below(bytes.len() as u64 + 1) as usize).checked_sub(1) {
            bytes[at] ^= 1 << chance.below(8);
        }
        let message: Result<proto::Change, _> = prost::Message::decode(&bytes[..]);
        if let Some(change) = message.ok().and_then(|message| Change::from_proto(message).ok()) {
            assert_eq!(there_and_back(change.clone()), Ok(change), "seed {seed}");
        }
    }
}

#[test]
fn a_kind_of_file_has_the_name_of_the_interface() {
    assert_eq!(proto::FileKind::try_from(super::Field::to_field(FileKind::Directory)), Ok(proto::FileKind::Directory));
}
