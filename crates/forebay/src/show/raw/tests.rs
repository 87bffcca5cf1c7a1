#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use forebay_env::real::file::File;
use forebay_model::{Cause, Gap, Timestamp};

fn written(batches: &[Batch]) -> (Vec<u8>, Result<()>, usize) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut raw, mut out) = (Raw::default(), Out::over(File::create(file.path()).unwrap()));
    let done = batches.iter().try_for_each(|batch| raw.write(batch, &mut out));
    out.flush().unwrap();
    (std::fs::read(file.path()).unwrap(), done, raw.held.capacity())
}

fn piece(sequence: u64, length: usize, first: bool, last: bool) -> Batch {
    let time = Timestamp(0);
    let item = Item::Element { sequence, time, length: length as u32, caller: 1, cut: 0, first, last };
    Batch { items: vec![item], payload: [vec![sequence as u8; length], b"k".to_vec()].concat() }
}

fn gap() -> Batch {
    let gap = Gap { cause: Cause::Restart, count: None, first: Timestamp(0), last: Timestamp(0) };
    Batch { items: vec![Item::Gap(gap)], payload: Vec::new() }
}

const MIB: usize = 1 << 20;

#[test]
fn an_element_of_any_size_is_written_with_little_of_it_in_memory() {
    let pieces = (0..100).map(|n| piece(2, MIB, n == 0, n == 99));
    let batches: Vec<Batch> =
        [piece(1, 3, true, true)].into_iter().chain(pieces).chain([piece(3, 5, true, true)]).collect();
    let (bytes, done, held) = written(&batches);
    done.unwrap();
    assert!(held <= 2 * HELD, "{held}");
    assert!(bytes == [vec![1; 3], vec![2; 100 * MIB], vec![3; 5]].concat());
}

#[test]
fn an_element_that_was_cut_off_is_left_out_or_told() {
    let small = [piece(1, 100, true, false), piece(1, 100, false, false), gap(), piece(1, 3, true, true)];
    let (bytes, done, _) = written(&small);
    done.unwrap();
    assert_eq!(bytes, [1; 3]);
    // One that begins anew without a gap was cut off, too.
    assert_eq!(written(&[piece(1, 100, true, false), piece(1, 3, true, true)]).0, [1; 3]);
    let large = [piece(7, HELD, true, false), piece(7, MIB, false, false), gap()];
    let (bytes, done, _) = written(&large);
    let error = done.unwrap_err();
    assert!(error.message.contains("element 7") && error.message.contains("9 MiB"), "{error}");
    assert_eq!(bytes.len(), HELD + MIB);
}
