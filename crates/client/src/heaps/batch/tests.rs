use super::Batch;
use forebay_wire::heap::{HeapAsk, MOST_RECORDS};
use forebay_wire::object::MOST_AT_ONCE;

const MOST: usize = MOST_AT_ONCE.0 as usize;

/// What goes for these records.
fn requests(records: &[Vec<u8>]) -> Vec<(HeapAsk, Vec<u8>)> {
    let (mut batch, mut sent) = (Batch::default(), Vec::new());
    for record in records {
        let mut rest = &record[..];
        while let Some(full) = batch.add(&mut rest) {
            sent.push(full);
        }
        assert!(rest.is_empty());
    }
    sent.extend(batch.take());
    assert!(batch.is_empty() && batch.take().is_none());
    sent
}

/// The records that come of requests, as a server puts them together.
fn records(requests: &[(HeapAsk, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut records, mut begun) = (Vec::new(), Vec::new());
    for (ask, payload) in requests {
        let HeapAsk::Put { lengths, from, more } = ask else { panic!("{ask:?}") };
        assert!(payload.len() <= MOST && lengths.len() <= MOST_RECORDS && !lengths.is_empty());
        assert_eq!(*from, begun.len() as u64);
        let mut at = 0;
        for length in lengths {
            begun.extend_from_slice(&payload[at..at + *length as usize]);
            at += *length as usize;
            records.push(std::mem::take(&mut begun));
        }
        assert_eq!(at, payload.len());
        if *more {
            begun = records.pop().expect("one goes on");
        }
    }
    assert!(begun.is_empty(), "the last one has its end");
    records
}

fn of_sizes(sizes: &[usize]) -> Vec<Vec<u8>> {
    sizes.iter().enumerate().map(|(n, size)| vec![n as u8; *size]).collect()
}

#[test]
fn records_of_all_sizes_arrive_as_they_were_sent() {
    let sizes =
        [1, 100, MOST - 101, 1, MOST, 7, MOST + 1, 5, 3 * MOST, 3 * MOST + 9, MOST - 9, 2 * MOST, MOST - 1, 1, 1];
    let all = of_sizes(&sizes);
    assert!(records(&requests(&all)) == all);
    for size in sizes {
        let one = of_sizes(&[size]);
        assert!(records(&requests(&one)) == one, "{size}");
    }
}

#[test]
fn small_records_go_many_at_a_time_and_only_large_ones_are_cut() {
    let sent = requests(&of_sizes(&[64; 3 * MOST_RECORDS + 1]));
    assert_eq!(sent.len(), 4);
    let sent = requests(&of_sizes(&[MOST / 2 + 1; 3]));
    assert_eq!(sent.len(), 3, "none of these is cut");
    assert!(sent.iter().all(|(ask, _)| matches!(ask, HeapAsk::Put { from: 0, more: false, .. })));
    assert_eq!(requests(&of_sizes(&[MOST - 1, 1])).len(), 1);
    assert_eq!(requests(&[]), []);
}
