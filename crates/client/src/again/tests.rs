use super::again;
use crate::peer::{AnswerLink, HeapLink, ObjectLink, Peer, WriterLink};
use forebay_model::heap::HeapSettings;
use forebay_model::ring::{Pin, Pinned, RingSpec, RingState, RingStatus};
use forebay_model::{Bytes, Error, Kind, Moment, Rate, Result, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request};
use std::sync::Mutex;

/// A peer that expects certain requests, and has their answers ready.
struct Script(Mutex<Vec<(Request, Result<Reply>)>>);

impl Script {
    fn new(lines: impl IntoIterator<Item = (Request, Result<Reply>)>) -> Script {
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.reverse();
        Script(Mutex::new(lines))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.0.lock().expect("no panic").is_empty(), "something was not asked");
    }
}

impl Peer for Script {
    fn call(&self, request: Request) -> Result<Reply> {
        let (want, reply) = self.0.lock().expect("no panic").pop().expect("one request less");
        assert_eq!(request, want);
        reply
    }

    fn open_writer(&self, _: &str, _: u64, _: bool) -> Result<Box<dyn WriterLink>> {
        Err(Error::busy("not in this script"))
    }

    fn query(&self, _: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Err(Error::busy("not in this script"))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Err(Error::usage("it has no objects"))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Err(Error::usage("it has no heaps"))
    }

    fn now(&self) -> Moment {
        Moment(0)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(50)
    }

    fn random(&self) -> u64 {
        0
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn name() -> String {
    "/a".to_string()
}

fn status(spec: RingSpec) -> RingStatus {
    RingStatus {
        spec,
        state: RingState::Ready,
        segments: 8,
        pinned_segments: 0,
        first_sequence: 0,
        next_sequence: 0,
        readable_sequence: 0,
        oldest: None,
        newest: None,
        written: Bytes::ZERO,
        elements: 0,
        missed_deadlines: 0,
        losses: Default::default(),
        staging_peak: Bytes::ZERO,
        staging: Bytes::ZERO,
        index_memory: Bytes::ZERO,
        memory_limit: Bytes::ZERO,
        recording: false,
        pins: Vec::new(),
        begins: 0,
    }
}

#[test]
fn a_ring_that_is_there_as_asked_was_made_by_the_first_request() {
    let asked = RingSpec::new(name(), Bytes::mib(10));
    let made = RingSpec { capacity: Bytes::mib(12), segment: Bytes::mib(1), ..asked.clone() };
    let other = RingSpec { guarantee: Rate::mb(5), ..made.clone() };
    let create = Request::CreateRing(asked.clone());
    let exists = || Err(Error::exists("there is one"));
    let look = || Request::Status { ring: Some(name()) };
    let found = |spec: &RingSpec| Ok(Reply::Rings(vec![status(spec.clone())]));

    let script = Script::new([(create.clone(), exists()), (look(), found(&made))]);
    assert_eq!(again(&script, &create), Ok(Reply::Ring(Box::new(status(made)))));
    let script = Script::new([(create.clone(), exists()), (look(), found(&other))]);
    assert_eq!(again(&script, &create).expect_err("another ring").kind, Kind::Exists);
    let refused = || Err(Error::refused("too fast"));
    assert_eq!(again(&Script::new([(create.clone(), refused())]), &create), refused());
}

#[test]
fn what_is_gone_was_deleted_by_the_first_request() {
    let missing = || Err(Error::missing("there is none"));
    for request in [
        Request::DeleteRing { ring: name() },
        Request::DeleteHeap { heap: name() },
        Request::Unpin { ring: name(), pin: 3 },
    ] {
        assert_eq!(again(&Script::new([(request.clone(), missing())]), &request), Ok(Reply::Done));
    }
    let resize = Request::ResizeRing { ring: name(), capacity: Bytes::mib(1) };
    assert_eq!(again(&Script::new([(resize.clone(), missing())]), &resize), missing());
}

#[test]
fn a_pin_is_not_made_twice() {
    let pin = |label: &str| Pin {
        id: 9,
        label: label.to_string(),
        from: Timestamp(10),
        to: Timestamp(100),
        first_sequence: 0,
        end_sequence: 5,
        segments: 1,
        bytes: Bytes(7),
        relatives: Vec::new(),
    };
    let request =
        Request::Pin { ring: name(), label: "flare".into(), from: Timestamp(10), to: Timestamp(100), along: vec![] };
    let pins = Request::Pins { ring: name() };
    let pinned = Reply::Pinned(Pinned { pin: pin("flare"), expired_until: None, open_end: true });

    let script = Script::new([(pins.clone(), Ok(Reply::Pins(vec![pin("flare")])))]);
    assert_eq!(again(&script, &request), Ok(pinned.clone()));
    let script = Script::new([(pins, Ok(Reply::Pins(vec![pin("other")]))), (request.clone(), Ok(pinned.clone()))]);
    assert_eq!(again(&script, &request), Ok(pinned));
}

#[test]
fn a_heap_that_is_there_may_be_the_one_that_was_asked_for() {
    let request = Request::CreateHeap { heap: "/h".into(), settings: HeapSettings::default() };
    let script = Script::new([(request.clone(), Err(Error::exists("/h exists already")))]);
    let error = again(&script, &request).expect_err("nobody knows");
    assert!(error.kind == Kind::Exists && error.message.contains("made before the connection ended"), "{error}");
}
