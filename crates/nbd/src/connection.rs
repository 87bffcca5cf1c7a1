//! What a client asks of its device: requests are taken as they come, within a window of bytes, done by the pool's
//! threads, and answered as they are done by a thread of the connection's own. A client that does not read its answers
//! is not read from either, once its window is full.

use crate::disk::Disk;
use crate::negotiation::BLOCK_SIZES;
use crate::pool::Jobs;
use crate::protocol::{Errno, REPLY_LEN, Request, command, command_flag, read_head, reply, skip};
use forebay_env::network::Stream;
use forebay_env::real::thread;
use forebay_model::{Error, Kind, Result};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of requests without an answer, and always one request.
pub(crate) const WINDOW: usize = 32 << 20;
/// Requests without an answer.
pub(crate) const MOST_PENDING: usize = 128;
/// What a request takes beside its bytes.
const HEAD: usize = 256;
/// Zeros that are written at once, where a hole will not do.
const ZEROS_AT_ONCE: usize = 4 << 20;

/// Requests under way and answers that wait to be sent.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    answers: VecDeque<(Vec<u8>, usize)>,
    count: usize,
    bytes: usize,
    /// Nothing more is asked.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the window has room, before memory is taken.
    fn make_room(&self, weight: usize) {
        let mut state = self.lock();
        while state.count >= MOST_PENDING || state.count > 0 && state.bytes + weight > WINDOW {
            state = self.wait(state);
        }
        state.count += 1;
        state.bytes += weight;
    }

    fn answer(&self, bytes: Vec<u8>, weight: usize) {
        self.lock().answers.push_back((bytes, weight));
        self.changed.notify_all();
    }
}

/// Serves a client that has chosen the device, until it goes away or `stopping` is set and its reading end is closed;
/// then until everything that it asked is answered.
pub(crate) fn serve(stream: &mut dyn Stream, disk: &Arc<dyn Disk>, jobs: &Jobs, stopping: &AtomicBool) -> Result<()> {
    let shared = Arc::new(Shared::default());
    let answering = {
        let (shared, stream) = (shared.clone(), stream.try_clone()?);
        thread::spawn("nbd-answer", move || send_answers(&shared, stream))?
    };
    // What ended it does not matter: the client is gone, or is not one.
    let _ = take_requests(stream, disk, jobs, &shared, stopping);
    shared.lock().closed = true;
    shared.changed.notify_all();
    // A thread that panicked has said so.
    let _ = answering.join();
    Ok(())
}

fn take_requests(
    stream: &mut dyn Stream,
    disk: &Arc<dyn Disk>,
    jobs: &Jobs,
    shared: &Arc<Shared>,
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
        let refused = match check(&request, disk.size()) {
            _ if stopping.load(Ordering::SeqCst) => Some(Errno::Shutdown),
            Ok(()) => None,
            Err(errno) => Some(errno),
        };
        if let Some(errno) = refused {
            shared.make_room(HEAD);
            if carries {
                skip(&mut stream, u64::from(request.length))?;
            }
            shared.answer(reply(request.cookie, Some(errno)).to_vec(), HEAD);
            continue;
        }
        let weight = weight(&request);
        shared.make_room(weight);
        let mut payload = vec![0; if carries { request.length as usize } else { 0 }];
        if let Err(error) = stream.read_exact(&mut payload) {
            // Half a request does nothing, and holds nothing.
            shared.answer(Vec::new(), weight);
            return Err(error);
        }
        let answer = Answer { shared: shared.clone(), cookie: request.cookie, weight, sent: false };
        let disk = disk.clone();
        jobs.push(Box::new(move || answer.send(done(&*disk, &request, &payload))));
    }
    Ok(())
}

/// Whether a request can be done at all.
fn check(request: &Request, size: u64) -> std::result::Result<(), Errno> {
    let known = match request.command {
        command::READ | command::WRITE | command::FLUSH | command::TRIM => command_flag::FUA,
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
        Some(end) if end <= size => Ok(()),
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

/// An answer that will be sent, whatever happens to who does the work.
struct Answer {
    shared: Arc<Shared>,
    cookie: u64,
    weight: usize,
    sent: bool,
}

impl Answer {
    fn send(mut self, result: Result<Vec<u8>>) {
        self.sent = true;
        let bytes = result.unwrap_or_else(|error| reply(self.cookie, Some(errno(&error))).to_vec());
        self.shared.answer(bytes, self.weight);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.sent {
            self.shared.answer(reply(self.cookie, Some(Errno::Io)).to_vec(), self.weight);
        }
    }
}

/// Does what is asked; the whole answer.
fn done(disk: &dyn Disk, request: &Request, payload: &[u8]) -> Result<Vec<u8>> {
    let (offset, length) = (request.offset, u64::from(request.length));
    let mut answer = reply(request.cookie, None).to_vec();
    match request.command {
        command::READ => {
            answer.resize(REPLY_LEN + request.length as usize, 0);
            disk.read(offset, &mut answer[REPLY_LEN..])?;
        }
        // Durable when it returns: there is nothing to do for FUA.
        command::WRITE => disk.write(offset, payload)?,
        command::FLUSH => disk.flush()?,
        _ if length == 0 => {}
        command::WRITE_ZEROES if request.flags & command_flag::NO_HOLE != 0 => {
            let zeros = vec![0; ZEROS_AT_ONCE.min(length as usize)];
            let mut at = offset;
            while at < offset + length {
                let part = (offset + length - at).min(zeros.len() as u64);
                disk.write(at, &zeros[..part as usize])?;
                at += part;
            }
        }
        _ => disk.punch(offset, length)?,
    }
    Ok(answer)
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
fn send_answers(shared: &Shared, mut stream: Box<dyn Stream>) {
    let mut gone = false;
    let mut state = shared.lock();
    loop {
        let Some((bytes, weight)) = state.answers.pop_front() else {
            if state.closed && state.count == 0 {
                return;
            }
            state = shared.wait(state);
            continue;
        };
        drop(state);
        if !gone && io::Write::write_all(&mut stream, &bytes).is_err() {
            // Nobody is there any more: who reads requests notices as well.
            gone = true;
            stream.shutdown();
        }
        drop(bytes);
        state = shared.lock();
        state.count -= 1;
        state.bytes -= weight;
        shared.changed.notify_all();
    }
}
