//! Capabilities and proofs: what nobody made is refused, and what was made allows what it says and nothing else.

use forebay_model::{Bytes, Kind, ObjectId, TargetId, Timestamp};
use forebay_wire::capability::{Capability, Keyring, LENGTH, Nonces, Proof, Rights, RootKey, Said, Wanted};
use forebay_wire::{Command, RequestId};

const CLUSTER: u128 = 77;
const TARGET: TargetId = TargetId(5);
const NOW: Timestamp = Timestamp(1_000_000);
const OBJECT: ObjectId = ObjectId { volume: 3, object: 4 };

/// A capability as it is shown, a proof by chance, and the body of a command.
pub(super) fn take(bytes: &[u8]) {
    let Some((shown, rest)) = bytes.split_first_chunk::<LENGTH>() else { return };
    let Some((proof, body)) = rest.split_first_chunk::<16>() else { return };
    let root = RootKey::new([9; 32]);
    let mut keyring = Keyring::new(CLUSTER, TARGET, [8; 32]);
    (1..3).for_each(|version| keyring.roll(root.of_target(TARGET, version)));
    keyring.advance(4, 2);
    let nonces = Nonces { client: [1; 16], node: [2; 16] };
    let said = Said { nonces: &nonces, request: RequestId(7), command: Command(66), body, payload: (0, Bytes::ZERO) };
    let wanted = Wanted { object: OBJECT, version: Some(3), rights: Rights::WRITE, bytes: 4096..8192 };
    let forged = keyring.check(shown, Proof(*proof), &said, &wanted, NOW);
    assert!(forged.as_ref().is_err_and(|error| error.kind == Kind::Forbidden), "nobody made it: {forged:?}");
    // The same, as if the manager had made one with these numbers.
    let number = |at: usize| u64::from_le_bytes(shown[at..at + 8].try_into().expect("eight bytes"));
    let made = Capability {
        cluster: if shown[0] & 1 == 0 { CLUSTER } else { u128::from(number(8)) },
        target: if shown[0] & 2 == 0 { TARGET } else { TargetId(u128::from(number(24))) },
        client: number(40),
        object: if shown[0] & 4 == 0 { OBJECT } else { ObjectId { volume: number(48), object: number(56) } },
        version: number(64),
        epoch: number(72),
        rights: if shown[1] & 1 == 0 { Rights::READ } else { Rights::READ | Rights::WRITE },
        bytes: number(80)..number(88),
        until: Timestamp(number(96) as i64),
        key: u32::from(shown[2] & 3),
        serial: number(104),
    };
    let proof = root.of_target(TARGET, made.key).secret(&made).prove(&said);
    if let Ok(allowed) = keyring.check(&made.to_bytes(), proof, &said, &wanted, NOW) {
        assert_eq!(allowed, made);
        let is_for_it = made.cluster == CLUSTER && made.target == TARGET && made.object == OBJECT && made.version == 3;
        let covers = made.bytes.start <= 4096 && 8192 <= made.bytes.end && made.rights.have(Rights::WRITE);
        let counts = made.until > NOW && (1..3).contains(&made.key) && (2..=4).contains(&made.epoch);
        assert!(is_for_it && covers && counts, "{made:?}");
    }
}
