use super::*;
use crate::frame::{Command, RequestId};
use crate::sink::Frame;
use bytes::Bytes;
use forebay_model::Kind;
use std::task::{Context, Poll, Waker};

/// A stream that gives a few bytes at a time, and now and then none yet.
struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    state: u64,
}

impl AsyncRead for Trickle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if self.state >> 62 == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = self.bytes.len() - self.at;
        let count = ((self.state >> 33) as usize % 3000 + 1).min(left).min(buffer.len());
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Poll::Ready(Ok(count))
    }
}

/// Runs what only waits for itself.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

pub(crate) fn source(bytes: Vec<u8>, seed: u64) -> FrameSource {
    let mut source = FrameSource::new(Box::new(Trickle { bytes, at: 0, state: seed }));
    source.set_limits(Limits::SESSION);
    source
}

fn frame(number: u64, payload: usize) -> Vec<u8> {
    let payload = vec![Bytes::from(vec![number as u8; payload / 2]), Bytes::from(vec![7; payload - payload / 2])];
    let body = crate::write_body(&(number, "a body")).expect("it fits");
    let frame = Frame::new(RequestId(number), Command(99), Flags::NONE, 5, &body, payload);
    frame.expect("it fits").to_bytes()
}

#[test]
fn a_payload_is_summed_by_block_as_it_comes_and_refused_if_the_blocks_do_not_make_its_checksum() {
    for length in [0, 5, SUMMED, 3 * SUMMED + 1, 80 * SUMMED] {
        let bytes = frame(9, length);
        let mut whole = source(bytes.clone(), 1 + length as u64);
        now(async {
            whole.receive().await.expect("a good frame").expect("a frame");
            let mut payload = b"before".to_vec();
            let sums = whole.payload_summed_onto(&mut payload).await.expect("a good payload");
            let expected: Vec<u32> = payload[6..].chunks_exact(SUMMED).map(crc32c).collect();
            assert_eq!((payload.len() - 6, sums), (length, expected));
            assert_eq!(whole.receive().await, Ok(None));
        });
        for at in [1, SUMMED, length].into_iter().filter(|at| (1..=length).contains(at)) {
            let mut bytes = bytes.clone();
            let from_end = bytes.len() - at;
            bytes[from_end] ^= 0x10;
            let mut broken = source(bytes, 3);
            now(async {
                broken.receive().await.expect("a good header").expect("a frame");
                let error = broken.payload_summed_onto(&mut Vec::new()).await.expect_err("it is damaged");
                assert_eq!(error.kind, Kind::Damaged, "{length}, {at} from the end");
            });
        }
    }
}

#[test]
fn frames_that_come_in_pieces_are_read_whole_and_payloads_that_nobody_takes_are_skipped() {
    let lengths = [0, 1, 100, 40_000, 300_000, 0, 64];
    let bytes: Vec<u8> = lengths.iter().zip(0..).flat_map(|(length, number)| frame(number, *length)).collect();
    for seed in 1..20 {
        let mut source = source(bytes.clone(), seed);
        now(async {
            for (length, number) in lengths.iter().zip(0u64..) {
                let head = source.receive().await.expect("a good frame").expect("a frame");
                assert_eq!((head.request, head.credit, head.payload as usize), (RequestId(number), 5, *length));
                assert_eq!(source.decode::<(u64, String)>().expect("a good body"), (number, "a body".to_string()));
                if number % 2 == seed % 2 {
                    let mut payload = b"before".to_vec();
                    source.payload_onto(&mut payload).await.expect("a good payload");
                    assert_eq!(payload.len(), 6 + length);
                    assert!(payload[6 + length / 2..].iter().all(|byte| *byte == 7));
                }
            }
            assert!(source.receive().await.expect("it ends between frames").is_none());
        });
    }
}

#[test]
fn what_was_changed_or_cut_off_on_its_way_is_an_error_for_ever() {
    let bytes = frame(3, 200);
    let read = |bytes: Vec<u8>| {
        let mut source = source(bytes, 3);
        now(async {
            let received = source.receive().await;
            let mut payload = Vec::new();
            let outcome = match received {
                Ok(Some(_)) => source.payload_onto(&mut payload).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            let is_told = outcome.as_ref().is_err_and(|error| error.kind == Kind::Damaged);
            assert!(!source.is_changed() || is_told, "{outcome:?}");
            if let Err(error) = &outcome {
                assert_eq!(source.receive().await.as_ref().expect_err("for ever"), error);
            }
            outcome.map_err(|error| (error.kind, source.is_changed()))
        })
    };
    assert_eq!(read(bytes.clone()), Ok(true));
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        // What does not begin as a frame never was one.
        assert_eq!(read(changed), Err((Kind::Damaged, bit >= 4 * 8)), "bit {bit}");
    }
    assert_eq!(read(Vec::new()), Ok(false));
    for length in 1..bytes.len() {
        assert_eq!(read(bytes[..length].to_vec()), Err((Kind::Disconnected, false)), "{length} bytes");
    }
}

#[test]
fn no_memory_is_taken_for_bytes_that_were_announced_and_did_not_come() {
    let mut large = Frame::new(RequestId(1), Command(99), Flags::NONE, 0, &[], vec![Bytes::from(vec![1; 16 << 20])])
        .expect("it fits")
        .to_bytes();
    large.truncate(1000);
    let mut source = source(large, 9);
    now(async {
        source.receive().await.expect("a good head").expect("a frame");
        let begun = source.begun();
        assert_eq!(begun.get(), Some(1), "its payload has not come");
        let mut payload = Vec::new();
        source.payload_onto(&mut payload).await.expect_err("it was cut off");
        assert!(payload.len() <= STEP, "{} bytes", payload.len());
    });
}

#[test]
fn what_a_stranger_sends_takes_less_than_64_kib_and_none_of_it_is_the_payload_that_nobody_takes() {
    let body = vec![3; crate::frame::MAX_STRANGER as usize];
    let payload = vec![Bytes::from(vec![1; 16 << 20])];
    let large = Frame::new(RequestId(1), Command(99), Flags::NONE, 0, &body, payload).expect("it fits");
    let input = [large.to_bytes(), frame(2, 5)].concat();
    let stream = Box::new(Trickle { bytes: input, at: 0, state: 4 });
    let ((), memory) = crate::tests::counting::most(|| {
        let mut source = FrameSource::new(stream);
        source.set_limits(Limits::STRANGER);
        now(async {
            source.receive().await.expect("a good frame").expect("a frame");
            let head = source.receive().await.expect("the payload is good, and passed over").expect("a frame");
            assert_eq!(head.request, RequestId(2));
        });
    });
    assert!(memory < 64 << 10, "{memory} bytes");
    let more = vec![3; crate::frame::MAX_STRANGER as usize + 1];
    let more = Frame::new(RequestId(1), Command(99), Flags::NONE, 0, &more, Vec::<u8>::new()).expect("it fits");
    let mut source = source(more.to_bytes(), 4);
    source.set_limits(Limits::STRANGER);
    assert_eq!(now(source.receive()).expect_err("it is too much").kind, Kind::Damaged);
}

/// A stream that says itself what is wrong with it.
struct Broken(Error);

impl AsyncRead for Broken {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Err(std::io::Error::other(self.0.clone())))
    }
}

#[test]
fn what_a_stream_says_is_wrong_with_it_is_said_on_and_an_alert_of_tls_is_told_from_frames() {
    let error = Error::forbidden("nobody vouches for it");
    let mut broken = FrameSource::new(Box::new(Broken(error.clone())));
    assert_eq!(now(broken.receive()).map(drop), Err(error));
    let mut alerted = FrameSource::new(Box::new(Broken(Error::busy("it has not ended"))));
    alerted.ahead[..7].copy_from_slice(&[21, 3, 3, 0, 2, 2, 50]);
    alerted.to = 7;
    let error = now(alerted.receive()).map(drop).expect_err("it is no frame");
    assert!(error.kind == Kind::Usage && error.message.contains("TLS"), "{error}");
}

#[test]
fn a_payload_is_read_to_where_it_belongs_and_into_no_place_of_another_length() {
    now(async {
        let mut source = source([frame(1, 300_000), frame(2, 64), frame(3, 64)].concat(), 5);
        let mut place = vec![0; 300_000];
        source.receive().await.expect("it is whole");
        source.payload_into(&mut place).await.expect("it has its length");
        assert!(place[..150_000].iter().all(|byte| *byte == 1) && place[150_000..].iter().all(|byte| *byte == 7));
        source.receive().await.expect("it is whole");
        source.payload_into(&mut place[..64]).await.expect("it has its length");
        source.receive().await.expect("it is whole");
        assert_eq!(source.payload_into(&mut place[..63]).await.expect_err("it is longer").kind, Kind::Usage);
        let mut damaged = frame(4, 1000);
        *damaged.last_mut().expect("it has a payload") ^= 1;
        let mut source = self::source(damaged, 6);
        source.receive().await.expect("its head is whole");
        assert_eq!(source.payload_into(&mut place[..1000]).await.expect_err("a flipped bit").kind, Kind::Damaged);
    });
}
