use super::*;
use forebay_model::TargetId;
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
        let at_once = async |request: Request| {
            let pending = nodes.shared.pending("there", &request);
            match race(pending.take(1), ready(())).await {
                First::Left(allowed) => Some(allowed),
                First::Right(()) => None,
            }
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
    // A node takes 1024 of one connection.
    const { assert!(2 * MOST_PENDING + MOST_ENDS < 1024) };
}
