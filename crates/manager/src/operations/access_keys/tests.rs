use super::{MOST_CLIENTS, MOST_KEYS};
use crate::principal::Principal;
use crate::testing::{Stage, create, report, root};
use forebay_model::{Error, Kind, Timestamp};
use forebay_wire::capability::{LONGEST_LIFE, SKEW};
use forebay_wire::control::access::{IssueKey, RemoveUser, RevokeKey, User};
use forebay_wire::control::cluster::{MOST_SHUT_OUT, ShutOut};
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::Place;
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

/// A cluster in which nothing counts any more that another manager may have given out, with a user of two keys.
fn with_keys() -> (Stage, [u64; 2]) {
    let mut stage = Stage::new();
    stage.root(create("x", 0o644)).unwrap();
    stage.root(Change::SetUser(User { user: 5, name: "ann".into(), groups: vec![7] })).unwrap();
    let keys = [(); 2].map(|()| issue(&mut stage));
    stage.pass(LONGEST_LIFE);
    (stage, keys)
}

fn issue(stage: &mut Stage) -> u64 {
    match stage.root(Change::IssueKey(IssueKey { user: 5, label: String::new() })).unwrap() {
        Reply::IssuedKey(issued) => issued.key,
        other => panic!("{other:?} is no key"),
    }
}

/// A client that was let in with a key opens the file; until when what it is given counts.
fn opens(stage: &mut Stage, key: u64, client: u64) -> Result<Timestamp, Error> {
    let by = Principal { user: 5, groups: vec![7], client, key: Some(key) };
    match stage.ask(&by, &Question::OpenToRead(OpenToRead { place: Place::path("x"), cached: false }))? {
        Reply::Grant(grant) => Ok(grant.until),
        other => panic!("{other:?} is no grant"),
    }
}

fn revoke(stage: &mut Stage, key: u64) {
    stage.root(Change::RevokeKey(RevokeKey { key })).unwrap();
}

/// Who is shut out as a node is told, and the least epoch.
fn told(stage: &mut Stage) -> (Vec<ShutOut>, u64) {
    let told = stage.report(&report(1)).unwrap();
    (told.shut_out, told.least_epoch)
}

#[test]
fn nodes_are_told_whose_key_was_revoked_until_the_last_of_what_it_had_is_over_also_by_another_manager() {
    let (mut stage, [first, second]) = with_keys();
    opens(&mut stage, first, 77).unwrap();
    stage.pass(Duration::from_secs(60));
    let until = opens(&mut stage, first, 77).unwrap();
    opens(&mut stage, second, 78).unwrap();
    let (before, least) = told(&mut stage);
    assert_eq!(before, vec![]);
    revoke(&mut stage, first);
    assert_eq!(opens(&mut stage, first, 77).unwrap_err().kind, Kind::Forbidden);
    let out = vec![ShutOut { client: 77, until }];
    assert_eq!(told(&mut stage), (out.clone(), least), "its client alone");
    stage.restart();
    assert_eq!(told(&mut stage), (out.clone(), least));
    // By the clock of a target it may be a minute earlier.
    stage.pass(LONGEST_LIFE + SKEW);
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(told(&mut stage), (out, least));
    stage.pass(Duration::from_nanos(1));
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(told(&mut stage), (vec![], least));
}

#[test]
fn with_a_user_goes_what_was_given_for_all_of_its_keys() {
    let (mut stage, [first, second]) = with_keys();
    let until = [(first, 77), (second, 78)].map(|(key, client)| opens(&mut stage, key, client).unwrap());
    stage.root(Change::RemoveUser(RemoveUser { user: 5 })).unwrap();
    let out = [(77, until[0]), (78, until[1])].map(|(client, until)| ShutOut { client, until });
    assert_eq!(told(&mut stage).0, out);
}

#[test]
fn where_it_is_not_known_who_has_something_or_too_many_do_nothing_counts_any_more_of_anybody() {
    let (mut stage, [first, second]) = with_keys();
    stage.restart();
    opens(&mut stage, first, 77).unwrap();
    let (_, least) = told(&mut stage);
    revoke(&mut stage, first);
    let (out, of_all) = told(&mut stage);
    assert!(out.is_empty() && of_all > least, "another manager may have given something with it");
    stage.pass(LONGEST_LIFE);
    for client in 0..=MOST_CLIENTS as u64 {
        opens(&mut stage, second, 1000 + client).unwrap();
    }
    revoke(&mut stage, second);
    let (out, of_more) = told(&mut stage);
    assert!(out.is_empty() && of_more > of_all, "more than go out in one step");
    for nth in 0..MOST_SHUT_OUT / MOST_CLIENTS {
        let key = issue(&mut stage);
        for client in 0..MOST_CLIENTS {
            opens(&mut stage, key, (2000 + nth * MOST_CLIENTS + client) as u64).unwrap();
        }
        revoke(&mut stage, key);
    }
    let (out, least) = told(&mut stage);
    assert_eq!((out.len(), least), (MOST_SHUT_OUT, of_more));
    let last = issue(&mut stage);
    opens(&mut stage, last, 78).unwrap();
    revoke(&mut stage, last);
    let (out, least) = told(&mut stage);
    assert_eq!((out.len(), least), (MOST_SHUT_OUT, of_more + 1), "one more than are told of");
    assert!(stage.ask(&root(), &Question::Volumes).is_ok());
}

#[test]
fn a_user_with_as_many_keys_and_clients_as_there_may_be_is_removed_in_one_step() {
    let (mut stage, [_, second]) = with_keys();
    for _ in 2..MOST_KEYS {
        issue(&mut stage);
    }
    for client in 0..MOST_CLIENTS as u64 {
        opens(&mut stage, second, 1000 + client).unwrap();
    }
    stage.root(Change::RemoveUser(RemoveUser { user: 5 })).unwrap();
    assert_eq!(told(&mut stage).0.len(), MOST_CLIENTS);
}

#[test]
fn a_user_who_takes_its_own_key_back_ends_nothing_of_anybody_else_however_many_clients_had_it() {
    let (mut stage, [first, second]) = with_keys();
    let (_, least) = told(&mut stage);
    let revokes = |stage: &mut Stage, key: u64, clients: std::ops::Range<u64>| {
        for client in clients {
            opens(stage, key, client).unwrap();
        }
        let by = Principal { user: 5, groups: vec![7], client: 9, key: Some(second) };
        stage.change(&by, Change::RevokeKey(RevokeKey { key })).unwrap();
        assert_eq!(opens(stage, key, 77).unwrap_err().kind, Kind::Forbidden);
        told(stage)
    };
    let most = MOST_CLIENTS as u64;
    let (out, now) = revokes(&mut stage, first, 1000..1001 + most);
    assert_eq!((out.len() as u64, now), (most, least), "as many as may be are shut out, and no more");
    for nth in 1..MOST_SHUT_OUT as u64 / most {
        let key = issue(&mut stage);
        revokes(&mut stage, key, 2000 + nth * most..2000 + (nth + 1) * most);
    }
    let key = issue(&mut stage);
    let (out, now) = revokes(&mut stage, key, 78..79);
    assert_eq!((out.len(), now), (MOST_SHUT_OUT, least), "there is no room for more");
    // Also where it is not known who else may have something.
    stage.pass(LONGEST_LIFE + SKEW + Duration::from_secs(1));
    stage.manager.tick(stage.now).unwrap();
    stage.restart();
    let key = issue(&mut stage);
    let (out, now) = revokes(&mut stage, key, 79..80);
    assert_eq!((out.len(), now), (1, least), "the one that is known");
    // Root may.
    revoke(&mut stage, second);
    assert!(told(&mut stage).1 > least);
}
