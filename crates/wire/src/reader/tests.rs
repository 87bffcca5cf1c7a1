use super::*;
use crate::FrameWriter;
use crate::frame::{Command, MAX_BODY, MAX_PAYLOAD, RequestId};
use forebay_model::Kind;
use std::cell::Cell;
use std::io;

fn frame(body: &str, payload: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    writer.send(RequestId(3), Command(20), Flags::NONE, body, &[payload]).expect("it fits");
    writer.into_inner()
}

/// A header that holds, whatever it announces.
fn announcing(body: u32, payload: u32) -> Vec<u8> {
    let head = Head {
        request: RequestId(3),
        command: Command(20),
        flags: Flags::NONE,
        credit: 0,
        body,
        payload,
        body_checksum: 0,
        payload_checksum: 0,
    };
    head.encode().to_vec()
}

fn failure(bytes: &[u8]) -> Error {
    FrameReader::new(bytes).receive().expect_err("it must be refused")
}

#[test]
fn a_connection_that_ends_between_frames_is_no_error() {
    let bytes = frame("body", b"payload");
    let mut reader = FrameReader::new(bytes.as_slice());
    assert!(reader.receive().expect("a frame").is_some());
    assert_eq!(reader.receive(), Ok(None));
    assert_eq!(FrameReader::new(&b""[..]).receive(), Ok(None));
}

#[test]
fn a_connection_that_ends_within_a_frame_says_in_which_part() {
    let bytes = frame("body", b"payload");
    for length in 1..bytes.len() {
        let mut reader = FrameReader::new(&bytes[..length]);
        let mut payload = b"kept".to_vec();
        let error = match reader.receive() {
            Err(error) => error,
            Ok(_) => reader.payload_onto(&mut payload).expect_err("bytes are missing"),
        };
        let part = if length < HEADER {
            "header"
        } else if length < HEADER + 5 {
            "body"
        } else {
            "payload"
        };
        assert_eq!(error.kind, Kind::Disconnected, "{length} bytes");
        assert!(error.message.contains(part), "{length} bytes: {error}");
        assert_eq!(payload, b"kept");
        assert_eq!(reader.receive(), Err(error));
    }
}

/// Lengths 0, 3, 2^31-1, 2^64-1; a header without a body; one byte short.
#[test]
fn outcome_9_lengths_that_lie_are_refused() {
    assert_eq!(failure(&announcing(3, 0)).kind, Kind::Disconnected);
    assert_eq!(failure(&[&announcing(3, 0)[..], b"abc"].concat()).kind, Kind::Damaged);
    assert_eq!(failure(&announcing(i32::MAX as u32, 0)).kind, Kind::Damaged);
    assert_eq!(failure(&announcing(u32::MAX, u32::MAX)).kind, Kind::Damaged);
    assert_eq!(failure(&[&announcing(5, 0)[..], b"abcd"].concat()).kind, Kind::Disconnected);

    let empty = announcing(0, 0);
    let mut reader = FrameReader::new(empty.as_slice());
    assert!(reader.receive().expect("an empty frame is a frame").is_some());
    assert_eq!(reader.decode::<u32>().expect_err("nothing is no number").kind, Kind::Damaged);
}

/// A stream that counts how large a buffer it is offered.
struct Measured<'a> {
    bytes: &'a [u8],
    largest: &'a Cell<usize>,
}

impl Read for Measured<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest.set(self.largest.get().max(buffer.len()));
        self.bytes.read(buffer)
    }
}

#[test]
fn memory_is_taken_for_bytes_that_came_and_not_for_bytes_that_were_announced() {
    let largest = Cell::new(0);
    let bytes = announcing(MAX_BODY, MAX_PAYLOAD);
    let mut reader = FrameReader::new(Measured { bytes: &bytes, largest: &largest });
    assert_eq!(reader.receive().expect_err("no body").kind, Kind::Disconnected);
    assert!(largest.get() <= STEP, "{} bytes for a header alone", largest.get());
    assert!(reader.body.capacity() <= STEP);
}

#[test]
fn the_largest_frame_passes() {
    let mut writer = FrameWriter::new(Vec::new());
    // Postcard writes a length of this size in three bytes.
    let body = vec![1u8; MAX_BODY as usize - 3];
    let payload = vec![2u8; MAX_PAYLOAD as usize];
    writer.send(RequestId(1), Command(20), Flags::NONE, &body, &[&payload]).expect("it just fits");
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    let head = reader.receive().expect("a frame").expect("a frame");
    assert_eq!((head.body, head.payload), (MAX_BODY, MAX_PAYLOAD));
    let mut destination = vec![0; MAX_PAYLOAD as usize];
    reader.payload_into(&mut destination).expect("the payload");
    assert!(destination == payload);
    assert!(reader.body.capacity() <= 2 * MAX_BODY as usize);
}

/// A payload that does not match its checksum is not handed on.
#[test]
fn outcome_11_a_wrong_payload_checksum_is_told_apart_from_a_wrong_body_checksum() {
    let good = frame("body", b"payload");
    let mut bytes = good.clone();
    bytes[HEADER + 1] ^= 1;
    assert!(failure(&bytes).message.contains("the body of a frame has checksum"));

    let mut bytes = good;
    *bytes.last_mut().expect("a byte") ^= 1;
    let mut reader = FrameReader::new(bytes.as_slice());
    reader.receive().expect("the body is good");
    let error = reader.payload_into(&mut [0; 7]).expect_err("the payload is not");
    assert_eq!(error.kind, Kind::Damaged);
    assert!(error.message.contains("the payload of a frame has checksum"), "{error}");

    let mut reader = FrameReader::new(bytes.as_slice());
    reader.receive().expect("the body is good");
    assert_eq!(reader.receive().expect_err("a skipped payload is checked as well").kind, Kind::Damaged);
}

#[test]
fn a_checksum_for_a_payload_that_is_not_there_is_refused() {
    let mut head = Head::decode(announcing(0, 0)[..].try_into().expect("a header"), Limits::SESSION).expect("good");
    head.payload_checksum = 1;
    assert_eq!(failure(&head.encode()).kind, Kind::Damaged);
}

#[test]
fn a_destination_of_another_size_is_refused_and_the_payload_is_still_there() {
    let bytes = frame("body", b"payload");
    let mut reader = FrameReader::new(bytes.as_slice());
    reader.receive().expect("a frame");
    assert_eq!(reader.payload_into(&mut [0; 8]).expect_err("8 is not 7").kind, Kind::Usage);
    let mut destination = [0; 7];
    reader.payload_into(&mut destination).expect("7 is 7");
    assert_eq!(&destination, b"payload");
    reader.payload_into(&mut []).expect("nothing is left");
}

#[test]
fn a_body_that_reads_as_something_else_ends_the_connection() {
    let bytes = [frame("body", b""), frame("next", b"")].concat();
    let mut reader = FrameReader::new(bytes.as_slice());
    reader.receive().expect("a frame");
    let error = reader.decode::<u8>().expect_err("four bytes are left over");
    assert_eq!(error.kind, Kind::Damaged);
    assert_eq!(reader.receive(), Err(error));
}

#[test]
fn the_error_of_the_other_side_comes_back_and_the_connection_goes_on() {
    let mut writer = FrameWriter::new(Vec::new());
    let sent = Error::expired("the first 3 elements are overwritten: ask from number 4 on");
    writer.send_error(RequestId(9), Command(20), &sent).expect("it fits");
    writer.send(RequestId(10), Command(20), Flags::RESPONSE, &5u32, &[]).expect("it fits");
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    let head = reader.receive().expect("a frame").expect("a frame");
    assert!(head.flags.has(Flags::END));
    assert_eq!(reader.answer::<u32>(&head), Err(sent));
    let head = reader.receive().expect("a frame").expect("a frame");
    assert_eq!(reader.answer::<u32>(&head), Ok(5));
}

#[test]
fn a_stream_that_stalls_says_so() {
    struct Stalled;
    impl Read for Stalled {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }
    }
    let error = FrameReader::new(Stalled).receive().expect_err("nothing comes");
    assert_eq!(error.kind, Kind::Disconnected);
    assert!(error.message.contains("sends nothing more"), "{error}");
}
