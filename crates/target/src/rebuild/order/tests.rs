use super::*;

/// Slots of the ring.
const SLOTS: u64 = 8;

/// Blocks of a segment that was being written: whether its first one is there, and whether any says that blocks were durable.
fn blocks(sequence: u64, begins: bool, proof: bool) -> Blocks {
    let mut blocks = Blocks::none(0, Segment::opened(sequence, sequence * 100));
    blocks.least_offset = if begins { 0 } else { 200_000 };
    (blocks.first_epoch, blocks.epoch, blocks.proof, blocks.from_start) = (begins.then_some(8), 8, proof, begins);
    blocks
}

fn trail(sequence: u64) -> Trail {
    let summary = Segment::opened(sequence, sequence * 100);
    Trail { end: 0, epoch: 7, summary, blocks: 9, durable_blocks: 0, tables_end: 0 }
}

/// The segments that are known to be durable, and those of the path.
fn chained(sealed: &[Trail], written: &[Blocks]) -> (Vec<u64>, Vec<u64>) {
    let entry = |sequence: u64| Entry { slot: (sequence % SLOTS) as u32, sequence, ..Entry::default() };
    let sealed = sealed.iter().map(|trail| Entry { trail: Some(trail), ..entry(trail.summary.sequence) });
    let written = written.iter().map(|blocks| Entry { blocks: Some(blocks), ..entry(blocks.summary.sequence) });
    let (known, path) = chain(sealed.chain(written).collect(), Bytes::kib(64), SLOTS as u32);
    let sequences = |entries: Vec<Entry<'_>>| entries.iter().map(|entry| entry.sequence).collect();
    (sequences(known), sequences(path))
}

#[test]
fn what_a_crash_left_of_many_segments_behind_a_proof_takes_the_place_of_none_before_it() {
    let sealed: Vec<Trail> = (5..13).map(trail).collect();
    // Of five segments that were under way, pieces are there; of two of them the first block is.
    let mut written = vec![blocks(13, true, true), blocks(14, true, false)];
    written.extend([15, 16, 18].map(|sequence| blocks(sequence, false, false)));
    written.insert(4, blocks(17, true, false));
    assert_eq!(chained(&sealed, &written), ((7..13).collect(), vec![13, 14]));
}

#[test]
fn from_a_proof_that_is_more_than_half_a_ring_behind_nothing_is_walked() {
    let sealed: Vec<Trail> = (5..13).map(trail).collect();
    let written: Vec<Blocks> = (13..19).map(|sequence| blocks(sequence, true, sequence == 13)).collect();
    assert_eq!(chained(&sealed, &written), ((11..18).collect(), vec![18]));
}
