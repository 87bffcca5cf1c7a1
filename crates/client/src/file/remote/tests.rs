use super::fake::{Answers, open};
use super::*;
use forebay_wire::control::Reply;
use forebay_wire::control::files::{Granted, Grants};

#[test]
fn of_a_file_that_was_removed_nothing_reads_as_what_was_never_written() {
    let found = forebay_env::real::run_network(|env| async move {
        let missing = || Error::missing("file 5 does not exist");
        let manager = Answers(move |question| match question {
            forebay_wire::control::Question::Renew(_) => {
                Ok(Reply::Grants(Grants { grants: vec![Granted { grant: None, error: Some(missing()) }] }))
            }
            _ => Err(missing()),
        });
        let shared = open(env, Rc::new(manager), 2);
        // What allows to use it is to be renewed.
        shared.ours.newest.set(3);
        (
            shared.read(0, Bytes::ZERO, Bytes(10)).await.map(drop),
            shared.size(0).await.map(drop),
            shared.heard().await.map(drop),
            shared.flush(0).await,
            shared.write(0, Bytes::ZERO, vec![Slice::from_static(b"x")], Durability::Durable).await,
            shared.nobody_is_answered().await,
            shared.fence(4).await,
        )
    });
    let (read, size, heard, flush, write, answered, fence) = found.expect("a loop");
    for refused in [read, size, heard, flush, write, answered] {
        let error = refused.expect_err("there is no such file");
        // No component is lost by that, and none is given up.
        assert!(error.kind == Kind::Refused && error.message.contains("was removed or replaced"), "{error}");
    }
    fence.expect_err("nobody is shut out");
}

#[test]
fn what_was_not_closed_gets_nothing_newer_to_write_with_though_its_client_may_have_the_file_open_again() {
    let found = forebay_env::real::run_network(|env| async move {
        let manager = Answers(|question| match question {
            forebay_wire::control::Question::Renew(_) => Ok(Reply::Grants(Grants {
                grants: vec![Granted { grant: Some(super::fake::granted(3)), error: None }],
            })),
            _ => Ok(Reply::Done),
        });
        let shared = open(env, Rc::new(manager), 2);
        shared.opening.leave();
        // Somebody has mended the file, and this client has it open again.
        shared.ours.newest.set(3);
        let write = || shared.write(0, Bytes::ZERO, vec![Slice::from_static(b"x")], Durability::Durable);
        let found = (write().await, shared.renew().await);
        (found, shared.version())
    });
    let ((write, renewed), version) = found.expect("a loop");
    for refused in [write, renewed] {
        let error = refused.expect_err("it is mended without that");
        assert!(error.kind == Kind::Refused && error.message.contains("write it again"), "{error}");
    }
    assert_eq!(version, 2);
}

#[test]
fn what_changes_a_component_that_was_left_meanwhile_is_not_asked_again() {
    let found = forebay_env::real::run_network(|env| async move {
        let opened: Rc<RefCell<Option<Rc<Shared>>>> = Rc::default();
        let leaves = opened.clone();
        let manager = Answers(move |question| match question {
            forebay_wire::control::Question::Renew(_) => {
                // It is left while what allows to write it is renewed: it may be made anew by the time that this is answered.
                if let Some(shared) = leaves.take() {
                    RemoteComponents { shared }.leave(0);
                }
                Ok(Reply::Grants(Grants {
                    grants: vec![Granted { grant: Some(super::fake::granted(3)), error: None }],
                }))
            }
            _ => Ok(Reply::Done),
        });
        let shared = open(env, Rc::new(manager), 2);
        *opened.borrow_mut() = Some(shared.clone());
        shared.ours.newest.set(3);
        let write = shared.write(0, Bytes::ZERO, vec![Slice::from_static(b"x")], Durability::Durable).await;
        let other = shared.write(1, Bytes::ZERO, vec![Slice::from_static(b"x")], Durability::Durable).await;
        (write, other, shared.version())
    });
    let (write, other, version) = found.expect("a loop");
    let (write, other) = (write.expect_err("nobody waits for it"), other.expect_err("there is no node"));
    assert!(write.kind == Kind::Disconnected && write.message.contains("component 0 was left"), "{write}");
    assert!(!other.message.contains("was left"), "{other}");
    assert_eq!(version, 3);
}
