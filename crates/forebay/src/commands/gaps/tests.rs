use super::*;

#[test]
fn of_a_range_without_gaps_nothing_is_said_of_the_rest() {
    let now = Timestamp(1_700_000_000_000_000_000);
    let [from, to] = ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"].map(|text| time(text, now).unwrap());
    let (min, max) = (Timestamp::MIN, Timestamp::MAX);
    for (range, words) in [
        ((min, max), "No gaps: everything".to_string()),
        ((from, max), format!("No gaps between {from} and now: ")),
        ((min, to), format!("No gaps between the beginning and {to}: ")),
        ((from, to), format!("No gaps between {from} and {to}: ")),
    ] {
        assert!(none(range.0, range.1).starts_with(&words), "{}", none(range.0, range.1));
    }
}
