use super::*;
use crate::source::tests::now;
use crate::write_body;
use std::io::{self, ErrorKind};

/// A node that answers what it was told to, in any order.
#[derive(Default)]
struct Peer {
    /// What it says.
    says: RefCell<Vec<u8>>,
    /// What it heard.
    heard: RefCell<Vec<u8>>,
    ended: Cell<bool>,
}

struct Ear(Rc<Peer>);
struct Mouth(Rc<Peer>);

impl AsyncRead for Ear {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut says = self.0.says.borrow_mut();
        if says.is_empty() && !self.0.ended.get() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = says.len().min(to.len());
        to[..count].copy_from_slice(&says[..count]);
        says.drain(..count);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Mouth {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.0.ended.get() {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        self.0.heard.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn say(peer: &Peer, request: u64, flags: Flags, credit: u32, body: &[u8], payload: &'static [u8]) {
    let frame = Frame::new(RequestId(request), Command(9), flags, credit, body, vec![Bytes::from_static(payload)]);
    peer.says.borrow_mut().extend(frame.expect("it fits").to_bytes());
}

/// A link to a peer that has said hello.
fn link() -> (Rc<Peer>, Link, Running) {
    let peer = Rc::new(Peer::default());
    let hello = ServerHello {
        version: crate::PROTOCOL_VERSION,
        target: forebay_model::TargetId(7),
        process: 1,
        nonce: [3; 16],
    };
    let flags = Flags::RESPONSE.and(Flags::END);
    let frame = Frame::of(RequestId(0), Command::HELLO, flags, &hello).expect("it fits");
    peer.says.borrow_mut().extend(frame.to_bytes());
    let (read, write) = (Box::new(Ear(peer.clone())), Box::new(Mouth(peer.clone())));
    let (link, running) =
        now(Link::open(read, write, ([1; 16], None), (Credit::new(1 << 20), Memory::default()))).expect("a welcome");
    (peer, link, running)
}

fn ask(link: &Link, most: usize) -> Coming {
    link.ask(Asked { command: Command(9), body: b"?", payload: Vec::new(), most, shown: None }).expect("it is asked")
}

/// Polls the link a few times.
fn run(running: &mut Running) -> Option<Error> {
    let mut context = Context::from_waker(Waker::noop());
    (0..20).find_map(|_| match running.as_mut().poll(&mut context) {
        Poll::Ready(error) => Some(error),
        Poll::Pending => None,
    })
}

const END: Flags = Flags::RESPONSE.and(Flags::END);
const MORE: Flags = Flags::RESPONSE.and(Flags::MORE);

#[test]
fn answers_come_in_any_order_and_in_pieces_and_what_was_given_up_harms_nobody() {
    let (peer, link, mut running) = link();
    assert_eq!(link.hello().target, forebay_model::TargetId(7));
    let (one, two, three) = (ask(&link, 100), ask(&link, 100), ask(&link, 0));
    drop(two);
    say(&peer, 3, END, 0, b"third", b"");
    say(&peer, 1, MORE, 4, b"", b"fir");
    say(&peer, 2, END, 0, b"", b"nobody wants this");
    say(&peer, 1, END, 0, b"first", b"st");
    assert_eq!(run(&mut running), None);
    assert_eq!(now(one), Ok(Answer { body: b"first".to_vec(), payload: Arrived::Plain(b"first".to_vec()) }));
    assert_eq!(now(three), Ok(Answer { body: b"third".to_vec(), payload: Arrived::default() }));
    assert!(link.shared.waiting.borrow().is_empty());
    // Each request was sent once, with a number of its own, and what the first one lacked was let come.
    let heard = peer.heard.borrow();
    let mut reader = crate::FrameReader::new(&heard[..]);
    let mut said = Vec::new();
    while let Some(head) = reader.receive().expect("good frames") {
        said.push((head.command, head.request.0, head.credit));
    }
    let asked = |number, credit| (Command(9), number, credit);
    let hello = (Command::HELLO, 0, NO_LIMIT);
    assert_eq!(said, [hello, asked(1, 100), asked(2, 100), asked(3, NO_LIMIT), (Command::GRANT, 1, 4)]);
}

#[test]
fn when_the_connection_ends_everything_that_waits_is_told_and_nothing_more_is_asked() {
    let (peer, link, mut running) = link();
    let waits = ask(&link, 10);
    peer.ended.set(true);
    assert_eq!(run(&mut running).expect("it ended").kind, forebay_model::Kind::Disconnected);
    assert_eq!(now(waits).expect_err("nobody answers").kind, forebay_model::Kind::Disconnected);
    let asked = Asked { command: Command(9), body: b"?", payload: Vec::new(), most: 0, shown: None };
    assert!(link.ask(asked).is_err() && link.ended().is_some());
}

#[test]
fn a_node_that_answers_what_was_not_asked_or_more_than_was_asked_for_ends_its_connection() {
    for (request, payload) in [(5, &b"x"[..]), (1, b"four")] {
        let (peer, link, mut running) = link();
        let waits = ask(&link, 3);
        say(&peer, request, END, 0, b"", payload);
        assert_eq!(run(&mut running).expect("it is broken").kind, forebay_model::Kind::Damaged);
        assert!(now(waits).is_err());
    }
}

#[test]
fn an_error_is_the_answer_to_its_request_alone() {
    let (peer, link, mut running) = link();
    let (one, two) = (ask(&link, 10), ask(&link, 10));
    let error = Error::missing("there is no such object");
    say(&peer, 1, END.and(Flags::ERROR), 0, &write_body(&error).expect("it fits"), b"");
    say(&peer, 2, END, 0, b"", b"bytes");
    assert_eq!(run(&mut running), None);
    assert_eq!(now(one), Err(error));
    assert_eq!(*now(two).expect("an answer").payload, *b"bytes");
}

#[test]
fn a_client_sends_no_more_than_its_node_lets_come() {
    let (peer, link, mut running) = link();
    let payload = vec![Bytes::from(vec![7; 100_000])];
    let asked = Asked { command: Command(9), body: b"?", payload, most: 0, shown: None };
    let coming = link.ask(asked).expect("it is asked");
    assert_eq!(run(&mut running), None);
    assert_eq!(peer.heard.borrow().len() as u64, OPENING);
    peer.says.borrow_mut().extend(Frame::window(10_000).expect("it fits").to_bytes());
    assert_eq!(run(&mut running), None);
    assert_eq!(peer.heard.borrow().len() as u64, OPENING + 10_000);
    peer.says.borrow_mut().extend(Frame::window(u32::MAX).expect("it fits").to_bytes());
    say(&peer, 1, END, 0, b"", b"");
    assert_eq!(run(&mut running), None);
    assert!(peer.heard.borrow().len() > 100_000);
    assert!(now(coming).is_ok());
}

#[test]
fn what_is_kept_with_a_request_is_dropped_when_it_is_answered_or_the_connection_ends_and_not_when_it_is_given_up() {
    let (peer, link, mut running) = link();
    let kept = Rc::new(());
    let asked = || {
        let coming = ask(&link, 0);
        coming.keep(kept.clone());
        coming
    };
    let (one, two, three) = (asked(), asked(), asked());
    drop((two, three));
    assert_eq!(Rc::strong_count(&kept), 4, "the node may have all three");
    say(&peer, 1, END, 0, b"", b"");
    say(&peer, 2, END, 0, b"", b"");
    assert_eq!(run(&mut running), None);
    assert_eq!(Rc::strong_count(&kept), 2);
    assert!(now(one).is_ok());
    peer.ended.set(true);
    run(&mut running).expect("it ended");
    assert_eq!(Rc::strong_count(&kept), 1);
}
