//! A connection that is not waited for in silence: whoever serves it may be stopped, or hang.
//!
//! Silence is looked at four times a second. After a while it is told of, once, with who is silent, since when and what
//! helps. What becomes of the wait depends on what is waited for ([`Wait`]).

use forebay_env::network::Stream;
use forebay_env::real::{clock, process};
use forebay_model::{Error, Moment, Result, Timestamp};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often silence is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long the end of a query that was cancelled is waited for.
const CANCELLED: Duration = Duration::from_secs(1);

/// How much silence of the process that serves a cluster is borne.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After so much silence somebody is told.
    pub notice: Duration,
    /// After so much silence whoever waits for an answer gives up.
    pub limit: Duration,
    /// Who is told, in a sentence.
    pub tell: fn(&str),
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { notice: Duration::from_secs(3), limit: Duration::from_secs(30), tell: |_| () }
    }
}

/// Finds whether the other side is there; looks at the flag, whether nobody waits any more.
pub(super) type IsThere = Box<dyn Fn(&Arc<AtomicBool>) -> Result<()> + Send + Sync>;

/// What is waited for, and so what silence means.
pub(super) enum Wait {
    /// An answer that should come soon (or within this time more): given up beyond the limit.
    Answer(Duration),
    /// What may take as long as it likes, as long as this finds that the other side is there.
    Anything(IsThere),
    /// Something that comes all the time: this is told how long it did not. Never given up here.
    Beats(Box<dyn Fn(Duration) + Send + Sync>),
}

/// Keeps watch over a connection.
pub(super) struct Vigil {
    patience: Patience,
    peer: Option<u32>,
    wait: Mutex<Wait>,
    cancelled: Arc<AtomicBool>,
    failure: Mutex<Option<Error>>,
}

impl Vigil {
    /// A vigil over `stream`, which is to answer soon; `cancelled` says when nobody waits any more.
    pub(super) fn over(stream: &dyn Stream, patience: Patience, cancelled: Arc<AtomicBool>) -> Arc<Vigil> {
        Arc::new(Vigil {
            patience,
            peer: stream.peer_process(),
            wait: Mutex::new(Wait::Answer(Duration::ZERO)),
            cancelled,
            failure: Mutex::default(),
        })
    }

    fn failing(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is waited for from now on.
    pub(super) fn expect(&self, wait: Wait) {
        *self.wait.lock().unwrap_or_else(PoisonError::into_inner) = wait;
    }

    /// Nobody waits any more, but for a moment.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Whether a wait was given up: the connection is of no more use.
    pub(super) fn gave_up(&self) -> bool {
        self.failing().is_some()
    }

    /// Why the connection ended: not `error`, if a wait was given up.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.failing().clone().unwrap_or(error)
    }

    /// Why a wait of `silent` is given up.
    pub(super) fn too_long(&self, silent: Duration) -> Error {
        Error::busy(format!("{}; the wait for it is over", silence(self.peer, silent)))
    }

    /// What silence of `silent` means: an error gives the wait up.
    fn bear(&self, silent: Duration, state: &mut State) -> io::Result<()> {
        let now = clock::now();
        if self.cancelled.load(Ordering::SeqCst) && now.since(*state.cancelled.get_or_insert(now)) >= CANCELLED {
            return Err(ErrorKind::TimedOut.into());
        }
        let wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        if let Wait::Anything(is_there) = &*wait {
            if silent < state.probed + self.patience.notice {
                return Ok(());
            }
            state.probed = silent;
            return is_there(&self.cancelled).map_err(|error| {
                self.failing().get_or_insert(error);
                ErrorKind::TimedOut.into()
            });
        }
        if silent >= self.patience.notice && !state.told {
            state.told = true;
            (self.patience.tell)(&silence(self.peer, silent));
        }
        match &*wait {
            Wait::Answer(more) if silent >= self.patience.limit + *more => {
                self.failing().get_or_insert(self.too_long(silent));
                Err(ErrorKind::TimedOut.into())
            }
            Wait::Beats(silent_for) => {
                silent_for(silent);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn heard(&self) {
        if let Wait::Beats(silent_for) = &*self.wait.lock().unwrap_or_else(PoisonError::into_inner) {
            silent_for(Duration::ZERO);
        }
    }
}

/// What is known in one wait.
#[derive(Default)]
struct State {
    told: bool,
    probed: Duration,
    cancelled: Option<Moment>,
}

/// The sentence about who is silent, since when, and what helps.
fn silence(peer: Option<u32>, silent: Duration) -> String {
    let since = clock::wall().before(silent).0.div_euclid(1_000_000_000) * 1_000_000_000;
    let for_so_long = format!("has not answered for {} s (since {})", silent.as_secs(), Timestamp(since));
    match peer {
        Some(pid) if process::is_stopped(pid) => format!(
            "process {pid}, which serves the cluster, is stopped and {for_so_long}: `kill -CONT {pid}` lets it go on; \
             after `kill -KILL {pid}` another takes over"
        ),
        Some(pid) => format!(
            "process {pid}, which serves the cluster, {for_so_long}: wait, or end it with `kill {pid}`, and another takes over"
        ),
        None => format!("the process that serves the cluster {for_so_long}: wait, or end it, and another takes over"),
    }
}

/// A stream whose reads are watched over.
pub(super) struct Patient {
    stream: Box<dyn Stream>,
    vigil: Arc<Vigil>,
}

impl Patient {
    pub(super) fn new(stream: Box<dyn Stream>, vigil: Arc<Vigil>) -> Patient {
        Patient { stream, vigil }
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = clock::now();
        let mut state = State::default();
        let mut silent = false;
        while !self.stream.wait_readable(LOOK)? {
            silent = true;
            self.vigil.bear(clock::now().since(start), &mut state)?;
        }
        if silent {
            self.vigil.heard();
        }
        self.stream.read(buffer)
    }
}

impl Write for Patient {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Stream for Patient {
    fn try_clone(&self) -> Result<Box<dyn Stream>> {
        Ok(Box::new(Patient { stream: self.stream.try_clone()?, vigil: self.vigil.clone() }))
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }

    fn end_reading(&self) {
        self.stream.end_reading();
    }

    fn wait_readable(&self, limit: Duration) -> io::Result<bool> {
        self.stream.wait_readable(limit)
    }

    fn peer_process(&self) -> Option<u32> {
        self.stream.peer_process()
    }
}
