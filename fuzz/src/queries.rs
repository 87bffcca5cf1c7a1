//! Queries as people write them: refused with the place that is wrong, or a filter that is asked of elements.

use forebay_model::key::{KeySet, KeyValue};
use forebay_model::query::Query;
use forebay_model::{Kind, Timestamp};

const NOW: Timestamp = Timestamp(1_795_262_400_000_000_000);

/// A query.
pub(super) fn take(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let keys = KeySet::parse(["pcap", "id=u32le@8", "tag=bytes3@0"]).expect("these keys are sound");
    match Query::parse(text, &keys, NOW) {
        Ok(query) => {
            let (from, to) = query.time_range();
            let none = vec![KeyValue::default(); 8];
            let is_taken = query.matches(5, NOW, &none);
            assert!(!is_taken || from <= NOW && NOW <= to, "it takes what is out of its own range");
            let (first, last) = query.seq_range();
            assert!(!is_taken || (first..=last).contains(&5), "it takes what is out of its own range");
            drop(query.terms());
        }
        Err(error) => assert_eq!(error.kind, Kind::Usage, "{error}"),
    }
}
