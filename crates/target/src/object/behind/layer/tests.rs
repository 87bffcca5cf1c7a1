use super::Layer;
use crate::object::journal::Content;
use crate::object::rows::BLOCK;

/// A layer into which `writes` of blocks were taken, each with bytes of its own.
fn layer(from: u64, writes: &[std::ops::Range<u64>]) -> Layer {
    let mut layer = Layer::default();
    for (n, write) in (from..).zip(writes) {
        let blocks = write.end - write.start;
        let bytes = vec![n as u8; (blocks * BLOCK.0) as usize];
        layer.take_in(write.start, Content { at: n * 100, bytes: bytes.into() }, &vec![n as u32; blocks as usize]);
    }
    layer
}

/// Whose bytes each block has.
fn shown(layer: &Layer) -> Vec<(u64, u8)> {
    let blocks = layer.blocks().iter();
    let own = |(number, block): (&u64, &super::Block)| {
        assert!(block.bytes().iter().all(|byte| u32::from(*byte) == block.crc), "the bytes and sum of one write");
        assert_eq!(block.bytes().len() as u64, BLOCK.0);
        (*number, block.bytes()[0])
    };
    blocks.map(own).collect()
}

#[test]
fn the_newest_of_each_block_is_there_and_memory_is_counted_until_all_that_came_with_it_is_gone() {
    let one = layer(1, &[0..4, 2..6]);
    assert_eq!(shown(&one), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2), (5, 2)]);
    assert_eq!((one.count(), one.weight()), (6, 8), "two blocks of the first were replaced, and two are there");
    let gone = layer(1, &[0..4, 2..6, 0..2]);
    assert_eq!((gone.count(), gone.weight()), (6, 6), "nothing of the first is left");
    let often = layer(1, &[0..4, 0..4, 0..4, 1..2, 1..2, 1..2]);
    assert_eq!((often.count(), often.weight()), (4, 5), "what is written over and over takes no more than once");
}

#[test]
fn a_layer_that_takes_in_a_newer_one_has_the_blocks_and_the_memory_of_both() {
    let mut old = layer(1, &[0..4, 6..8]);
    old.absorb(layer(3, &[3..7, 5..6]));
    assert_eq!(shown(&old), [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3), (5, 4), (6, 3), (7, 2)]);
    assert_eq!((old.count(), old.weight()), (8, 11));
    old.absorb(layer(5, &[0..4, 4..8]));
    assert_eq!((old.count(), old.weight()), (8, 8));
}
