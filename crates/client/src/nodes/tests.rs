use super::*;
use std::future::ready;

/// Asks for the lock of a part of an object.
fn lock(object: u64, part: u64) -> Request {
    let lock = Lock { target: TargetId(1), id: ObjectId { volume: 1, object }, part };
    let body = forebay_wire::write_body(&lock).expect("it has room");
    Request { command: Command::LOCK, body, payload: Vec::new(), most: 0 }
}

#[test]
fn however_many_wait_for_the_end_of_a_file_whoever_has_it_gets_the_stripe_that_it_takes_next() {
    let found = forebay_env::real::run_network(|env| async move {
        let nodes = Nodes::new(env, 1 << 20, Duration::from_secs(1));
        let at_once = async |request: Request| match race(nodes.shared.room("there", &request, None), ready(())).await {
            First::Left(allowed) => Some(allowed),
            First::Right(()) => None,
        };
        let mut waiting = Vec::new();
        while let Some(allowed) = at_once(lock(5, END.0)).await {
            waiting.push(allowed);
        }
        let stripe = at_once(lock(5, 0)).await.is_some();
        let read = Request { command: Command::PING, body: Vec::new(), payload: Vec::new(), most: 0 };
        let other = at_once(read).await.is_some();
        // And where others wait for stripes, what is done with one is asked all the same.
        let mut stripes = Vec::new();
        while let Some(allowed) = at_once(lock(5, 7)).await {
            stripes.push(allowed);
        }
        let read = Request { command: Command::PING, body: Vec::new(), payload: Vec::new(), most: 0 };
        (waiting.len(), stripe, other, stripes.len(), at_once(read).await.is_some())
    });
    let (ends, stripe, other, stripes, after) = found.expect("a loop");
    assert_eq!((ends, stripes), (MOST_ENDS, MOST_PENDING));
    assert!(stripe && other && after);
    // A node takes 2048 of one connection, and three targets may hang.
    const { assert!(2 * MOST_PENDING + MOST_ENDS + 3 * (MOST_PENDING / PARTS) < 2048) };
    // And 1024 to one target, but for those for locks.
    const { assert!(MOST_PENDING / PARTS < 1024) };
}

#[test]
fn requests_to_a_target_that_does_not_answer_leave_room_for_those_to_others_of_its_node() {
    let found = forebay_env::real::run_network(|env| async move {
        let nodes = Nodes::new(env, 1 << 20, Duration::from_secs(1));
        let at_once = async |request: &Request, target: u128| match race(
            nodes.shared.room("there", request, Some(TargetId(target))),
            ready(()),
        )
        .await
        {
            First::Left((of_target, all)) => Some((of_target, all)),
            First::Right(()) => None,
        };
        let read = Request { command: Command::PING, body: Vec::new(), payload: Vec::new(), most: 0 };
        let (mut given_up, mut waiting) = (Vec::new(), Vec::new());
        for request in [&read, &lock(5, 0), &lock(5, END.0)] {
            while let Some(allowed) = at_once(request, 1).await {
                waiting.push(allowed);
            }
            assert!(at_once(request, 2).await.is_some(), "{request:?}");
        }
        let under_way = waiting.len();
        // The node still has those for whose answers nobody waits any more.
        given_up.extend(waiting.into_iter().map(|(of_target, _)| of_target));
        let is_full = at_once(&read, 1).await.is_none();
        given_up.clear();
        (under_way, is_full, at_once(&read, 1).await.is_some())
    });
    let (under_way, is_full, is_free) = found.expect("a loop");
    assert_eq!(under_way, (2 * MOST_PENDING + MOST_ENDS) / PARTS);
    assert!(is_full && is_free);
}
