//! What a client asks of its device: requests are taken as they come, within a window of bytes, done by the pool's
//! threads, and answered as they are done by a thread of the connection's own. A client that does not read its answers
//! is not read from either, once its window is full.

use crate::disk::{Disk, ZEROS_AT_ONCE, parts, zeros};
use crate::negotiation::BLOCK_SIZES;
use crate::pool::Jobs;
use crate::protocol::{Errno, REPLY_LEN, Request, command, command_flag, read_head, reply, skip};
use bytes::Bytes as Slice;
use forebay_env::network::Stream;
use forebay_env::real::thread;
use forebay_env::window::{Room, Window};
use forebay_model::{Error, Kind, Result};
use std::io::{self, IoSlice, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of requests without an answer, and always one request.
pub(crate) const WINDOW: usize = 32 << 20;
/// Requests without an answer.
pub(crate) const MOST_PENDING: usize = 128;
/// What a request takes beside its bytes.
const HEAD: usize = 256;

/// Serves a client that has chosen the device, until it goes away or `stopping` is set and its reading end is closed;
/// then until everything that it asked is answered.
pub(crate) fn serve(stream: &mut dyn Stream, disk: &Arc<dyn Disk>, jobs: &Jobs, stopping: &AtomicBool) -> Result<()> {
    let window = Window::new(MOST_PENDING, WINDOW);
    let answering = {
        let (window, stream) = (window.clone(), stream.try_clone()?);
        thread::spawn("nbd-answer", move || send_answers(&window, stream))?
    };
    // What ended it does not matter: the client is gone, or is not one.
    let _ = take_requests(stream, disk, jobs, &window, stopping);
    window.close();
    // A thread that panicked has said so.
    let _ = answering.join();
    Ok(())
}

fn take_requests(
    stream: &mut dyn Stream,
    disk: &Arc<dyn Disk>,
    jobs: &Jobs,
    window: &Arc<Window<Reply>>,
    stopping: &AtomicBool,
) -> io::Result<()> {
    let mut stream = io::BufReader::with_capacity(64 << 10, stream);
    while let Some(head) = read_head(&mut stream)? {
        let Some(request) = Request::decode(&head) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request where one should be"));
        };
        if request.command == command::DISCONNECT {
            return Ok(());
        }
        let carries = request.command == command::WRITE;
        let refused = match check(&request, &**disk) {
            _ if stopping.load(Ordering::SeqCst) => Some(Errno::Shutdown),
            Ok(()) => None,
            Err(errno) => Some(errno),
        };
        if let Some(errno) = refused {
            let room = window.make_room(HEAD);
            if carries {
                skip(&mut stream, u64::from(request.length))?;
            }
            room.fill(Reply::refusing(request.cookie, errno));
            continue;
        }
        let room = window.make_room(weight(&request));
        let mut payload = vec![0; if carries { request.length as usize } else { 0 }];
        // Half a request does nothing.
        stream.read_exact(&mut payload)?;
        let answer = Answer { room: Some(room), cookie: request.cookie };
        let disk = disk.clone();
        jobs.push(Box::new(move || answer.send(done(&*disk, &request, payload))));
    }
    Ok(())
}

/// Whether a request can be done at all.
fn check(request: &Request, disk: &dyn Disk) -> std::result::Result<(), Errno> {
    let known = match request.command {
        command::READ | command::WRITE | command::FLUSH => command_flag::FUA,
        command::TRIM if disk.trims() => command_flag::FUA,
        command::WRITE_ZEROES => command_flag::FUA | command_flag::NO_HOLE,
        _ => return Err(Errno::Invalid),
    };
    if request.flags & !known != 0 {
        return Err(Errno::Invalid);
    }
    if request.command == command::FLUSH {
        return if request.offset == 0 && request.length == 0 { Ok(()) } else { Err(Errno::Invalid) };
    }
    let moves = matches!(request.command, command::READ | command::WRITE);
    if moves && request.length > BLOCK_SIZES[2] {
        return Err(Errno::Invalid);
    }
    match request.offset.checked_add(u64::from(request.length)) {
        Some(end) if end <= disk.size() => Ok(()),
        _ if matches!(request.command, command::WRITE | command::WRITE_ZEROES) => Err(Errno::NoSpace),
        _ => Err(Errno::Invalid),
    }
}

/// Memory that a request takes until it is answered.
fn weight(request: &Request) -> usize {
    HEAD + match request.command {
        command::READ | command::WRITE => request.length as usize,
        command::WRITE_ZEROES if request.flags & command_flag::NO_HOLE != 0 => ZEROS_AT_ONCE,
        _ => 0,
    }
}

/// What is sent to the client: a head, and behind it the bytes that were read, in the parts in which they came.
struct Reply {
    head: [u8; REPLY_LEN],
    parts: Vec<Slice>,
}

impl Reply {
    fn refusing(cookie: u64, errno: Errno) -> Reply {
        Reply { head: reply(cookie, Some(errno)), parts: Vec::new() }
    }

    fn send(&self, stream: &mut dyn Stream) -> io::Result<()> {
        let pieces = std::iter::once(&self.head[..]).chain(self.parts.iter().map(|part| &part[..]));
        let mut pieces: Vec<IoSlice<'_>> = pieces.map(IoSlice::new).collect();
        let mut left = &mut pieces[..];
        while !left.is_empty() {
            match stream.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut left, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// An answer that will be sent, whatever happens to who does the work.
struct Answer {
    /// Until there is an answer.
    room: Option<Room<Reply>>,
    cookie: u64,
}

impl Answer {
    fn send(mut self, result: Result<Vec<Slice>>) {
        if let Some(room) = self.room.take() {
            room.fill(match result {
                Ok(parts) => Reply { head: reply(self.cookie, None), parts },
                Err(error) => Reply::refusing(self.cookie, errno(&error)),
            });
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            room.fill(Reply::refusing(self.cookie, Errno::Io));
        }
    }
}

/// Does what is asked; the bytes that were read.
fn done(disk: &dyn Disk, request: &Request, payload: Vec<u8>) -> Result<Vec<Slice>> {
    let (offset, length) = (request.offset, u64::from(request.length));
    match request.command {
        command::READ => return disk.read(offset, request.length as usize),
        // Durable when it returns: there is nothing to do for FUA.
        command::WRITE => disk.write(offset, payload.into())?,
        command::FLUSH => disk.flush()?,
        _ if length == 0 => {}
        command::WRITE_ZEROES if request.flags & command_flag::NO_HOLE != 0 => {
            for (at, length) in parts(offset, length, disk.unit()) {
                disk.write(at, zeros(length))?;
            }
        }
        _ => disk.punch(offset, length)?,
    }
    Ok(Vec::new())
}

/// The number of an error for a client.
fn errno(error: &Error) -> Errno {
    match error.kind {
        Kind::Usage => Errno::Invalid,
        Kind::Full | Kind::Refused => Errno::NoSpace,
        _ => Errno::Io,
    }
}

/// Sends answers as they come, until nothing more is asked and everything is answered.
fn send_answers(window: &Arc<Window<Reply>>, mut stream: Box<dyn Stream>) {
    let mut gone = false;
    while let Some((reply, room)) = window.take() {
        if !gone && reply.send(&mut *stream).is_err() {
            // Nobody is there any more: who reads requests notices as well.
            gone = true;
            stream.shutdown();
        }
        // The memory first, and then the room for it.
        drop((reply, room));
    }
}
