use super::*;
use forebay_model::Timestamp;

const NOW: Timestamp = Timestamp(1_000);

fn holders() -> Holders {
    let mut holders = Holders::from(8);
    holders.begin(NOW);
    holders
}

#[test]
fn a_client_may_use_what_it_had_until_it_says_that_it_has_something_newer() {
    let (mut holders, file) = (holders(), FileId(7));
    holders.note(file, 1, 3, Timestamp(2_000), NOW);
    holders.note(file, 2, 3, Timestamp(3_000), NOW);
    assert_eq!(holders.until(file, 3), Some(NOW));
    assert_eq!(holders.until(file, 4), Some(Timestamp(3_000)));
    // What is newer makes it no longer, however often that is asked for.
    holders.note(file, 2, 4, Timestamp(4_000), NOW);
    holders.note(file, 2, 4, Timestamp(5_000), NOW);
    assert_eq!(holders.until(file, 4), Some(Timestamp(3_000)));
    assert_eq!(holders.until(file, 5), Some(Timestamp(5_000)));
    assert_eq!(holders.count, 3);
    holders.knows(file, 2, 4);
    assert_eq!(holders.until(file, 4), Some(Timestamp(2_000)));
    assert_eq!(holders.until(FileId(7), 3), Some(NOW));
    // Of a file that is newer than the manager all is known.
    assert_eq!(holders.until(FileId(8), 4), None);
}

#[test]
fn what_is_forgotten_counts_as_if_anybody_had_it() {
    let mut holders = holders();
    for nth in 0..MOST as u64 {
        holders.note(FileId(nth), 1, 1, Timestamp(2_000 + nth as i64), NOW);
    }
    assert_eq!(holders.count, MOST);
    holders.note(FileId(0), 2, 1, Timestamp(9_000_000), NOW);
    assert!(holders.count <= MOST / 2 + 1, "{}", holders.count);
    let half = Timestamp(2_000 + MOST as i64 / 2);
    assert_eq!(holders.until(FileId(1), 2), Some(half));
    assert!(holders.until(FileId(MOST as u64 - 1), 2) > Some(half));
}

#[test]
fn what_counts_no_more_takes_no_room() {
    let mut holders = holders();
    for nth in 0..100 {
        let now = Timestamp(1_000 + nth);
        holders.note(FileId(1), nth as u64, 1, Timestamp(now.0 + 10), now);
        assert!(holders.count <= 10, "{}", holders.count);
    }
}
