#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;

/// What goes before a line: back to the left, and the old one away.
const AWAY: &str = "\r\x1b[K";

/// A line on a file that stands for a terminal, and that file.
fn line() -> (Live, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let terminal = Some(File::create(file.path()).unwrap());
    (Live { terminal, shown: false, due: clock::now() }, file)
}

fn written(file: &tempfile::NamedTempFile) -> String {
    std::fs::read_to_string(file.path()).unwrap()
}

#[test]
fn a_bar_is_as_wide_as_it_is_told_whatever_is_done() {
    assert_eq!(bar(0, 10, 4), "[....]   0 %");
    assert_eq!(bar(5, 10, 4), "[##..]  50 %");
    assert_eq!(bar(10, 10, 4), "[####] 100 %");
    assert_eq!(bar(u64::MAX, 10, 4), "[####] 100 %", "more than all");
    assert_eq!(bar(0, 0, 4), "[....]   0 %", "of nothing");
    assert_eq!(bar(1, 3, 0), "[]  33 %");
}

#[test]
fn a_line_takes_the_place_of_the_one_before() {
    let (mut live, file) = line();
    live.show("a long one");
    live.show("short");
    assert_eq!(written(&file), format!("{AWAY}a long one{AWAY}short"));
}

#[test]
fn a_line_is_cut_to_the_terminal_so_that_it_stays_one_line() {
    let (mut live, file) = line();
    // Not bytes but characters are cut.
    live.show(&"\u{e9}".repeat(70_000));
    let shown = written(&file).strip_prefix(AWAY).unwrap().chars().count();
    assert!((1..70_000).contains(&shown), "{shown} characters");
}

#[test]
fn a_line_is_taken_away_once_and_at_the_end_at_the_latest() {
    let (mut live, file) = line();
    live.clear();
    assert_eq!(written(&file), "", "there was none yet");
    live.show("one");
    live.clear();
    live.clear();
    assert_eq!(written(&file), format!("{AWAY}one{AWAY}"));
    live.show("two");
    drop(live);
    assert_eq!(written(&file), format!("{AWAY}one{AWAY}{AWAY}two{AWAY}"));
}

#[test]
fn a_line_is_due_once_a_period() {
    let (mut live, _file) = line();
    let before = clock::now();
    assert!(live.is_due());
    assert!(live.due >= before + PERIOD, "the next is a period away");
    live.due = clock::now() + PERIOD * 1000;
    assert!(!live.is_due());
}

#[test]
fn where_there_is_no_terminal_nothing_is_due_and_nothing_is_written() {
    for mut live in [Live::new(false), Live { terminal: None, shown: false, due: clock::now() }] {
        live.due = clock::now();
        assert!(!live.is_due());
        live.show("text");
        assert!(live.terminal.is_none() && !live.shown);
    }
}
