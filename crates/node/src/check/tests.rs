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

/// Four blocks: elements and a gap, an element that goes on, its end with one that is torn, and what follows it.
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
    assert!(packer.begin(Timestamp(2000), b"kk", 0));
    assert!(packer.part(&[1; 9000]) < 9000);
    blocks.push(seal(&mut packer));
    packer.give(vec![0; 4096]);
    assert_eq!(packer.part(&[1; 10]), 10);
    packer.end();
    assert!(packer.push_cut(Timestamp(2001), &[b"short"], b"kk", 99));
    assert!(packer.begin(Timestamp(2002), b"kk", 0));
    assert!(packer.part(&[2; 9000]) < 9000);
    blocks.push(seal(&mut packer));
    packer.give(vec![0; 4096]);
    packer.abandon();
    assert!(packer.push(Timestamp(2003), &[b"after"], b"kk"));
    blocks.push(seal(&mut packer));
    blocks
}

#[test]
fn blocks_as_they_are_packed_are_taken_in_order() {
    let mut expected = first();
    for block in blocks() {
        expected = expected.check(&block).expect("a good block");
    }
    assert_eq!(expected, Expected { number: 5, ..first() });
    let [one, two, three, _] = &blocks()[..] else { unreachable!("four blocks") };
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
    let free = |at: usize| (10..12).contains(&at) || (16..88).contains(&at) || (160..256).contains(&at);
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

#[test]
fn a_header_that_lies_about_cuts_or_torn_elements_is_refused() {
    use forebay_model::block::{Flags, Header};
    use zerocopy::FromBytes;
    let mut expected = first();
    for block in blocks() {
        let (header, _) = Header::read_from_prefix(&block).expect("a header");
        for flag in [Flags::TORN, Flags::CUTS] {
            let mut lying = header;
            lying.flags = (header.flags.get() ^ flag).into();
            let mut changed = block.clone();
            changed[..256].copy_from_slice(lying.as_bytes());
            // That an end of no bytes is torn, only the flag says: without it, it is an end.
            if header.is_torn() && flag == Flags::TORN {
                expected.check(&changed).expect("a good block");
            } else {
                expected.check(&changed).expect_err("a lie");
            }
        }
        expected = expected.check(&block).expect("a good block");
    }
}

#[test]
fn a_small_block_of_more_empty_elements_than_are_taken_in_is_refused_before_they_are_looked_at() {
    use forebay_model::block::{Header, MOST_ENTRIES};
    use zerocopy::FromBytes;
    let mut packer: Packer<Vec<u8>> = Packer::new(WRITER);
    packer.give(vec![0; 4096]);
    while packer.push(Timestamp(5), &[], b"") {}
    let mut block = seal(&mut packer);
    let expected = Expected { caller_width: 0, ..first() };
    expected.check(&block).expect("as many as a packer takes");
    let (mut header, _) = Header::read_from_prefix(&block).expect("a header");
    assert_eq!(header.entries.get(), MOST_ENTRIES);
    header.entries = (MOST_ENTRIES + 1).into();
    block[..256].copy_from_slice(header.as_bytes());
    let error = expected.check(&block).expect_err("one more");
    assert!(error.message.contains("1048577 elements"), "{error}");
}
