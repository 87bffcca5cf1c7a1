use super::{PART_ABSENT, PART_TABLE, Row, Table, pack, remake};
use forebay_env::Buffer;
use forebay_model::block::{Header, Packer, View};
use forebay_model::ring::PARITY_OVERHEAD;
use forebay_model::{Bytes, Timestamp};

const BLOCK: Bytes = Bytes::kib(16);

fn block(writer: u64, number: u64, elements: usize, length: usize) -> Vec<u8> {
    let mut packer = Packer::new(1);
    packer.give(vec![0; BLOCK.0 as usize]);
    for element in 0..elements {
        let time = Timestamp(1000 * number as i64 + element as i64);
        assert!(packer.push(time, &[&vec![number as u8; length]], &[]));
    }
    let sealed = packer.seal().unwrap();
    let mut bytes = sealed.buffer;
    bytes.truncate(sealed.length);
    Header::set_writer(&mut bytes, writer, number);
    bytes
}

fn stripe() -> (Vec<Vec<u8>>, Table, Vec<u8>) {
    let blocks = vec![block(7, 3, 10, 500), block(8, 1, 2, 30), block(9, 12, 30, 500)];
    let rows = (0..).zip(&blocks).map(|(component, block)| Row::of(component, block).unwrap()).collect();
    let mut xor = vec![0; BLOCK.0 as usize];
    for block in &blocks {
        forebay_model::layout::parity::add(&mut xor, block);
    }
    (blocks, Table { writer: 5, number: 44, rows }, xor)
}

#[test]
fn each_block_of_a_stripe_is_made_of_the_parity_and_the_others() {
    let (blocks, table, xor) = stripe();
    for (at, row) in table.rows.iter().enumerate() {
        let others = blocks.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, block)| &block[..]);
        assert_eq!(remake(row, &xor, others).unwrap(), blocks[at]);
        let wrong = blocks.iter().enumerate().filter(|(other, _)| *other != (at + 1) % 3).map(|(_, block)| &block[..]);
        assert!(remake(row, &xor, wrong).is_err(), "what is made of the wrong ones is not taken for it");
    }
}

#[test]
fn a_table_is_read_as_it_was_written_and_one_with_a_bit_flipped_is_not() {
    let (_, mut table, _) = stripe();
    table.rows[1].absent = true;
    let bytes = table.to_bytes();
    assert_eq!(Table::read(&bytes, 3).unwrap(), table);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Table::read(&flipped, 3).is_err(), "bit {bit}");
    }
    assert!((0..bytes.len()).all(|length| Table::read(&bytes[..length], 3).is_err()));
}

#[test]
fn a_table_of_no_block_or_of_one_where_the_ring_has_no_part_is_refused() {
    let (_, mut table, _) = stripe();
    assert!(Table::read(&table.to_bytes(), 2).is_err());
    table.rows.clear();
    assert!(Table::read(&table.to_bytes(), 3).is_err());
}

#[test]
fn a_full_block_has_room_for_its_parity_and_the_largest_table_and_its_times_are_those_of_the_stripe() {
    let (_, mut table, xor) = stripe();
    let row = table.rows[0];
    table.rows.resize(12, row);
    for absent in [false, true] {
        table.rows[11].absent = absent;
        let gap = row.gap();
        let buffer = Buffer::alone(BLOCK + PARITY_OVERHEAD).unwrap();
        let packed = pack(&table, &xor, Some(gap), buffer).unwrap();
        let view = View::of_sealed(&packed).unwrap();
        let header = view.header();
        assert_eq!((header.writer.get(), header.number.get()), (5, 44));
        assert_eq!((header.min_time.get(), header.max_time.get()), (1000, 12029));
        assert_eq!(view.gaps().map(|(_, gap)| gap).collect::<Vec<_>>(), [gap]);
        let entries: Vec<_> = view.entries().map(Result::unwrap).collect();
        assert_eq!(Table::read(&packed[entries[0].payload.clone()], 3).unwrap(), table);
        assert_eq!(&packed[entries[1].payload.clone()], &xor[..]);
        let part = if absent { PART_ABSENT } else { PART_TABLE };
        assert_eq!(packed[entries[0].caller_keys.clone()], [part]);
    }
}
