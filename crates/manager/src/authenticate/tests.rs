use crate::manager::Asked;
use crate::principal::Principal;
use crate::testing::{Stage, create, report, root, unchanged, user};
use forebay_model::{Kind, Result};
use forebay_wire::control::access::{Hello, IssueKey, IssuedKey, Keys, Proven, RemoveUser, RevokeKey, User, proof};
use forebay_wire::control::cluster::AddNode;
use forebay_wire::control::names::{List, Place, SetAttributes};
use forebay_wire::control::{Call, Change, Question, Reply};

fn with_user() -> (Stage, IssuedKey) {
    let mut stage = Stage::new();
    stage.root(Change::SetUser(User { user: 5, name: "ann".into(), groups: vec![7, 8] })).unwrap();
    let issued = issue(&mut stage, &root()).unwrap();
    (stage, issued)
}

fn issue(stage: &mut Stage, by: &Principal) -> Result<IssuedKey> {
    match stage.change(by, Change::IssueKey(IssueKey { user: 5, label: "laptop".into() }))? {
        Reply::IssuedKey(issued) => Ok(issued),
        other => panic!("{other:?} is no key"),
    }
}

fn secret(issued: &IssuedKey) -> [u8; 32] {
    issued.secret.0.clone().try_into().unwrap()
}

fn connect(stage: &Stage, issued: &IssuedKey, client: u64) -> Result<Principal> {
    let hello = Hello { key: issued.key, client, nonce: [3; 16] };
    let challenge = stage.manager.challenge();
    let proven = Proven { proof: proof(&secret(issued), &hello, &challenge) };
    stage.manager.authenticate(&hello, &challenge, &proven)
}

#[test]
fn whoever_has_the_secret_of_a_key_is_its_user() {
    let (mut stage, issued) = with_user();
    let ann = connect(&stage, &issued, 77).unwrap();
    assert_eq!(ann, Principal { user: 5, groups: vec![7, 8], client: 77, key: Some(issued.key) });
    stage.restart();
    assert_eq!(connect(&stage, &issued, 77).unwrap(), ann);
    let Reply::Keys(keys) = stage.ask(&ann, &Question::Keys(Keys { user: 5 })).unwrap() else { panic!("no keys") };
    assert_eq!((keys.len(), keys[0].key, keys[0].label.as_str()), (1, issued.key, "laptop"));
}

#[test]
fn all_who_may_not_come_in_are_told_the_same() {
    let (mut stage, issued) = with_user();
    let hello = Hello { key: issued.key, client: 77, nonce: [3; 16] };
    let challenge = stage.manager.challenge();
    let good = proof(&secret(&issued), &hello, &challenge);
    let refused = |stage: &Stage, hello: &Hello, challenge: &_, proof| {
        let error = stage.manager.authenticate(hello, challenge, &Proven { proof }).unwrap_err();
        assert_eq!(error.kind, Kind::Forbidden);
        error.message
    };
    let mut said = Vec::new();
    for bit in 0..256 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        said.push(refused(&stage, &hello, &challenge, bad));
    }
    // The same proof for another client, another key, another connection.
    said.push(refused(&stage, &Hello { client: 78, ..hello.clone() }, &challenge, good));
    said.push(refused(&stage, &Hello { key: issued.key + 1, ..hello.clone() }, &challenge, good));
    let other = stage.manager.challenge();
    assert_ne!(other, challenge);
    said.push(refused(&stage, &hello, &other, good));
    // A client that is another user's, which has a key of its own.
    stage.change(&Principal { user: 6, groups: vec![], client: 77, key: None }, create("x", 0o644)).unwrap_err();
    said.push(refused(&stage, &hello, &challenge, good));
    said.dedup();
    assert_eq!(said.len(), 1);
}

#[test]
fn keys_are_issued_and_revoked_by_root_and_by_their_user_alone() {
    let (mut stage, issued) = with_user();
    let ann = connect(&stage, &issued, 77).unwrap();
    let other = Principal { user: 6, groups: vec![], client: 78, key: None };
    assert_eq!(issue(&mut stage, &other).unwrap_err().kind, Kind::Forbidden);
    let second = issue(&mut stage, &ann).unwrap();
    let revoke = |key| Change::RevokeKey(RevokeKey { key });
    assert_eq!(stage.change(&other, revoke(issued.key)).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.ask(&other, &Question::Keys(Keys { user: 5 })).unwrap_err().kind, Kind::Forbidden);
    stage.change(&ann, revoke(issued.key)).unwrap();
    assert_eq!(connect(&stage, &issued, 77).unwrap_err().kind, Kind::Forbidden);
    let ann = connect(&stage, &second, 77).unwrap();
    for _ in 0..63 {
        issue(&mut stage, &ann).unwrap();
    }
    assert_eq!(issue(&mut stage, &ann).unwrap_err().kind, Kind::Refused);
    stage.root(Change::RemoveUser(RemoveUser { user: 5 })).unwrap();
    assert_eq!(connect(&stage, &second, 77).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.root(Change::RemoveUser(RemoveUser { user: 0 })).unwrap_err().kind, Kind::Usage);
}

#[test]
fn what_was_proven_counts_as_long_as_the_key_and_its_user_are_there_with_the_groups_of_now() {
    let (mut stage, issued) = with_user();
    let (ann, kept) = (connect(&stage, &issued, 77).unwrap(), issue(&mut stage, &root()).unwrap());
    let kept = connect(&stage, &kept, 78).unwrap();
    stage.directory(&root(), "d", 0o070).unwrap();
    let regroup = SetAttributes { group: Some(9), ..unchanged(Place::path("d")) };
    stage.root(Change::SetAttributes(regroup)).unwrap();
    let list = List { place: Place::path("d"), after: String::new(), most: 1, attributes: false };
    let list = Question::List(list);
    assert_eq!(stage.ask(&ann, &list).unwrap_err().kind, Kind::Forbidden);
    let groups = |groups: &[u32]| Change::SetUser(User { user: 5, name: "ann".into(), groups: groups.to_vec() });
    stage.root(groups(&[8, 9])).unwrap();
    assert!(stage.ask(&ann, &list).is_ok(), "a group that it was given");
    let made = stage.file(&ann, "d/f", 0o644).unwrap();
    assert_eq!(stage.stat(&root(), Place::of(made)).unwrap().attributes.group, 8);
    stage.root(groups(&[7])).unwrap();
    assert_eq!(stage.ask(&ann, &list).unwrap_err().kind, Kind::Forbidden, "a group that was taken from it");
    assert_eq!(stage.file(&ann, "d/g", 0o644).unwrap_err().kind, Kind::Forbidden);
    stage.root(Change::AddNode(AddNode { node: 1, user: 5 })).unwrap();
    let reports = |stage: &mut Stage, by: &Principal| stage.manager.report(stage.now, by, &report(1)).map(drop);
    reports(&mut stage, &ann).unwrap();
    // Of a batch, what comes behind its end is refused already.
    let change = |sequence, by: &Principal, change| Asked { by: by.clone(), call: Call { sequence, change } };
    let revoke = Change::RevokeKey(RevokeKey { key: issued.key });
    let batch = [change(900, &kept, revoke), change(900, &ann, create("x", 0o644))];
    let answers = stage.manager.apply(stage.now, &batch);
    assert_eq!(answers[0], Ok(Reply::Done));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.kind == Kind::Forbidden && error.message.contains("was revoked"), "{error}");
    assert_eq!(stage.ask(&ann, &Question::Volumes).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(reports(&mut stage, &ann).unwrap_err().kind, Kind::Forbidden);
    assert!(stage.ask(&kept, &Question::Volumes).is_ok(), "a key of the same user");
    stage.root(Change::RemoveUser(RemoveUser { user: 5 })).unwrap();
    assert_eq!(stage.ask(&kept, &Question::Volumes).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.change(&kept, create("y", 0o644)).unwrap_err().kind, Kind::Forbidden);
}

#[test]
fn a_client_number_that_is_another_users_is_of_no_use_with_questions_either() {
    let mut stage = Stage::new();
    stage.root(create("a", 0o644)).unwrap();
    let other = Principal { client: root().client, ..user(6) };
    assert_eq!(stage.ask(&other, &Question::Volumes).unwrap_err().kind, Kind::Forbidden);
}

#[test]
fn what_the_engine_says_is_told_as_it_is() {
    let (mut stage, issued) = with_user();
    stage.put_raw([(crate::keys::client(77), Some(vec![1]))]);
    assert_eq!(connect(&stage, &issued, 77).unwrap_err().kind, Kind::Damaged);
}

#[test]
fn a_user_has_a_group_to_which_what_it_makes_belongs() {
    let mut stage = Stage::new();
    let nobody = Change::SetUser(User { user: 5, name: "ann".into(), groups: vec![] });
    assert_eq!(stage.root(nobody).unwrap_err().kind, Kind::Usage);
    stage.directory(&root(), "d", 0o777).unwrap();
    let in_none = Principal { groups: vec![], ..user(5) };
    let error = stage.file(&in_none, "d/f", 0o644).unwrap_err();
    assert!(error.kind == Kind::Forbidden && error.message.contains("in no group"), "{error}");
    assert_eq!(stage.directory(&in_none, "d/e", 0o755).unwrap_err().kind, Kind::Forbidden);
}

#[test]
fn names_of_users_are_of_one_user_each() {
    let (mut stage, _) = with_user();
    let set = |user, name: &str| Change::SetUser(User { user, name: name.into(), groups: vec![9] });
    assert_eq!(stage.root(set(6, "ann")).unwrap_err().kind, Kind::Exists);
    assert_eq!(stage.root(set(6, "a/b")).unwrap_err().kind, Kind::Usage);
    stage.root(set(5, "bob")).unwrap();
    stage.root(set(6, "ann")).unwrap();
    let Reply::Users(users) = stage.ask(&root(), &Question::Users).unwrap() else { panic!("no users") };
    let users: Vec<(u32, &str)> = users.iter().map(|user| (user.user, user.name.as_str())).collect();
    assert_eq!(users, [(0, "root"), (5, "bob"), (6, "ann")]);
}

#[test]
fn nobody_comes_in_under_the_number_of_the_manager_itself() {
    let (stage, issued) = with_user();
    assert_eq!(connect(&stage, &issued, 0).unwrap_err().kind, Kind::Usage);
    connect(&stage, &issued, 77).unwrap();
}
