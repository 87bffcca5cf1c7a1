//! The bytes of `docs/format/metadata.md`, written out. A difference is a new version of the format.

use super::{
    Absence, Absent, Answer, BEFORE, CachesRecord, ClientRecord, Copied, CopiedOn, Epochs, Inode, KeyRecord, Layout,
    MOST_FILES, Meta, Move, Moves, Named, Next, NodeRecord, Orders, Remembered, ShutOutRecord, TargetRecord, Term,
    ToScrub, UserNumber, UserRecord, VERSION, VerifiedAt, VolumeRecord, Writer, Writers, Written, component_of, decode,
    encode, object,
};
use crate::keys;
use forebay_model::block::crc32c;
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Error, Kind, TargetId, Timestamp};
use forebay_wire::control::Reply;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::names::{Attributes, FileId, FileKind};
use forebay_wire::control::volumes::{Policy, Quota};
use serde::Serialize;
use serde::de::DeserializeOwned;

const FILE: FileId = FileId(0x0102);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value has these bytes, they are that value, and neither more nor fewer of them are.
fn is<T: Serialize + DeserializeOwned + PartialEq>(value: T, expected: &str) {
    let bytes = encode(b"k", &value).unwrap();
    let (head, rest) = bytes.split_at(BEFORE);
    assert_eq!(format!("{:02x}{}", head[0], hex(rest)), expected);
    assert_eq!(head[1..], crc32c(&[b"k", &head[..1], rest].concat()).to_le_bytes());
    assert!(decode::<T>(b"k", &bytes).unwrap() == value);
    let longer = [bytes.as_slice(), &[0]].concat();
    for other in [&[][..], &bytes[..bytes.len() - 1], &longer] {
        assert_eq!(decode::<T>(b"k", other).err().unwrap().kind, Kind::Damaged);
    }
}

#[test]
fn keys_have_the_bytes_that_are_written_down() {
    let named = [
        (keys::META.to_vec(), "4d"),
        (keys::TERM.to_vec(), "54"),
        (keys::EPOCHS.to_vec(), "45"),
        (keys::NEXT.to_vec(), "58"),
        (keys::COPIED.to_vec(), "51"),
        (keys::COPIED_ON.to_vec(), "516f6e"),
        (keys::WRITTEN.to_vec(), "516174"),
        (keys::OUTDATED.to_vec(), "516f6c64"),
        (keys::inode(FILE), "490000000000000102"),
        (keys::name(FILE, "ab"), "4400000000000001026162"),
        (keys::behind_names(FILE), "440000000000000103"),
        (keys::behind_names(FileId(0xff)), "4400000000000001"),
        (keys::behind_names(FileId(u64::MAX)), "45"),
        (keys::layout(FILE), "4c0000000000000102"),
        (keys::volume(7), "560000000000000007"),
        (keys::user(5), "5500000005"),
        (keys::user_name("ab"), "756162"),
        (keys::access_key(9), "4b0000000000000009"),
        (keys::client(9), "430000000000000009"),
        (keys::remembered(9, 0x3ff), "52000000000000000903ff"),
        (keys::behind_remembered(9), "52000000000000000a"),
        (keys::writers(FILE), "570000000000000102"),
        (keys::to_scrub(FILE), "530000000000000102"),
        (keys::fences(FILE), "460000000000000102"),
        (keys::removals(FILE), "4f0000000000000102"),
        (keys::node(3), "4e0000000000000003"),
        (keys::moves(FILE), "420000000000000102"),
        (keys::leftovers(FILE), "500000000000000102"),
        (keys::degraded(FILE), "410000000000000102"),
        (keys::target(TargetId(3)), "4700000000000000000000000000000003"),
    ];
    for (key, expected) in named {
        assert_eq!(hex(&key), expected);
    }
    assert_eq!(keys::number(&keys::name(FILE, "ab")), FILE.0);
    assert_eq!(keys::number(b"I"), 0);
    assert_eq!(keys::target_of(&keys::target(TargetId(3))), Some(TargetId(3)));
    assert_eq!(keys::target_of(b"G3"), None);
    assert_eq!(keys::user_of(&keys::user(5)), Some(5));
    assert_eq!(keys::all(b'D'), (b"D".to_vec(), b"E".to_vec()));
}

#[test]
fn a_value_begins_with_its_version_and_a_checksum_of_key_and_value() {
    assert_eq!(hex(&encode(keys::TERM, &Term(300)).unwrap()), "01f8cd2b62ac02");
}

#[test]
fn a_flipped_bit_of_any_value_is_damage_and_so_is_a_value_under_another_key() {
    let five = Striping::new(Raid::Five, Bytes::kib(64), 3, 4, 1).unwrap();
    let targets = (1..=5).map(TargetId).collect();
    let (key, layout) = (keys::layout(FILE), Layout { striping: five, targets, absent: vec![] });
    let bytes = encode(&key, &layout).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = decode::<Layout>(&key, &flipped).unwrap_err();
        assert_eq!(error.kind, Kind::Damaged, "bit {bit}");
        for named in ["where file 258 lies", "manager recover --over"] {
            assert!(error.message.contains(named), "{error}");
        }
    }
    for other in [keys::layout(FileId(FILE.0 + 1)), keys::inode(FILE), keys::name(FILE, "")] {
        assert_eq!(decode::<Layout>(&other, &bytes).unwrap_err().kind, Kind::Damaged);
    }
}

#[test]
fn what_is_damaged_is_named_in_words() {
    let named = [
        (keys::META.to_vec(), "what cluster this is"),
        (keys::inode(FILE), "file or directory 258"),
        (keys::name(FILE, "a\nb"), "the name a\\nb in directory 258"),
        (keys::user(5), "user 5"),
        (keys::user_name("ab"), "the user of the name ab"),
        (keys::access_key(9), "access key 0000000000000009"),
        (keys::target(TargetId(3)), "target 00000000000000000000000000000003"),
        (b"?x".to_vec(), "something under ?x"),
    ];
    for (key, words) in named {
        assert_eq!(keys::in_words(&key), words);
    }
}

#[test]
fn what_copies_may_lack_has_the_bytes_that_are_written_down() {
    let copied = Copied { base: 0x200001, batch: 7, keys: vec![keys::NEXT.to_vec(), keys::inode(FILE)] };
    is(copied, "01818080010702015809490000000000000102");
    is(CopiedOn(vec![TargetId(5), TargetId(300)]), "010205ac02");
    is(Written { term: 300, object: 0x200001, at: 5, batch: 7 }, "01ac02818080010507");
}

fn attributes() -> Attributes {
    Attributes {
        kind: FileKind::File,
        mode: 0o644,
        owner: 5,
        group: 6,
        size: Bytes(300),
        entries: 0,
        created: Timestamp(1),
        modified: Timestamp(2),
        accessed: Timestamp(-1),
        changed: Timestamp(64),
        volume: 7,
        version: 8,
    }
}

#[test]
fn values_of_names_have_the_bytes_that_are_written_down() {
    is(Inode { parent: FILE, attributes: attributes(), written: true }, "01820200a4030506ac02000204018001070801");
    is(Named { file: FILE, kind: FileKind::Directory }, "01820201");
    is(Next { file: 2, volume: 3 }, "010203");
    let five = Striping::new(Raid::Five, Bytes::kib(64), 3, 4, 1).unwrap();
    is(
        Layout { striping: five, targets: vec![TargetId(1), TargetId(200)], absent: vec![] },
        "01028080040304010201c80100",
    );
    let absent = [(0, Absence::Missed), (1, Absence::Emptying(5)), (2, Absence::Filling(300))];
    let absent = absent.map(|(component, absence)| Absent { component, since: 4 + u64::from(component), absence });
    is(
        Layout { striping: five, targets: vec![], absent: absent.to_vec() },
        "0102808004030401000300040001050105020602ac02",
    );
    let one = Striping::new(Raid::One(2), Bytes::kib(4), 1, 1, 1).unwrap();
    is(Layout { striping: one, targets: vec![], absent: vec![] }, "01010280200101010000");
    let quota = Quota { soft_bytes: None, hard_bytes: Some(Bytes(5)), soft_files: Some(6), hard_files: None };
    let policy = Policy { raid: Raid::Zero, unit: Bytes::kib(4), targets: 10 };
    let (bytes_over_since, files_over_since) = (Some(Timestamp(1)), None);
    is(
        VolumeRecord { root: FILE, quota, policy, bytes: Bytes(9), files: 2, bytes_over_since, files_over_since },
        "0182020001050106000080200a0902010200",
    );
    is(
        Writers(vec![Writer { client: 4, user: 5, since: Timestamp(3), alone: true, yields: false, cached: true }]),
        "0101040506010001",
    );
    is(ToScrub { since: Timestamp(3) }, "0106");
    is(CachesRecord { since: Timestamp(3) }, "0106");
    is(ShutOutRecord { until: Timestamp(3) }, "0106");
    is(VerifiedAt { at: Timestamp(3), found: None }, "010600");
    is(VerifiedAt { at: Timestamp(3), found: Some(Timestamp(4)) }, "01060108");
    is(Moves(vec![Move { component: 2, to: TargetId(5), by: 300, even: true, former: true }]), "01010205ac020101");
    let pending = vec![(2, TargetId(5))];
    is(Orders { volume: 1, version: 2, due: Timestamp(3), pending }, "01010206010205");
}

#[test]
fn values_of_the_cluster_have_the_bytes_that_are_written_down() {
    is(Meta { cluster: 200, root_key: [7; 32] }, &format!("01c801{}", "07".repeat(32)));
    is(Term(300), "01ac02");
    is(Epochs { epoch: 5, least: 4, rolled: 3, rolled_at: Timestamp(1) }, "0105040302");
    is(NodeRecord { user: 5, address: "a:1".into(), up: true }, "010503613a3101");
    let state = TargetState::Failed;
    let target = TargetRecord { node: 3, state, openings: 4, size: Bytes(5), free: Bytes(6), rolled: 7, recorded: 8 };
    is(target, "0103020405060708");
    let states = [TargetState::Up, TargetState::Draining, TargetState::Failed, TargetState::Gone];
    assert_eq!(states.map(|state| encode(b"k", &state).unwrap()[BEFORE]), [0, 1, 2, 3]);
}

#[test]
fn values_of_users_and_clients_have_the_bytes_that_are_written_down() {
    is(UserRecord { name: "ab".into(), groups: vec![1, 2], keys: vec![300] }, "0102616202010201ac02");
    is(UserNumber(300), "01ac02");
    let key = KeyRecord { user: 5, secret: [8; 32], label: "l".into(), issued: Timestamp(1) };
    is(key, &format!("0105{}016c02", "08".repeat(32)));
    is(ClientRecord { user: 5, used: Timestamp(1) }, "010502");
    let remembered = |answer| Remembered { sequence: 300, asked: [9; 16], answer };
    let head = format!("01ac02{}", "09".repeat(16));
    is(remembered(Answer::Reply(Reply::Done)), &format!("{head}0000"));
    is(remembered(Answer::Error(Error::exists("no"))), &format!("{head}0103026e6f"));
    is(remembered(Answer::Opened(FILE)), &format!("{head}028202"));
    let entry = Inode { parent: FILE, attributes: attributes(), written: true }.entry(FileId(9));
    is(remembered(Answer::Reply(Reply::Entry(entry))), &format!("{head}000109820200a4030506ac020002040180010708"));
}

#[test]
fn a_newer_version_is_refused_and_not_guessed_at() {
    let of_version = |version: u8| {
        let mut bytes = encode(b"T", &Term(1)).unwrap();
        bytes[0] = version;
        let crc = crc32c(&[b"T", &bytes[..1], &bytes[BEFORE..]].concat());
        bytes[1..BEFORE].copy_from_slice(&crc.to_le_bytes());
        decode::<Term>(b"T", &bytes)
    };
    assert!(of_version(VERSION) == Ok(Term(1)));
    let error = of_version(VERSION + 1).unwrap_err();
    assert_eq!(error.kind, Kind::Version);
    assert!(error.message.contains("version 2"), "{error}");
    assert_eq!(of_version(0).unwrap_err().kind, Kind::Damaged);
}

#[test]
fn every_component_of_every_file_has_an_object_of_its_own() {
    let last = FileId(MOST_FILES - 1);
    for (file, component) in [(FileId(1), 0), (FileId(1), 4095), (FileId(2), 0), (last, 0), (last, 4095)] {
        let object = object(3, file, component);
        assert!(object.is_user());
        assert_eq!(component_of(object), (file, component));
    }
    assert_eq!(object(3, FileId(0x12), 0x345).object, 0x12345);
}
