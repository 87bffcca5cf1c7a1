use super::{Framing, StreamSource, WHOLE};
use crate::source::{Source, Summary};
use crate::testing::{Collector, Dice, EPOCH, Event, ManualClock, Piece, Stutter, seed};
use forebay_model::{Bytes, Kind, Result};
use std::io::{Cursor, ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;

fn record(
    reader: Box<dyn Read + Send>,
    framing: Framing,
    clock: &Arc<ManualClock>,
    change: impl FnOnce(&mut Collector<'static>),
) -> (Collector<'static>, Result<Summary>) {
    let mut sink = Collector::new(clock.clone());
    change(&mut sink);
    let mut source = StreamSource::new(reader, "stdin", framing, Bytes::mib(8), clock.clone()).unwrap();
    let summary = source.run(&mut sink);
    (sink, summary)
}

fn whole(bytes: &[u8], framing: Framing) -> (Vec<Vec<u8>>, Result<Summary>) {
    let (sink, summary) = record(Box::new(Cursor::new(bytes.to_vec())), framing, &ManualClock::new(), |_| {});
    (sink.elements(), summary)
}

/// The elements as one stream in this framing.
fn framed(elements: &[Vec<u8>], framing: Framing) -> Vec<u8> {
    let mut bytes = Vec::new();
    for element in elements {
        match framing {
            Framing::PrefixedLittle => bytes.extend((element.len() as u32).to_le_bytes()),
            Framing::PrefixedBig => bytes.extend((element.len() as u32).to_be_bytes()),
            Framing::Chunks(_) | Framing::Lines => {}
        }
        bytes.extend(element);
        if framing == Framing::Lines {
            bytes.push(b'\n');
        }
    }
    bytes
}

#[test]
fn the_last_chunk_may_be_short() {
    let (elements, summary) = whole(b"abcdefgh", Framing::Chunks(Bytes(3)));
    assert_eq!(elements, [b"abc".to_vec(), b"def".to_vec(), b"gh".to_vec()]);
    assert_eq!(summary.unwrap(), Summary { elements: 3, bytes: Bytes(8), ..Summary::default() });
}

#[test]
fn lines_lose_their_newline_and_the_last_may_have_none() {
    let (elements, _) = whole(b"one\n\nthree\r\nfour", Framing::Lines);
    assert_eq!(elements, [b"one".to_vec(), b"".to_vec(), b"three\r".to_vec(), b"four".to_vec()]);
}

#[test]
fn every_framing_gives_back_what_went_in_however_it_drips() {
    let first = seed();
    for round in 0..60 {
        let mut dice = Dice(first.wrapping_add(round));
        let size = 1 + dice.below(if round % 10 == 0 { 3 * WHOLE } else { 300 });
        let framing =
            [Framing::PrefixedLittle, Framing::PrefixedBig, Framing::Lines, Framing::Chunks(Bytes(size as u64))]
                [dice.below(4)];
        let mut elements = Vec::new();
        for _ in 0..dice.below(20) {
            let length = if matches!(framing, Framing::Chunks(_)) { size } else { dice.below(size + 1) };
            elements.push(dice.bytes(length).into_iter().map(|b| if b == b'\n' { 0 } else { b }).collect::<Vec<u8>>());
        }
        let bytes = framed(&elements, framing);
        let clock = ManualClock::new();
        let piece = 1 + dice.below(bytes.len().max(1));
        let (sink, summary) =
            record(Stutter::pieces(&bytes, piece.max(bytes.len() / 500), &clock), framing, &clock, |_| {});
        assert!(summary.is_ok() && sink.elements() == elements, "round {round}: {framing}: {summary:?}");
        assert!(sink.longest <= Duration::from_millis(50), "round {round}: no tick for {:?}", sink.longest);
    }
}

#[test]
fn a_large_element_comes_in_parts_and_is_whole() {
    let mut dice = Dice(3);
    let elements = vec![dice.bytes(5 << 20), dice.bytes(10), dice.bytes(WHOLE), dice.bytes(WHOLE + 1)];
    for framing in [Framing::PrefixedLittle, Framing::PrefixedBig] {
        assert_eq!(whole(&framed(&elements, framing), framing).0, elements);
    }
    let chunks = Framing::Chunks(Bytes::mib(2));
    let got = whole(&elements[0], chunks).0;
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [2 << 20, 2 << 20, 1 << 20]);
    assert_eq!(got.concat(), elements[0]);
}

#[test]
fn an_element_bears_the_time_when_its_bytes_came() {
    let clock = ManualClock::new();
    let pieces = [Piece::Bytes(b"ab".to_vec()), Piece::Silence(Duration::from_secs(5)), Piece::Bytes(b"cd".to_vec())];
    let input = Box::new(Stutter { pieces: pieces.into(), clock: clock.clone() });
    let (sink, _) = record(input, Framing::Chunks(Bytes(2)), &clock, |_| {});
    let times: Vec<_> = sink
        .events
        .iter()
        .map(|event| match event {
            Event::Element(time, _) => time.since(EPOCH).as_secs(),
            Event::Gap(gap) => panic!("{gap}"),
        })
        .collect();
    assert_eq!(times, [0, 5]);
}

#[test]
fn a_stream_that_ends_inside_of_an_element_says_so() {
    let mut bytes = framed(&[vec![1; 10], vec![2; 20]], Framing::PrefixedLittle);
    bytes.truncate(bytes.len() - 5);
    let (elements, end) = whole(&bytes, Framing::PrefixedLittle);
    assert_eq!(elements.len(), 1);
    let error = end.unwrap_err();
    assert_eq!(error.kind, Kind::Damaged);
    assert_eq!(
        error.message,
        "stdin: the input ends at byte 33 inside an element: 19 of 24 bytes are there; 1 element was read before it"
    );
    let mut large = framed(&[vec![1; 1 << 20]], Framing::PrefixedBig);
    large.truncate(1000);
    let (sink, end) = record(Box::new(Cursor::new(large)), Framing::PrefixedBig, &ManualClock::new(), |_| {});
    assert!(end.unwrap_err().message.contains("996 of 1048576 bytes"));
    assert!(sink.open.is_some() && sink.events.is_empty(), "it was begun and not ended");
}

#[test]
fn absurd_lengths_and_settings_are_refused_with_the_numbers() {
    let (_, end) = whole(b"GET / HTTP/1.1\r\n", Framing::PrefixedLittle);
    let message = end.unwrap_err().message;
    assert!(message.contains("the length at byte 0 says 542393671, more than the 8388608"), "{message}");
    let (_, end) = whole(&vec![b'x'; 9 << 20], Framing::Lines);
    assert!(end.unwrap_err().message.contains("the line at byte"), "a line of 9 MiB");
    for (size, words) in [(0, "0 bytes would never end"), (9 << 20, "9437184 bytes are larger than the 8388608")] {
        let framing = Framing::Chunks(Bytes(size));
        let made = StreamSource::new(Box::new(std::io::empty()), "x", framing, Bytes::mib(8), ManualClock::new());
        assert!(made.err().unwrap().message.contains(words));
    }
}

#[test]
fn a_failing_input_is_named_with_the_place() {
    let clock = ManualClock::new();
    let pieces = [Piece::Bytes(b"abcd".to_vec()), Piece::Fail(ErrorKind::PermissionDenied)];
    let input = Box::new(Stutter { pieces: pieces.into(), clock: clock.clone() });
    let (sink, end) = record(input, Framing::Chunks(Bytes(3)), &clock, |_| {});
    assert_eq!(sink.elements().len(), 1);
    assert!(end.unwrap_err().message.starts_with("stdin: reading failed at byte 4: "));
}

#[test]
fn a_stop_records_what_was_taken_out_of_the_pipe() {
    for (framing, bytes, count, left) in [
        (Framing::Chunks(Bytes(3)), b"aaabbbcccd".to_vec(), 4, 1),
        (Framing::Lines, b"aaa\nbbb\nccc\nd".to_vec(), 3, 3),
        (Framing::PrefixedLittle, b"\x01\0\0\0a\x01\0\0\0b\x01\0\0\0c\x05\0\0\0d".to_vec(), 3, 1),
    ] {
        let clock = ManualClock::new();
        let mut pieces = vec![Piece::Bytes(bytes)];
        pieces.extend((0..100).map(|_| Piece::Silence(Duration::from_millis(10))));
        pieces.push(Piece::Bytes(b"never".to_vec()));
        let input = Box::new(Stutter { pieces: pieces.into(), clock: clock.clone() });
        let (sink, summary) = record(input, framing, &clock, |sink| sink.enough = 1);
        let summary = summary.unwrap();
        assert_eq!((summary.elements, summary.stopped), (count, true), "{framing}");
        assert_eq!(sink.elements().last().unwrap().len(), left, "{framing}");
    }
}

/// An input whose every read takes longer than is between two ticks.
struct Slow(Cursor<Vec<u8>>, Arc<ManualClock>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1.advance(Duration::from_millis(30));
        self.0.read(buffer)
    }
}

#[test]
fn a_long_line_of_which_the_rest_is_still_to_come_at_a_stop_is_none() {
    let clock = ManualClock::new();
    let input = Box::new(Slow(Cursor::new(vec![b'x'; 4 * WHOLE]), clock.clone()));
    let (sink, summary) = record(input, Framing::Lines, &clock, |sink| sink.enough = 0);
    let summary = summary.unwrap();
    assert_eq!((summary.elements, summary.stopped, sink.elements().len()), (0, true, 0));
    assert!(sink.open.is_some_and(|(_, bytes)| bytes.len() > WHOLE), "whoever records knows that it was begun");
}

#[test]
fn the_sink_ticks_while_nothing_comes_and_while_elements_do() {
    let clock = ManualClock::new();
    let silence = (0..200).map(|_| Piece::Silence(Duration::from_millis(20)));
    let input = Box::new(Stutter { pieces: silence.collect(), clock: clock.clone() });
    let (sink, _) = record(input, Framing::Lines, &clock, |_| {});
    assert!(sink.ticks >= 100 && sink.longest <= Duration::from_millis(50), "{} {:?}", sink.ticks, sink.longest);
    // An input that does not wait by itself is not asked without end: the clock moves by our own pauses.
    let clock = ManualClock::new();
    let silence = (0..200).map(|_| Piece::Silence(Duration::ZERO));
    let input = Box::new(Stutter { pieces: silence.collect(), clock: clock.clone() });
    record(input, Framing::Lines, &clock, |_| {}).1.unwrap();
    assert!(crate::source::ClockDoor::wall(&*clock).since(EPOCH) >= Duration::from_millis(150));
}
