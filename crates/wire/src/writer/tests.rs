use super::*;
use crate::frame::{MAX_BODY, MAX_PAYLOAD};
use forebay_model::Kind;
use std::io;

/// A stream that remembers where the bytes it was given lay.
#[derive(Default)]
struct Witness {
    calls: Vec<Vec<(usize, usize)>>,
}

impl Write for Witness {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls.push(slices.iter().map(|slice| (slice.as_ptr() as usize, slice.len())).collect());
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_payload_goes_out_from_where_it_lies_in_one_call() {
    let (one, two) = (vec![1u8; 100_000], vec![2u8; 5]);
    let mut writer = FrameWriter::new(Witness::default());
    writer.send(RequestId(1), Command(20), Flags::NONE, &(), &[&one, &two]).expect("it fits");
    let calls = writer.into_inner().calls;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].len(), 3);
    assert_eq!(calls[0][0].1, HEADER);
    assert_eq!(calls[0][1..], [(one.as_ptr() as usize, one.len()), (two.as_ptr() as usize, two.len())]);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_of_it_is_sent() {
    let mut writer = FrameWriter::new(Vec::new());
    let body = vec![0u8; MAX_BODY as usize];
    let error = writer.send(RequestId(1), Command(20), Flags::NONE, &body, &[]).expect_err("too long with its length");
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains(&(MAX_BODY + 3).to_string()), "{error}");
    let half = vec![0u8; MAX_PAYLOAD as usize / 2 + 1];
    let error = writer.send(RequestId(1), Command(20), Flags::NONE, &(), &[&half, &half]).expect_err("too long");
    assert_eq!(error.kind, Kind::Usage);
    writer.send(RequestId(1), Command(20), Flags::NONE, &(), &[]).expect("the writer is as good as before");
    assert_eq!(writer.into_inner().len(), HEADER);
}

#[test]
fn a_stream_that_failed_once_is_not_written_again() {
    struct Broken {
        calls: usize,
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls == 1 { Ok(10) } else { Err(ErrorKind::BrokenPipe.into()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer = FrameWriter::new(Broken { calls: 0 });
    let error = writer.send(RequestId(4), Command(20), Flags::NONE, &(), &[]).expect_err("the pipe is broken");
    assert_eq!(error.kind, Kind::Disconnected);
    assert!(error.message.contains("request 4"), "{error}");
    assert_eq!(writer.send(RequestId(5), Command(20), Flags::NONE, &(), &[]), Err(error));
    assert_eq!(writer.into_inner().calls, 2);
}
