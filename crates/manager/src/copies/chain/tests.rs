use super::Chain;
use crate::copies::record::Record;
use forebay_model::{Kind, TargetId, Timestamp};

const OLD: u64 = 1 << 20 | 1;
const NEW: u64 = 5 << 20 | 1;

fn begin(base: u64, after: u64) -> Record {
    Record::Begin { cluster: 7, term: base >> 20, base, after, begun: Timestamp(1) }
}

fn piece(pairs: &[(&str, &str)]) -> Record {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Record::Piece { pairs: pairs.iter().map(|(key, value)| (bytes(key), bytes(value))).collect() }
}

fn changes(batch: u64, key: &str, value: Option<&str>) -> Record {
    let writes = vec![(key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()))];
    Record::Changes { batch, more: false, at: Timestamp(2), writes }
}

fn whole() -> Record {
    Record::Whole { at: Timestamp(0) }
}

/// Reads an object of a target.
fn read(chain: &mut Chain, target: u128, object: u64, records: &[Record]) {
    chain.begin(TargetId(target), object);
    records.iter().for_each(|record| chain.take(&record.to_bytes().unwrap()).unwrap());
}

fn said(chain: &Chain) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = chain.state.iter().map(|(key, value)| format!("{}={}", text(key), text(value)));
    pairs.collect::<Vec<String>>().join(" ")
}

/// A copy of four keys, which is whole.
fn old() -> Chain {
    let mut chain = Chain::default();
    read(
        &mut chain,
        1,
        OLD,
        &[begin(OLD, 3), piece(&[("a", "1"), ("b", "1")]), piece(&[("c", "1"), ("d", "1")]), whole()],
    );
    assert!(chain.is_whole() && chain.counts());
    chain
}

#[test]
fn a_new_chain_says_what_it_has_over_the_one_before_until_it_is_whole() {
    let steps = [
        (begin(NEW, 3), "a=1 b=1 c=1 d=1"),
        (changes(4, "d", None), "a=1 b=1 c=1"),
        (changes(5, "e", Some("2")), "a=1 b=1 c=1 e=2"),
        // Behind the first piece nothing of the keys up to there is of the one before.
        (piece(&[("aa", "2"), ("b", "2")]), "aa=2 b=2 c=1 e=2"),
        (changes(6, "a", Some("3")), "a=3 aa=2 b=2 c=1 e=2"),
        (piece(&[("bb", "2")]), "a=3 aa=2 b=2 bb=2 c=1 e=2"),
        // Between what two pieces have, and so in none.
        (changes(7, "bc", Some("4")), "a=3 aa=2 b=2 bb=2 bc=4 c=1 e=2"),
        (piece(&[("e", "2")]), "a=3 aa=2 b=2 bb=2 bc=4 e=2"),
        (changes(8, "f", Some("5")), "a=3 aa=2 b=2 bb=2 bc=4 e=2 f=5"),
    ];
    let mut chain = old();
    chain.begin(TargetId(1), NEW);
    for (record, expected) in steps {
        // As where a connection ended before the answer.
        (0..2).for_each(|_| chain.take(&record.to_bytes().unwrap()).unwrap());
        assert_eq!(said(&chain), expected, "{record:?}");
        assert!(chain.counts() && !chain.is_whole());
    }
    chain.take(&whole().to_bytes().unwrap()).unwrap();
    assert!(chain.is_whole());
    assert_eq!(said(&chain), "a=3 aa=2 b=2 bb=2 bc=4 e=2 f=5");
}

#[test]
fn what_is_behind_the_last_piece_of_a_whole_one_is_of_none_before() {
    let mut chain = old();
    read(&mut chain, 1, NEW, &[begin(NEW, 3), piece(&[("b", "2")]), whole()]);
    assert_eq!(said(&chain), "b=2");
}

#[test]
fn of_an_object_on_several_targets_each_record_counts_once_and_the_longest_is_read_to_its_end() {
    let all = [begin(OLD, 3), changes(4, "a", Some("4")), changes(5, "a", Some("5"))];
    for order in [[1, 3, 2], [3, 2, 1], [2, 1, 3]] {
        let mut chain = old();
        for (target, records) in (1..).zip(order) {
            read(&mut chain, target, OLD + 1, &all[..records]);
        }
        assert_eq!(said(&chain), "a=5 b=1 c=1 d=1", "{order:?}");
        assert!(chain.is_whole());
        let far: Vec<bool> = chain.targets().map(|(_, is_furthest, _)| is_furthest).collect();
        assert_eq!(far, order.map(|records| records == 3));
    }
}

#[test]
fn an_object_whose_beginning_another_target_lacks_goes_on_with_what_is_known() {
    let mut chain = old();
    read(&mut chain, 2, OLD + 1, &[begin(OLD, 3), changes(4, "a", Some("4"))]);
    read(&mut chain, 3, OLD + 2, &[begin(OLD, 4), changes(5, "b", None)]);
    assert!(chain.is_whole());
    assert_eq!(said(&chain), "a=4 c=1 d=1");
    // One in between is missing.
    read(&mut chain, 3, OLD + 4, &[begin(OLD, 9), changes(10, "c", None)]);
    assert!(!chain.is_whole() && chain.counts());
    assert_eq!(said(&chain), "a=4 d=1");
}

#[test]
fn what_was_never_whole_does_not_count() {
    let mut chain = Chain::default();
    read(&mut chain, 1, OLD, &[begin(OLD, 3), piece(&[("a", "1")]), changes(4, "b", Some("1"))]);
    read(&mut chain, 1, NEW, &[begin(NEW, 3), piece(&[("a", "2")])]);
    assert!(!chain.counts() && chain.cluster() == Some(7));
}

#[test]
fn copies_of_two_clusters_are_not_put_together() {
    let other = Record::Begin { cluster: 8, term: 5, base: NEW, after: 0, begun: Timestamp(0) };
    for (target, kind) in [(1, Kind::Damaged), (2, Kind::Usage)] {
        let mut chain = old();
        chain.begin(TargetId(target), OLD);
        let error = chain.take(&other.to_bytes().unwrap()).unwrap_err();
        assert!(error.kind == kind && error.message.contains("two clusters"), "{error}");
    }
}
