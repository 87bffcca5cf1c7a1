//! What a transaction says when its link breaks: in silence, in nonsense, or with the process behind it.

use super::{Heaps, NewRoot, RecordId};
use crate::peer::{AnswerLink, HeapLink, ObjectLink, Peer, WriterLink};
use forebay_model::{Bytes, Error, Kind, Moment, Result, TargetId, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapName, HeapReply, HeapRequest};
use std::sync::{Arc, Mutex};

const HEAP: &str = "/heap";

/// Which requests.
type Kinds = fn(&HeapAsk) -> bool;

/// How links break, and when.
#[derive(Default)]
struct Plan {
    /// The links of which none is made.
    refused: u32,
    /// Links break with this at a request of this kind, before it is answered.
    breaks: Option<(Kinds, Error)>,
    /// An abort is answered with this, once, and the link goes on.
    not_undone: Option<Error>,
    links: u32,
    /// Records that were put over all links.
    put: u64,
    commits: u64,
}

#[derive(Clone, Default)]
struct Node(Arc<Mutex<Plan>>);

struct Link {
    node: Node,
    answers: Vec<Result<Result<HeapAnswer>>>,
}

fn none<T>() -> Result<T> {
    Err(Error::usage("nothing but heaps"))
}

impl Peer for Node {
    fn call(&self, request: Request) -> Result<Reply> {
        match request {
            Request::Heaps => {
                let heap = HeapName { name: HEAP.to_owned(), target: TargetId(1), space: Bytes::ZERO };
                Ok(Reply::Heaps(vec![heap]))
            }
            // What says where objects are is asked first.
            _ => Err(Error::busy("not now")),
        }
    }

    fn open_writer(&self, _: &str, _: u64, _: bool) -> Result<Box<dyn WriterLink>> {
        none()
    }

    fn query(&self, _: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        none()
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Err(Error::busy("not now"))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        let plan = &mut *self.0.lock().expect("unpoisoned");
        if plan.refused > 0 {
            plan.refused -= 1;
            return Err(Error::busy("too many connections"));
        }
        plan.links += 1;
        Ok(Box::new(Link { node: self.clone(), answers: Vec::new() }))
    }

    fn now(&self) -> Moment {
        Moment(0)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        4
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl HeapLink for Link {
    fn send(&mut self, request: &HeapRequest, _: &Arc<Vec<u8>>) -> Result<()> {
        let plan = &mut *self.node.0.lock().expect("unpoisoned");
        if let Some((_, error)) = plan.breaks.take_if(|(is_it, _)| is_it(&request.ask)) {
            self.answers.push(Err(error));
            return Ok(());
        }
        if let (HeapAsk::Abort, Some(error)) = (&request.ask, plan.not_undone.take()) {
            self.answers.push(Ok(Err(error)));
            return Ok(());
        }
        let reply = match &request.ask {
            HeapAsk::Put { lengths, .. } => {
                let first = plan.put;
                plan.put += lengths.len() as u64;
                HeapReply::Ids((first..plan.put).map(RecordId::from_number).collect())
            }
            HeapAsk::Commit { .. } => {
                plan.commits += 1;
                HeapReply::Committed(plan.commits)
            }
            _ => HeapReply::Done,
        };
        self.answers.push(Ok(Ok(reply.into())));
        Ok(())
    }

    fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        self.answers.remove(0)
    }
}

fn is_put(ask: &HeapAsk) -> bool {
    matches!(ask, HeapAsk::Put { .. })
}

fn is_commit(ask: &HeapAsk) -> bool {
    matches!(ask, HeapAsk::Commit { .. })
}

fn breaks() -> [Error; 3] {
    [Error::disconnected("gone"), Error::busy("silent for 30 s"), Error::damaged("a frame makes no sense")]
}

#[test]
fn however_its_link_breaks_a_transaction_is_undone_and_no_part_of_it_is_committed() {
    for error in breaks() {
        let node = Node::default();
        let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
        heap.put(b"first").expect("put");
        node.0.lock().expect("unpoisoned").breaks = Some((is_put, error.clone()));
        let lost = heap.put(b"second").expect_err("the link breaks");
        assert!(lost.kind == error.kind && lost.message.contains("do that again"), "{lost}");
        assert_eq!(heap.put(b"third").expect_err("it is not whole").kind, Kind::Usage);
        assert_eq!(heap.commit(NewRoot::Same).expect_err("it is not whole").kind, Kind::Usage);
        heap.abort().expect("aborted");
        heap.put(b"again").expect("put");
        assert_eq!(heap.commit(NewRoot::Same), Ok(1));
        assert_eq!(node.0.lock().expect("unpoisoned").links, 2, "the broken one was left");
    }
}

#[test]
fn a_batch_that_finds_no_link_is_not_left_out_of_the_commit_unseen() {
    let node = Node::default();
    node.0.lock().expect("unpoisoned").refused = 1;
    let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
    assert_eq!(heap.put(b"first").expect_err("no link").kind, Kind::Busy);
    assert_eq!(heap.put(b"second").expect_err("the first is not there").kind, Kind::Usage);
    assert_eq!(heap.commit(NewRoot::Same).expect_err("the first is not there").kind, Kind::Usage);
    assert_eq!(node.0.lock().expect("unpoisoned").put, 0);
}

#[test]
fn what_may_not_have_been_aborted_is_in_no_commit_that_comes_after() {
    let node = Node::default();
    let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
    heap.put(b"first").expect("put");
    node.0.lock().expect("unpoisoned").not_undone = Some(Error::busy("too much is asked at once"));
    assert_eq!(heap.abort().expect_err("it is said").kind, Kind::Busy);
    heap.put(b"second").expect("put");
    assert_eq!(heap.commit(NewRoot::Same), Ok(1));
    // With the link of its own all of a transaction goes.
    assert_eq!(node.0.lock().expect("unpoisoned").links, 2);
}

#[test]
fn a_commit_without_an_answer_is_said_to_be_unknown_and_the_next_one_begins_anew() {
    for error in breaks() {
        let node = Node::default();
        let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
        heap.put(b"first").expect("put");
        node.0.lock().expect("unpoisoned").breaks = Some((is_commit, error));
        let unknown = heap.commit(NewRoot::Same).expect_err("the link breaks");
        assert_eq!(unknown.kind, Kind::Disconnected);
        assert!(unknown.message.contains("before it said whether /heap was committed"), "{unknown}");
        heap.put(b"second").expect("put");
        assert_eq!(heap.commit(NewRoot::Same), Ok(1));
    }
}

#[test]
fn a_commit_that_names_another_root_is_not_repeated_over_another_link_and_one_of_the_same_is() {
    for error in breaks() {
        let node = Node::default();
        let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
        for root in [NewRoot::None, NewRoot::Record(RecordId::from_number(7))] {
            node.0.lock().expect("unpoisoned").breaks = Some((is_commit, error.clone()));
            let unknown = heap.commit(root).expect_err("another root may have been named since");
            assert_eq!(unknown.kind, Kind::Disconnected);
            assert!(unknown.message.contains("before it said whether /heap was committed"), "{unknown}");
        }
        assert_eq!(node.0.lock().expect("unpoisoned").commits, 0);
        assert_eq!(heap.commit(NewRoot::None), Ok(1), "who asks again knows what is done");
    }
    let node = Node::default();
    let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
    node.0.lock().expect("unpoisoned").breaks = Some((is_commit, Error::disconnected("gone")));
    assert_eq!(heap.commit(NewRoot::Same), Ok(1));
    // What was surely not done is.
    node.0.lock().expect("unpoisoned").breaks = Some((is_commit, Error::stale("it was moved")));
    assert_eq!(heap.commit(NewRoot::None), Ok(2));
    // Where there is no link nothing was asked.
    let mut other = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
    node.0.lock().expect("unpoisoned").refused = 1;
    assert_eq!(other.commit(NewRoot::None).expect_err("no link").kind, Kind::Busy);
}

#[test]
fn a_commit_that_was_surely_refused_is_not_said_to_be_unknown_and_the_next_one_begins_anew() {
    let node = Node::default();
    let mut heap = Heaps::over(Arc::new(node.clone())).open(HEAP).expect("opened");
    heap.put(b"first").expect("put");
    node.0.lock().expect("unpoisoned").breaks = Some((is_commit, Error::stale("it was revoked")));
    let refused = heap.commit(NewRoot::Same).expect_err("it was revoked");
    assert!(refused.kind == Kind::Stale && refused.message.contains("do that again"), "{refused}");
    heap.put(b"second").expect("put");
    assert_eq!(heap.commit(NewRoot::Same), Ok(1));
}

#[test]
fn a_heap_is_not_made_where_it_is_not_known_whether_an_object_has_its_name() {
    let error = Heaps::over(Arc::new(Node::default())).create("/new", Default::default()).expect_err("not known");
    assert_eq!(error.kind, Kind::Busy);
}
