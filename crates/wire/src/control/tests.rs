use super::access::{Challenge, Hello, Hidden, is_same, proof};
use super::cluster::{Report, TargetReport};
use super::files::{Caching, Callback, Called, Kept, Listen, MakeWay, Renew, Renewed};
use super::names::{CreateFile, FileId, Place, Rename};
use super::volumes::Policy;
use super::{Call, Change, Question, Reply};
use forebay_model::layout::Raid;
use forebay_model::{Bytes, ObjectId, TargetId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn goes_and_comes<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    hex(&bytes)
}

#[test]
fn what_is_asked_has_the_bytes_that_it_had() {
    let policy = Some(Policy { raid: Raid::One(2), unit: Bytes::kib(4), targets: 3 });
    let create = CreateFile {
        place: Place::path("a"),
        mode: 0o644,
        exclusive: true,
        policy,
        open: false,
        alone: false,
        cached: false,
    };
    let call = Call { sequence: 300, change: Change::CreateFile(create) };
    assert_eq!(goes_and_comes(&call), "ac0200010161a40301010102802003000000");
    let rename = Rename { from: Place::entry(FileId(2), "a"), to: Place::of(FileId(3)), exclusive: false };
    assert_eq!(goes_and_comes(&Change::Rename(rename)), "03020161030000");
    let renew = Renew { files: vec![Renewed { file: FileId(2), write: true, version: 5 }] };
    assert_eq!(goes_and_comes(&Question::Renew(renew)), "0601020105");
    assert_eq!(goes_and_comes(&Question::Map), "09");
    assert_eq!(goes_and_comes(&Question::Targets), "12");
    let kept = Kept { file: FileId(2), caching: Some(Caching::Exclusive), serial: 3, write: true };
    assert_eq!(
        goes_and_comes(&Question::Listen(Listen { kept: vec![kept], all: false, part: 0, more: false })),
        "10010201020301000000"
    );
    let way = MakeWay { place: Place::of(FileId(2)), write: true, cached: false };
    assert_eq!(goes_and_comes(&Question::MakeWay(way)), "1102000100");
    let callback = Callback { file: FileId(2), caching: Caching::Nothing, serial: 300 };
    let called = Called { files: vec![callback], unknown: true, crowded: false };
    assert_eq!(goes_and_comes(&Reply::Called(called)), "11010200ac020100");
    assert_eq!(goes_and_comes(&Reply::Calling), "12");
    assert_eq!(goes_and_comes(&Reply::Done), "00");
    let target = TargetReport {
        target: TargetId(1),
        cluster: 2,
        openings: 3,
        size: Bytes(4),
        free: Bytes(5),
        load: 6,
        epoch: 7,
        key: 8,
        carried_out: vec![],
        failed: None,
        slow: true,
        anew: vec![ObjectId { volume: 2, object: 3 }],
        recorded: Some(300),
    };
    let report = Report { node: 9, address: "h:1".into(), targets: vec![target], wall: Timestamp(1) };
    assert_eq!(goes_and_comes(&report), "0903683a3101010203040506070800000101020301ac0202");
}

#[test]
fn a_proof_is_of_the_secret_both_nonces_the_key_and_the_client() {
    let hello = Hello { key: 1, client: 2, nonce: [3; 16] };
    let challenge = Challenge { nonce: [4; 16] };
    let good = proof(&[5; 32], &hello, &challenge);
    assert_eq!(hex(&good), "b99e91c3431e281b04a45f51a04bc00dde743c7e887196d5e0541194ffcadf6f");
    assert!(is_same(&good, &proof(&[5; 32], &hello, &challenge)));
    let others = [
        proof(&[6; 32], &hello, &challenge),
        proof(&[5; 32], &Hello { key: 2, ..hello.clone() }, &challenge),
        proof(&[5; 32], &Hello { client: 3, ..hello.clone() }, &challenge),
        proof(&[5; 32], &Hello { nonce: [4; 16], ..hello.clone() }, &challenge),
        proof(&[5; 32], &hello, &Challenge { nonce: [3; 16] }),
    ];
    assert!(others.iter().all(|other| !is_same(&good, other)));
}

#[test]
fn what_is_hidden_is_in_no_message() {
    let shown = format!("{:?}", Hidden(vec![200, 201]));
    assert!(!shown.contains("200") && shown.contains("not told"), "{shown}");
}
