use super::*;
use crate::heap::{MOST_UNCOMMITTED, tests};
use forebay_model::Kind;
use forebay_model::heap::HeapMode;
use std::time::Duration;

/// One of each.
pub(crate) fn one_of_each() -> Vec<NetworkRequest> {
    let settings = HeapSettings { threshold: 3, mode: HeapMode::Worm, keep: Duration::from_secs(7) };
    let of_records = tests::one_of_each().into_iter();
    let of_records = of_records.chain(tests::of_moves());
    let of_records = of_records.map(|request| NetworkAsk::Records { transaction: u64::MAX - 1, ask: request.ask });
    let asks = [NetworkAsk::Create(settings), NetworkAsk::Info].into_iter().chain(of_records);
    let of = |ask| NetworkRequest { target: TargetId(3), heap: ObjectId { volume: 1, object: 2 }, ask };
    asks.map(of).collect()
}

#[test]
fn every_request_is_read_as_it_was_written_and_none_that_is_cut_or_longer() {
    for request in one_of_each() {
        let (command, body) = (request.command(), request.body().expect("it fits"));
        assert_eq!(NetworkRequest::read(command, &body).expect("it reads"), Some(request.clone()));
        let longer = [&body[..], &[0]].concat();
        for other in (0..body.len()).map(|length| &body[..length]).chain([&longer[..]]) {
            let error = NetworkRequest::read(command, other).expect_err("it is no request");
            assert_eq!(error.kind, Kind::Damaged, "{request:?} in {} bytes", other.len());
        }
    }
    assert_eq!(NetworkRequest::read(Command::READ_OBJECT, &[]).expect("nothing is read"), None);
}

#[test]
fn what_looks_takes_the_right_to_read_and_what_changes_the_one_to_write() {
    let rights = |wanted| {
        let named = move |request: &NetworkRequest| request.rights() == wanted;
        let mut commands: Vec<u16> = one_of_each().iter().filter(|it| named(it)).map(|it| it.command().0).collect();
        commands.dedup();
        commands
    };
    assert_eq!(rights(Rights::READ), [68, 72, 73]);
    assert_eq!(rights(Rights::WRITE), [67, 69, 70]);
    assert_eq!(rights(Rights::CREATE), [64]);
    assert_eq!(rights(Rights::GET_ATTRIBUTES), [66, 71]);
    // Nobody who uses a heap may ask for these.
    assert_eq!(rights(Rights::READ | Rights::REMOVE), [75, 76]);
    assert_eq!(rights(Rights::CREATE | Rights::REMOVE), [77, 78, 79]);
}

#[test]
fn what_a_heap_is_called_at_its_target_is_a_name_and_leads_back_to_it() {
    for heap in [ObjectId { volume: u64::MAX, object: u64::MAX }, ObjectId { volume: 1, object: 0x2a }] {
        let name = name_of(heap);
        forebay_model::ring::check_name(&name).expect("a name");
        assert_eq!(heap_of(&name), Some(heap));
    }
    for other in ["/heap/1/02a", "/heap/1/", "/pages", "/heap/1/2a/3", "/ring/1/2a"] {
        assert_eq!(heap_of(other), None, "{other}");
    }
}

#[test]
fn every_command_its_right_and_every_bound_is_described() {
    let page = include_str!("../../../../../docs/protocol/commands.md");
    let (_, page) = page.split_once("## Heaps over the network").expect("a section of its own");
    for request in one_of_each() {
        let row = format!("| {} |", request.command().0);
        let right = if request.rights() == Rights::GET_ATTRIBUTES { "get attributes" } else { right(&request) };
        let row = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("{row} is missing"));
        assert!(row.contains(&format!("| {right} |")), "{row}: {right}");
    }
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for bound in [format!("at most {MOST_TRANSACTIONS} transactions"), format!("{MOST_UNCOMMITTED} records")] {
        assert!(page.contains(&bound), "'{bound}' is missing");
    }
}

fn right(request: &NetworkRequest) -> &'static str {
    match request.rights() {
        Rights::READ => "read",
        Rights::WRITE => "write",
        Rights::CREATE => "create",
        rights if rights.have(Rights::READ) => "read, remove",
        _ => "create, remove",
    }
}
