use super::*;
use forebay_model::Timestamp;
use forebay_model::block::{Packer, Stamp};

const SPOT: Spot = Spot { target: 5, ring: 2, segment: 9, slot: 3 };

/// A whole block with this stamp.
fn block(change: impl FnOnce(&mut Stamp)) -> Vec<u8> {
    let mut stamp = Stamp {
        target: SPOT.target,
        ring: SPOT.ring,
        segment: SPOT.segment,
        slot: SPOT.slot,
        index: 4,
        offset: 8192,
        durable_blocks: 0,
        epoch: 1,
        first_sequence: 70,
    };
    change(&mut stamp);
    let mut packer = Packer::new(1);
    packer.give(vec![0; 16 << 10]);
    assert!(packer.push(Timestamp(1), &[b"element"], b""));
    let mut bytes = packer.seal().unwrap().buffer;
    Header::set_stamp(&mut bytes, &stamp);
    bytes
}

#[test]
fn what_lies_there_tells_how_it_came_there() {
    type Change = fn(&mut Stamp);
    let cases: [(Change, Cause); 7] = [
        (|_| (), Cause::Rot),
        (|stamp| stamp.segment = 2, Cause::LostWrite),
        (|stamp| stamp.segment = 10, Cause::Misdirected),
        (|stamp| stamp.offset = 4096, Cause::Misdirected),
        (|stamp| stamp.slot = 7, Cause::Misdirected),
        (|stamp| stamp.ring = 1, Cause::Misdirected),
        (|stamp| stamp.target = 6, Cause::Misdirected),
    ];
    for (change, cause) in cases {
        let mut here = block(change);
        assert_eq!(SPOT.instead_of_block(&here, 8192), cause);
        here[20] ^= 1;
        assert_eq!(SPOT.instead_of_block(&here, 8192), Cause::Rot, "a header that is not whole tells nothing");
    }
    assert_eq!(SPOT.instead_of_block(&[0; 4096], 0), Cause::Rot);
    assert_eq!(SPOT.instead_of_block(&[], 0), Cause::Rot);
}
