use crate::principal::Principal;
use crate::testing::{Stage, create, root};
use forebay_model::{Kind, Result};
use forebay_wire::control::access::{Hello, IssueKey, IssuedKey, Keys, Proven, RemoveUser, RevokeKey, User, proof};
use forebay_wire::control::{Change, Question, Reply};

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
    assert_eq!(ann, Principal { user: 5, groups: vec![7, 8], client: 77 });
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
    stage.change(&Principal { user: 6, groups: vec![], client: 77 }, create("x", 0o644)).unwrap_err();
    said.push(refused(&stage, &hello, &challenge, good));
    said.dedup();
    assert_eq!(said.len(), 1);
}

#[test]
fn keys_are_issued_and_revoked_by_root_and_by_their_user_alone() {
    let (mut stage, issued) = with_user();
    let ann = connect(&stage, &issued, 77).unwrap();
    let other = Principal { user: 6, groups: vec![], client: 78 };
    assert_eq!(issue(&mut stage, &other).unwrap_err().kind, Kind::Forbidden);
    let second = issue(&mut stage, &ann).unwrap();
    let revoke = |key| Change::RevokeKey(RevokeKey { key });
    assert_eq!(stage.change(&other, revoke(issued.key)).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.ask(&other, &Question::Keys(Keys { user: 5 })).unwrap_err().kind, Kind::Forbidden);
    stage.change(&ann, revoke(issued.key)).unwrap();
    assert_eq!(connect(&stage, &issued, 77).unwrap_err().kind, Kind::Forbidden);
    assert!(connect(&stage, &second, 77).is_ok());
    for _ in 0..63 {
        issue(&mut stage, &ann).unwrap();
    }
    assert_eq!(issue(&mut stage, &ann).unwrap_err().kind, Kind::Refused);
    stage.root(Change::RemoveUser(RemoveUser { user: 5 })).unwrap();
    assert_eq!(connect(&stage, &second, 77).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.root(Change::RemoveUser(RemoveUser { user: 0 })).unwrap_err().kind, Kind::Usage);
}

#[test]
fn names_of_users_are_of_one_user_each() {
    let (mut stage, _) = with_user();
    let set = |user, name: &str| Change::SetUser(User { user, name: name.into(), groups: vec![] });
    assert_eq!(stage.root(set(6, "ann")).unwrap_err().kind, Kind::Exists);
    assert_eq!(stage.root(set(6, "a/b")).unwrap_err().kind, Kind::Usage);
    stage.root(set(5, "bob")).unwrap();
    stage.root(set(6, "ann")).unwrap();
    let Reply::Users(users) = stage.ask(&root(), &Question::Users).unwrap() else { panic!("no users") };
    let users: Vec<(u32, &str)> = users.iter().map(|user| (user.user, user.name.as_str())).collect();
    assert_eq!(users, [(0, "root"), (5, "bob"), (6, "ann")]);
}
