//! Frames that are malformed, changed on the way, or said again.

use super::*;
use bytes::Bytes;
use forebay_env::conformance::streams::{rest, send};
use forebay_wire::ServerHello;
use forebay_wire::capability::Nonces;
use forebay_wire::source::FrameSource;
use futures_io::AsyncWrite;
use std::cell::RefCell;

/// Says these bytes to a node, and hears what it answers until it ends the connection.
async fn said(rig: &Rig, bytes: Vec<u8>) {
    let Duplex { mut read, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
    // It may have heard enough before all of them.
    drop(send(&mut write, &bytes).await);
    drop(rest(&mut read).await);
}

#[test]
fn outcome_20_malformed_oversized_and_truncated_frames_end_that_connection_alone() {
    with_node(Bounds { patience: Duration::from_millis(300), ..Bounds::default() }, |rig| async move {
        let (link, all) = rig.made().await;
        let frame = |flags, body: &[u8], payload: usize| {
            let payload = vec![Bytes::from(vec![5; payload])];
            Frame::new(RequestId(1), Command::WRITE_OBJECT, flags, 0, body, payload).expect("it fits").to_bytes()
        };
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let cut = |bytes: Vec<u8>, length: usize| bytes[..length].to_vec();
        let damaged = |mut bytes: Vec<u8>, at: usize| {
            bytes[at] ^= 1;
            bytes
        };
        let whole = frame(Flags::NONE, &body, 100);
        let told = Rc::new(RefCell::new(Vec::new()));
        rig.node.warn({
            let told = told.clone();
            move |unwelcome| told.borrow_mut().push(unwelcome)
        });
        // Outcomes 9, 11 and 20; the last of them drip, or stop in the middle.
        let attempts = vec![
            b"GET / HTTP/1.1\r\nHost: forebay\r\n\r\n                                      ".to_vec(),
            vec![0; 200],
            vec![0x16; 300],
            [hello(), damaged(whole.clone(), 70)].concat(),
            [hello(), damaged(whole.clone(), 10)].concat(),
            [hello(), frame(Flags::SHOWN, &[1; 100], 0)].concat(),
            [hello(), frame(Flags::NONE, &[0xff; 30], 0)].concat(),
            [hello(), hello()].concat(),
            [hello(), frame(Flags::RESPONSE, &body, 0)].concat(),
            cut(hello(), 3),
            [hello(), cut(whole.clone(), 63)].concat(),
            [hello(), cut(whole.clone(), whole.len() - 1)].concat(),
        ];
        for bytes in attempts {
            said(&rig, bytes).await;
        }
        // Nothing of all that was done, and others are served as before.
        let stat = Ask::Stat { id: OBJECT, page: None };
        let ObjectReply::Info(info) = rig.ask(&link, &all, stat, Vec::new()).await.expect("it is there").reply else {
            panic!("an object")
        };
        assert_eq!(info.head.size, 0);
        // All of it is counted, and people are told of the first alone within a minute.
        let counted = CutCounts { malformed: 7, changed: 2, slow: 3, ..CutCounts::default() };
        assert_eq!(rig.node.cuts(), counted);
        let told = told.take();
        assert!(told.len() == 1 && told[0].count == 1 && told[0].peer.starts_with("127.0.0.1:"), "{told:?}");
        assert_eq!(told[0].error.kind, Kind::Damaged);
    });
}

/// A connection over which hello was said, and what proofs on it are made of.
pub(super) async fn greeted(rig: &Rig) -> (FrameSource, Box<dyn AsyncWrite + Unpin>, Nonces) {
    let Duplex { read, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
    send(&mut write, &hello()).await.expect("it hears");
    let mut source = FrameSource::new(read);
    source.receive().await.expect("it goes on").expect("a hello");
    let answer: ServerHello = source.decode().expect("a hello");
    source.set_limits(forebay_wire::Limits::SESSION);
    (source, write, Nonces { client: [9; 16], node: answer.nonce })
}

#[test]
fn of_a_write_that_is_allowed_no_byte_may_be_changed_on_the_way() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let frame = |nonces: &Nonces| {
            let payload = vec![Bytes::from(vec![5; 100])];
            let shown = (&rig.shown(&all), nonces);
            let frame = Frame::shown(RequestId(1), Command::WRITE_OBJECT, 0, &body, payload, shown);
            frame.expect("it fits").to_bytes()
        };
        let size = async || {
            let stat = Ask::Stat { id: OBJECT, page: None };
            match rig.ask(&link, &all, stat, Vec::new()).await.expect("it is there").reply {
                ObjectReply::Info(info) => info.head.size,
                other => panic!("{other:?}"),
            }
        };
        let length = frame(&Nonces { client: [9; 16], node: [0; 16] }).len();
        for at in 0..length {
            let (mut source, mut to, nonces) = greeted(&rig).await;
            let mut bytes = frame(&nonces);
            bytes[at] ^= 1 << (at % 8);
            // The node may have heard enough before all of it.
            drop(send(&mut to, &bytes).await);
            // It says why, and ends the connection.
            let head = source.receive().await.expect("it says why").expect("an error");
            assert!(head.request == RequestId(0) && head.flags.has(Flags::ERROR), "byte {at}: {head:?}");
            let why = source.decode::<forebay_model::Error>().expect("an error").kind;
            assert!(matches!(why, Kind::Damaged | Kind::Version), "byte {at}: {why:?}");
            assert_eq!(source.receive().await.expect("it ends"), None);
        }
        assert_eq!(size().await, 0);
        let (mut source, mut to, nonces) = greeted(&rig).await;
        send(&mut to, &frame(&nonces)).await.expect("it hears");
        let head = source.receive().await.expect("an answer").expect("an answer");
        assert!(head.request == RequestId(1) && !head.flags.has(Flags::ERROR), "{head:?}");
        assert_eq!(size().await, 100);
    });
}

#[test]
fn what_was_heard_on_a_connection_is_no_use_on_it_nor_on_another_one() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        rig.ask(&link, &all, write(0), vec![1; 100]).await.expect("it is durable");
        let nonces = Nonces { client: [9; 16], node: link.hello().nonce };
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let payload = vec![Bytes::from(vec![2; 100])];
        let shown = rig.shown(&all);
        let heard = Frame::shown(RequestId(7), Command::WRITE_OBJECT, 0, &body, payload, (&shown, &nonces));
        let heard = heard.expect("it fits").to_bytes();
        // Outcome 4. The nonce of the node is another one there; the same client nonce is the worst case.
        let refused = rig.node.keys().refusals().forbidden;
        let end = Frame::of(RequestId(1), Command::HELLO, Flags::NONE, &()).expect("it fits").to_bytes();
        said(&rig, [hello(), heard, end].concat()).await;
        assert_eq!(rig.node.keys().refusals().forbidden, refused + 1);
        let bytes = rig.ask(&link, &all, read(0, 100), Vec::new()).await.expect("bytes").payload;
        assert_eq!(bytes.into_vec(), [1; 100]);
    });
}
