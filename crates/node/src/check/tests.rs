use super::Expected;
use forebay_model::block::Packer;
use forebay_model::{Cause, Gap, Timestamp};
use zerocopy::IntoBytes;

const WRITER: u64 = 7;

fn first() -> Expected {
    Expected { writer: WRITER, number: 1, goes_on: Some(false), caller_width: 2 }
}

fn seal(packer: &mut Packer<Vec<u8>>) -> Vec<u8> {
    let sealed = packer.seal().expect("something is packed");
    let mut bytes = sealed.buffer;
    bytes.truncate(sealed.length);
    bytes
}

/// Three blocks: elements and a gap, an element that goes on, and its end.
fn blocks() -> Vec<Vec<u8>> {
    let mut packer: Packer<Vec<u8>> = Packer::new(WRITER);
    packer.give(vec![0; 8192]);
    for n in 0..9 {
        assert!(packer.push(Timestamp(1000 - n * 7), &[&[n as u8; 33]], b"kk"));
    }
    let gap = Gap { cause: Cause::Kernel, count: Some(4), first: Timestamp(5), last: Timestamp(5000) };
    assert!(packer.gap(&gap));
    let mut blocks = vec![seal(&mut packer)];
    packer.give(vec![0; 4096]);
    assert!(packer.begin(Timestamp(2000), b"kk"));
    assert!(packer.part(&[1; 9000]) < 9000);
    blocks.push(seal(&mut packer));
    packer.give(vec![0; 4096]);
    assert_eq!(packer.part(&[1; 10]), 10);
    packer.end();
    blocks.push(seal(&mut packer));
    blocks
}

#[test]
fn blocks_as_they_are_packed_are_taken_in_order() {
    let mut expected = first();
    for block in blocks() {
        expected = expected.check(&block).expect("a good block");
    }
    assert_eq!(expected, Expected { number: 4, ..first() });
    let [one, two, three] = &blocks()[..] else { unreachable!("three blocks") };
    first().check(two).expect_err("the second before the first");
    let second = first().check(one).expect("a good block");
    second.check(one).expect_err("the first once more");
    Expected { writer: 8, ..first() }.check(one).expect_err("another session");
    Expected { caller_width: 3, ..first() }.check(one).expect_err("other keys");
    let third = second.check(two).expect("a good block");
    Expected { goes_on: Some(false), ..third }.check(three).expect_err("an end without a beginning");
    Expected { goes_on: None, ..third }.check(three).expect("after a restart nobody knows");
    first().check(&one[..2048]).expect_err("half a block");
}

#[test]
fn a_changed_byte_is_refused_wherever_it_matters_and_never_panics() {
    // The stamp is the target's to write, the times are the peer's to tell, the reserved bytes are nobody's.
    let free = |at: usize| (10..12).contains(&at) || (16..88).contains(&at) || (156..256).contains(&at);
    let mut expected = first();
    for block in blocks() {
        let view = forebay_model::block::View::of_sealed(&block).expect("a block");
        let end = view.header().end();
        for at in 0..block.len() {
            for bit in [0x01, 0x10, 0x80] {
                let mut changed = block.clone();
                changed[at] ^= bit;
                let result = expected.check(&changed);
                if at < end && !free(at) {
                    result.expect_err(&format!("byte {at} of {end} was changed by {bit:#x}"));
                }
            }
        }
        expected = expected.check(&block).expect("a good block");
    }
}

#[test]
fn a_header_that_lies_about_an_empty_block_is_refused() {
    let mut header = forebay_model::block::Header::blank();
    (header.writer, header.number, header.total_len) = (WRITER.into(), 1.into(), 4096.into());
    header.flags = 2.into();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(4096, 0);
    first().check(&bytes).expect_err("nothing is in it");
}
