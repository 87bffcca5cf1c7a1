//! Frames to a blocking stream.
//!
//! Header, body and payload go out in one vectored write; the payload is never copied. After an error of the stream
//! the writer returns that error for ever: half a frame may be on its way, so the connection is over.

use crate::checksum::crc32c;
use crate::frame::{Command, Flags, HEADER, Head, Limits, NO_LIMIT, RequestId};
use forebay_model::sums::Sum;
use forebay_model::{Error, Result};
use serde::Serialize;
use std::io::{ErrorKind, IoSlice, Write};

/// Pieces handed to the kernel at once.
const PIECES: usize = 16;

/// Writes frames.
pub struct FrameWriter<W> {
    stream: W,
    /// Header and body of the frame that is being sent; kept for its memory.
    front: Vec<u8>,
    failed: Option<Error>,
}

impl<W: Write> FrameWriter<W> {
    /// Writes to `stream`.
    pub fn new(stream: W) -> FrameWriter<W> {
        FrameWriter { stream, front: Vec::new(), failed: None }
    }

    /// Sends one frame: `body` in postcard, and the pieces of `payload` one after another.
    ///
    /// What is too large for a frame is refused with [`forebay_model::Kind::Usage`] before a byte of it is sent.
    pub fn send<B: Serialize + ?Sized>(
        &mut self,
        request: RequestId,
        command: Command,
        flags: Flags,
        body: &B,
        payload: &[&[u8]],
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.front.clear();
        self.front.resize(HEADER, 0);
        let front = postcard::to_extend(body, std::mem::take(&mut self.front))
            .map_err(|e| Error::usage(format!("the body of {command} cannot be written: {e}")))?;
        self.front = front;
        self.send_front(request, command, flags, payload)
    }

    /// As [`FrameWriter::send`], of a body that is in postcard already.
    pub(crate) fn send_body(
        &mut self,
        request: RequestId,
        command: Command,
        flags: Flags,
        body: &[u8],
        payload: &[&[u8]],
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.front.clear();
        self.front.resize(HEADER, 0);
        self.front.extend_from_slice(body);
        self.send_front(request, command, flags, payload)
    }

    /// Sends what is in `front` behind the place of the header.
    fn send_front(&mut self, request: RequestId, command: Command, flags: Flags, payload: &[&[u8]]) -> Result<()> {
        let mut sum = Sum::default();
        payload.iter().for_each(|piece| sum.update(piece));
        let whole = (payload.iter().map(|piece| piece.len()).sum(), sum.finish());
        let head = head_of(request, command, flags, NO_LIMIT, &self.front[HEADER..], whole)?;
        self.front[..HEADER].copy_from_slice(&head.encode());
        let sent = write_all(&mut self.stream, &self.front, payload).and_then(|()| self.stream.flush());
        sent.map_err(|e| {
            let error = Error::disconnected(format!(
                "the connection ended while a frame of {request} was sent: {e}; connect again and ask"
            ));
            self.failed = Some(error.clone());
            error
        })
    }

    /// Answers a request with an error, which is the end of it.
    pub fn send_error(&mut self, request: RequestId, command: Command, error: &Error) -> Result<()> {
        self.send(request, command, Flags::RESPONSE.and(Flags::ERROR).and(Flags::END), error, &[])
    }

    /// The stream behind it.
    pub fn into_inner(self) -> W {
        self.stream
    }
}

/// The header of a frame with this body and a payload of this length and checksum. [`forebay_model::Kind::Usage`] if they do
/// not fit.
pub(crate) fn head_of(
    request: RequestId,
    command: Command,
    flags: Flags,
    credit: u32,
    body: &[u8],
    (length, sum): (usize, u32),
) -> Result<Head> {
    Ok(Head {
        request,
        command,
        flags,
        credit,
        body: fits("body", command, body.len(), Limits::SESSION.body)?,
        payload: fits("payload", command, length, Limits::SESSION.payload)?,
        body_checksum: crc32c(body),
        payload_checksum: sum,
    })
}

fn fits(part: &str, command: Command, length: usize, most: u32) -> Result<u32> {
    u32::try_from(length).ok().filter(|length| *length <= most).ok_or_else(|| {
        Error::usage(format!(
            "the {part} of {command} takes {length} bytes and a frame holds {most}: send it in pieces"
        ))
    })
}

/// Writes `front` and then `payload`, in as few calls as the stream allows.
fn write_all(stream: &mut impl Write, front: &[u8], payload: &[&[u8]]) -> std::io::Result<()> {
    let piece = |index: usize| if index == 0 { front } else { payload[index - 1] };
    let count = payload.len() + 1;
    // The first piece that is not wholly sent, and how much of it is.
    let (mut next, mut within) = (0, 0);
    loop {
        while next < count && within == piece(next).len() {
            (next, within) = (next + 1, 0);
        }
        if next == count {
            return Ok(());
        }
        let mut slices = [IoSlice::new(&[]); PIECES];
        let batch = (count - next).min(PIECES);
        slices[0] = IoSlice::new(&piece(next)[within..]);
        for (slice, index) in slices[1..batch].iter_mut().zip(next + 1..) {
            *slice = IoSlice::new(piece(index));
        }
        let mut sent = match stream.write_vectored(&slices[..batch]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => sent,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        while sent > 0 {
            let part = sent.min(piece(next).len() - within);
            (sent, within) = (sent - part, within + part);
            if within == piece(next).len() {
                (next, within) = (next + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
