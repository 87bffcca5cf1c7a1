use super::*;
use crate::capability::{Capability, Proof, Rights};
use crate::capability::{Keyring, RootKey, Wanted};
use crate::source::tests::now;
use bytes::Bytes;
use forebay_model::{ObjectId, TargetId, Timestamp};
use std::cell::Cell;
use std::future::Future;

/// A stream that takes a few bytes at a time, and then no more.
struct Narrow {
    taken: Rc<RefCell<Vec<u8>>>,
    room: usize,
    closed: Rc<Cell<bool>>,
}

impl AsyncWrite for Narrow {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        if self.room == 0 {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(777).min(self.room);
        self.room -= count;
        self.taken.borrow_mut().extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.closed.set(true);
        Poll::Ready(Ok(()))
    }
}

fn frame(number: u64) -> Frame {
    let payload = vec![Bytes::from(vec![number as u8; 3000]); 3];
    Frame::new(RequestId(number), Command(99), Flags::NONE, 0, b"body", payload).expect("it fits")
}

#[test]
fn frames_go_out_in_their_order_then_the_stream_ends_and_what_they_hold_is_let_go() {
    let (taken, closed) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
    let (sink, guard) = (FrameSink::default(), Rc::new(()));
    (0..50).for_each(|number| sink.push(frame(number).with_guard(guard.clone())));
    sink.close();
    sink.push(frame(99));
    assert!(sink.is_waiting() && Rc::strong_count(&guard) == 51);
    let stream = Narrow { taken: taken.clone(), room: usize::MAX, closed: closed.clone() };
    now(sink.drive(Box::new(stream))).expect("everything is sent");
    let expected: Vec<u8> = (0..50).flat_map(|number| frame(number).to_bytes()).collect();
    assert!(*taken.borrow() == expected && closed.get());
    assert_eq!((sink.progress(), Rc::strong_count(&guard)), (expected.len() as u64, 1));
}

#[test]
fn after_a_failure_nothing_is_kept_and_nothing_taken() {
    let (sink, guard) = (FrameSink::default(), Rc::new(()));
    (0..5).for_each(|number| sink.push(frame(number).with_guard(guard.clone())));
    let stream = Narrow { taken: Rc::default(), room: 10_000, closed: Rc::default() };
    let error = now(sink.drive(Box::new(stream))).expect_err("the other side is gone");
    assert_eq!(error.kind, forebay_model::Kind::Disconnected);
    sink.push(frame(9).with_guard(guard.clone()));
    assert_eq!((sink.failure(), sink.is_waiting(), Rc::strong_count(&guard)), (Some(error), false, 1));
}

#[test]
fn what_is_shown_with_a_request_is_proven_for_all_of_it() {
    let target = TargetId(4);
    let key = RootKey::new([8; 32]).of_target(target, 1);
    let capability = Capability {
        cluster: 1,
        target,
        client: 2,
        object: ObjectId { volume: 3, object: 4 },
        version: 1,
        epoch: 0,
        rights: Rights::WRITE,
        bytes: 0..u64::MAX,
        until: Timestamp(100),
        key: 1,
        serial: 0,
    };
    let mut keys = Keyring::new(1, target, [0; 32]);
    keys.roll(key.clone());
    let shown = Shown { capability: capability.to_bytes(), secret: key.secret(&capability) };
    let nonces = Nonces { client: [1; 16], node: [2; 16] };
    let payload = vec![Bytes::from_static(b"some "), Bytes::from_static(b"bytes")];
    let frame = Frame::shown(RequestId(6), Command(55), 0, b"body", payload, (&shown, &nonces)).expect("it fits");
    let bytes = frame.to_bytes();
    let (head, rest) = bytes.split_first_chunk::<HEADER>().expect("a header");
    let head = crate::Head::decode(head, crate::Limits::SESSION).expect("a good head");
    let (sent, rest) = rest.split_first_chunk::<LENGTH>().expect("a capability");
    let (proof, rest) = rest.split_first_chunk::<16>().expect("a proof");
    assert!(head.flags.has(Flags::SHOWN) && rest == b"bodysome bytes");
    let payload = (head.payload_checksum, forebay_model::Bytes(10));
    let said = |request, body| Said { nonces: &nonces, request, command: head.command, body, payload };
    let wanted = Wanted { object: capability.object, version: None, rights: Rights::WRITE, bytes: 0..10 };
    let check = |said: &Said<'_>| keys.check(sent, Proof(*proof), said, &wanted, Timestamp(50));
    assert_eq!(check(&said(head.request, b"body")), Ok(capability.clone()));
    assert!(check(&said(RequestId(7), b"body")).is_err());
    assert!(check(&said(head.request, b"bodi")).is_err());
}

#[test]
fn no_more_goes_than_was_let_go_also_in_the_middle_of_a_frame() {
    let taken = Rc::new(RefCell::new(Vec::new()));
    let sink = FrameSink::default();
    sink.bound(1000);
    (0..2).for_each(|number| sink.push(frame(number)));
    sink.close();
    let expected: Vec<u8> = (0..2).flat_map(|number| frame(number).to_bytes()).collect();
    let stream = Narrow { taken: taken.clone(), room: usize::MAX, closed: Rc::default() };
    let mut driven = Box::pin(sink.drive(Box::new(stream)));
    let mut context = Context::from_waker(Waker::noop());
    for gone in [1000, 1001, 12_345] {
        assert!(driven.as_mut().poll(&mut context).is_pending());
        assert_eq!((taken.borrow().len(), sink.progress()), (gone, gone as u64));
        sink.let_go(if gone == 1000 { 1 } else { 11_344 });
    }
    sink.let_go(u32::MAX);
    assert_eq!(driven.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    assert!(*taken.borrow() == expected);
}
