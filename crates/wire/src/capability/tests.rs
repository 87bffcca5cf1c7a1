//! The numbers are those of the outcomes that are demanded of bad input.

use super::{Capability, Keyring, LENGTH, LONGEST_LIFE, Nonces, Proof, Rights, RootKey, SKEW, Said, Secret, Wanted};
use crate::frame::{Command, RequestId};
use crate::tests::fuzz::change;
use crate::tests::seeds;
use forebay_model::{Bytes, Error, Kind, ObjectId, Result, TargetId, Timestamp};
use std::ops::Range;
use std::time::Duration;

const CLUSTER: u128 = 77;
const TARGET: TargetId = TargetId(5);
const OTHER: TargetId = TargetId(6);
const OBJECT: ObjectId = ObjectId { volume: 3, object: 4 };
const NONCES: Nonces = Nonces { client: [1; 16], node: [2; 16] };
const NOW: Timestamp = Timestamp(1_000_000);

fn root() -> RootKey {
    RootKey::new([9; 32])
}

fn keyring(versions: Range<u32>) -> Keyring {
    let mut keyring = Keyring::new(CLUSTER, TARGET, [8; 32]);
    versions.for_each(|version| keyring.roll(root().of_target(TARGET, version)));
    keyring.advance(4, 2);
    keyring
}

fn capability() -> Capability {
    Capability {
        cluster: CLUSTER,
        target: TARGET,
        client: 12,
        object: OBJECT,
        version: 3,
        epoch: 4,
        rights: Rights::READ | Rights::WRITE,
        bytes: 4096..8192,
        until: Timestamp(NOW.0 + 1_000_000),
        key: 2,
        serial: 55,
    }
}

fn secret(capability: &Capability) -> Secret {
    root().of_target(capability.target, capability.key).secret(capability)
}

fn said(body: &[u8]) -> Said<'_> {
    Said { nonces: &NONCES, request: RequestId(7), command: Command(48), body, payload: (99, Bytes(4096)) }
}

fn wanted() -> Wanted {
    Wanted { object: OBJECT, version: Some(3), rights: Rights::WRITE, bytes: 4096..8192 }
}

fn check(capability: &Capability, wanted: &Wanted) -> Result<Capability> {
    let said = said(b"write");
    keyring(1..3).check(&capability.to_bytes(), secret(capability).prove(&said), &said, wanted, NOW)
}

fn is_forbidden(result: Result<Capability>) -> bool {
    let one = Error::forbidden("the capability that was shown does not allow this; ask the manager for one that does");
    result == Err(one)
}

#[test]
fn what_is_allowed_and_proven_is_done_as_long_as_it_may_be() {
    let (one, other) = (capability(), Wanted { bytes: 5000..5000, rights: Rights::READ, ..wanted() });
    for wanted in [wanted(), Wanted { bytes: 5000..5001, ..wanted() }, Wanted { version: None, ..wanted() }, other] {
        assert_eq!(check(&one, &wanted), Ok(one.clone()));
    }
    let told = Secret::from_bytes(secret(&one).to_bytes());
    assert_eq!(told.prove(&said(b"x")), secret(&one).prove(&said(b"x")));
}

#[test]
fn outcome_1_whichever_bit_is_flipped_the_answer_is_the_same() {
    let (good, said) = (capability().to_bytes(), said(b"write"));
    let proof = secret(&capability()).prove(&said);
    let keyring = keyring(1..3);
    for bit in 0..LENGTH * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(is_forbidden(keyring.check(&bad, proof, &said, &wanted(), NOW)), "bit {bit}");
    }
    for bit in 0..128 {
        let mut bad = proof;
        bad.0[bit / 8] ^= 1 << (bit % 8);
        assert!(is_forbidden(keyring.check(&good, bad, &said, &wanted(), NOW)), "bit {bit} of the proof");
    }
    assert!(is_forbidden(keyring.check(&[0; LENGTH], Proof([0; 16]), &said, &wanted(), NOW)));
}

#[test]
fn outcome_2_what_is_over_by_the_clock_of_the_target_is_said_to_be() {
    let one = capability();
    let said = said(b"write");
    let at = |now: i64| {
        let now = Timestamp(one.until.0 + now);
        keyring(1..3).check(&one.to_bytes(), secret(&one).prove(&said), &said, &wanted(), now)
    };
    assert!(at(-1).is_ok());
    for late in [0, 1, 1_000_000, i64::MAX / 2] {
        let error = at(late).expect_err("it is over");
        assert!(error.kind == Kind::Stale && error.message.contains("renew"), "{error}");
    }
    // That it is over is said to nobody who did not prove it.
    let other = Capability { serial: 56, ..one.clone() };
    let unproven = keyring(1..3).check(&one.to_bytes(), secret(&other).prove(&said), &said, &wanted(), one.until);
    assert!(is_forbidden(unproven));
}

#[test]
fn what_counts_for_longer_than_any_may_is_refused_as_the_clocks_differ() {
    let said = said(b"write");
    let until = |span: Duration| {
        let one = Capability { until: NOW.after(span), ..capability() };
        keyring(1..3).check(&one.to_bytes(), secret(&one).prove(&said), &said, &wanted(), NOW)
    };
    assert!(until(LONGEST_LIFE + SKEW).is_ok());
    for span in [LONGEST_LIFE + SKEW + Duration::from_nanos(1), Duration::from_secs(1 << 40)] {
        let error = until(span).expect_err("it would count for too long");
        assert!(error.kind == Kind::Refused && error.message.contains("clocks"), "{error}");
    }
}

#[test]
fn outcome_3_what_it_does_not_cover_is_refused_whether_it_is_there_or_not() {
    let one = capability();
    let object = |object| ObjectId { object, ..OBJECT };
    for version in [Some(3), None] {
        for wanted in [
            Wanted { object: object(5), version, ..wanted() },
            Wanted { object: ObjectId { volume: 2, ..OBJECT }, version, ..wanted() },
            Wanted { object: ObjectId::volume(3), version, ..wanted() },
            Wanted { bytes: 4095..8192, version, ..wanted() },
            Wanted { bytes: 4096..8193, version, ..wanted() },
            Wanted { bytes: 0..u64::MAX, version, ..wanted() },
            Wanted { bytes: Range { start: 8192, end: 4096 }, version, ..wanted() },
            Wanted { rights: Rights::REMOVE, version, ..wanted() },
            Wanted { rights: Rights::WRITE | Rights::TRUNCATE, version, ..wanted() },
            Wanted { rights: Rights::NONE, version, ..wanted() },
        ] {
            assert!(is_forbidden(check(&one, &wanted)), "{wanted:?}");
        }
    }
    let read_only = Capability { rights: Rights::READ, ..one.clone() };
    assert!(is_forbidden(check(&read_only, &wanted())), "a write with the right to read");
    let elsewhere = Capability { cluster: CLUSTER + 1, ..one.clone() };
    assert!(is_forbidden(check(&elsewhere, &wanted())));
    for version in [2, 4] {
        let error = check(&one, &Wanted { version: Some(version), ..wanted() }).expect_err("it was revoked");
        assert_eq!(error.kind, Kind::Stale, "{error}");
    }
}

#[test]
fn outcome_4_what_was_overheard_is_of_no_use_with_anything_else_or_anywhere_else() {
    let one = capability();
    let proof = secret(&one).prove(&said(b"write"));
    let elsewhere = Nonces { node: [3; 16], ..NONCES };
    let again = Nonces { client: [3; 16], ..NONCES };
    for other in [
        Said { nonces: &elsewhere, ..said(b"write") },
        Said { nonces: &again, ..said(b"write") },
        Said { request: RequestId(8), ..said(b"write") },
        Said { command: Command(49), ..said(b"write") },
        Said { body: b"writ", ..said(b"write") },
        Said { body: b"", ..said(b"write") },
        Said { payload: (98, Bytes(4096)), ..said(b"write") },
        Said { payload: (99, Bytes(4097)), ..said(b"write") },
    ] {
        let checked = keyring(1..3).check(&one.to_bytes(), proof, &other, &wanted(), NOW);
        assert!(is_forbidden(checked), "{other:?}");
    }
}

#[test]
fn outcome_5_keys_open_one_target_and_the_last_two_of_them_count() {
    let made = |key: u32| Capability { key, ..capability() };
    let said = said(b"write");
    let with = |keyring: &Keyring, one: &Capability, secret: &Secret| {
        keyring.check(&one.to_bytes(), secret.prove(&said), &said, &wanted(), NOW)
    };
    let keyring = keyring(1..5);
    for key in [3, 4] {
        assert!(with(&keyring, &made(key), &secret(&made(key))).is_ok(), "key {key}");
    }
    for key in [0, 5, u32::MAX] {
        assert!(is_forbidden(with(&keyring, &made(key), &secret(&made(key)))), "key {key}");
    }
    // What was made before two others is renewed by who may; whether it was is not looked at, and nothing is read or done.
    for key in [1, 2] {
        let error = with(&keyring, &made(key), &secret(&made(key))).expect_err("it was rolled away");
        assert!(error.kind == Kind::Stale && error.message.contains("renew"), "{error}");
    }
    // One for another target is no good here, nor is what that one's key makes.
    let theirs = Capability { target: OTHER, ..made(4) };
    assert!(is_forbidden(with(&keyring, &theirs, &secret(&theirs))));
    let forged = root().of_target(OTHER, 4).secret(&made(4));
    assert!(is_forbidden(with(&keyring, &made(4), &forged)));
    let stolen = RootKey::new([10; 32]).of_target(TARGET, 4).secret(&made(4));
    assert!(is_forbidden(with(&keyring, &made(4), &stolen)));
    let without = Keyring::new(CLUSTER, TARGET, [8; 32]);
    assert!(is_forbidden(with(&without, &made(4), &secret(&made(4)))), "without keys nothing is allowed");
}

#[test]
fn outcome_8_old_keys_and_epochs_do_not_come_back() {
    let mut keyring = keyring(1..5);
    let (one, said) = (Capability { key: 4, ..capability() }, said(b"write"));
    keyring.roll(root().of_target(TARGET, 1));
    keyring.roll(root().of_target(TARGET, 4));
    let check = |keyring: &Keyring, one: &Capability| {
        keyring.check(&one.to_bytes(), secret(one).prove(&said), &said, &wanted(), NOW).map(drop).map_err(|e| e.kind)
    };
    assert_eq!(check(&keyring, &Capability { key: 3, ..one.clone() }), Ok(()));
    assert_eq!(check(&keyring, &Capability { key: 1, ..one.clone() }), Err(Kind::Stale));
    // Fenced by epoch, and by no clock.
    assert_eq!(check(&keyring, &Capability { epoch: 2, ..one.clone() }), Ok(()));
    assert_eq!(check(&keyring, &Capability { epoch: 1, ..one.clone() }), Err(Kind::Stale));
    assert_eq!(check(&keyring, &Capability { epoch: 5, ..one.clone() }), Err(Kind::Busy), "it catches up first");
    keyring.advance(9, 5);
    keyring.advance(3, 1);
    assert_eq!(check(&keyring, &one), Err(Kind::Stale));
    assert_eq!(check(&keyring, &Capability { epoch: 9, ..one }), Ok(()));
}

/// Also what the manager itself would have to have made, with whatever numbers: it is checked like all others.
#[test]
fn whatever_is_shown_is_read_as_what_it_says_or_refused() {
    seeds::each(1, |chance| {
        let (mut read, mut allowed) = (0, 0);
        for _ in 0..30_000 {
            let mut bytes = capability().to_bytes().to_vec();
            change(chance, &mut bytes, &[]);
            bytes.resize(LENGTH, 0);
            let shown: [u8; LENGTH] = bytes.try_into().expect("it is as long");
            let capability = Capability::from_bytes(&shown);
            assert!(capability.iter().all(|capability| capability.to_bytes() == shown), "{capability:?}");
            let said = said(b"write");
            let forged = Proof(std::array::from_fn(|_| chance.next() as u8));
            assert!(is_forbidden(keyring(1..3).check(&shown, forged, &said, &wanted(), NOW)));
            let Some(capability) = capability else { continue };
            read += 1;
            let proof = root().of_target(TARGET, capability.key).secret(&capability).prove(&said);
            if let Ok(done) = keyring(1..3).check(&shown, proof, &said, &wanted(), NOW) {
                let covers = done.bytes.start <= 4096 && 8192 <= done.bytes.end && done.rights.have(Rights::WRITE);
                assert!(covers && done.object == OBJECT && done.until > NOW, "{done:?}");
                allowed += 1;
            }
        }
        assert!(read > 3000 && allowed > 100, "{read} were of this form, and {allowed} were allowed");
    });
}

#[test]
fn nothing_secret_is_shown_to_who_prints_it() {
    let key = root().of_target(TARGET, 2);
    for text in [format!("{:?}", root()), format!("{key:?}"), format!("{:?}", secret(&capability()))] {
        assert!(text.contains("not told") && !text.contains('['), "{text}");
    }
    assert_eq!(format!("{:?}", Rights::READ | Rights::LIST), r#"{"read", "list"}"#);
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let capability = Capability {
        cluster: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100,
        target: TargetId(0x1f1e_1d1c_1b1a_1918_1716_1514_1312_1110),
        client: 0x2726_2524_2322_2120,
        object: ObjectId { volume: 0x2f2e_2d2c_2b2a_2928, object: 0x3736_3534_3332_3130 },
        version: 0x3f3e_3d3c_3b3a_3938,
        epoch: 0x4746_4544_4342_4140,
        rights: Rights(0x4948),
        bytes: 0x5756_5554_5352_5150..0x5f5e_5d5c_5b5a_5958,
        until: Timestamp(0x6766_6564_6362_6160),
        key: 0x4f4e_4d4c,
        serial: 0x6f6e_6d6c_6b6a_6968,
    };
    let mut expected = vec![1, 0, 0x48, 0x49];
    expected.extend(0x4c..0x50);
    expected.extend(0..0x48);
    expected.extend(0x50..0x70);
    expected.extend([0; 16]);
    assert_eq!(capability.to_bytes()[..], expected);
    let told = secret(&Capability { key: 2, ..capability }).to_bytes();
    assert_eq!(told[..4], [133, 52, 117, 237]);
}

#[test]
fn the_documented_table_is_the_code() {
    let page = include_str!("../../../../docs/protocol/capabilities.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
    let mut at = 0;
    for row in rows.take_while(|row| row.split('|').count() == 5) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1].parse(), Ok(at), "{row}");
        at += cells[2].parse::<usize>().expect("a length");
    }
    assert_eq!(at, LENGTH);
    for (bit, right) in
        ["read", "write", "truncate", "get attributes", "set attributes", "create", "remove", "list"].iter().enumerate()
    {
        assert!(page.contains(&format!("{bit} {right}")), "{bit} {right}");
    }
}
