//! A process's part in a directory: owner of the targets, or guest of the owner. A guest whose owner went away becomes
//! the owner, or the guest of who did.

use crate::format;
use crate::identity::{self, Identities};
use crate::local::LocalPeer;
use crate::settings::{self, Settings};
use crate::{Options, Within};
use forebay_client::again::again;
use forebay_client::peer::{AnswerLink, HeapLink, ObjectLink, Peer, WriterLink};
use forebay_client::{Cluster, Patience, Remote};
use forebay_env::Network;
use forebay_env::real::file::{self, Lock};
use forebay_env::real::{self, OpenMode, Opened, UnixNetwork, clock, random};
use forebay_model::{Error, Kind, Moment, Result, TargetId, Timestamp};
use forebay_node::{Host, Server};
use forebay_wire::command::{AddTarget, QueryRequest, Reply, Request};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first and the longest pause before another look at who owns the targets.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// This process in the directory.
pub(crate) struct Member {
    dir: PathBuf,
    options: Options,
    place: Mutex<Place>,
}

struct Place {
    part: Option<Part>,
    /// Counts the parts, so that a loss is noticed once.
    number: u64,
    closed: bool,
}

/// What this process is: a guest, unless it has the owner's things.
#[derive(Clone)]
struct Part {
    peer: Arc<dyn Peer>,
    owner: Option<Arc<Owner>>,
}

/// The targets, open in this process and served to others.
struct Owner {
    socket: PathBuf,
    host: Arc<Host>,
    server: Server,
    /// Given up last, the lock after the names.
    held: Mutex<Option<(Identities, Lock)>>,
}

impl Owner {
    /// A device is in use until the last I/O of an owner that was killed has ended: that is waited for while `goes_on` wishes, with
    /// the lock, so that all others wait for this process.
    fn start(
        dir: &Path,
        settings: &Settings,
        lock: Lock,
        within: Within,
        goes_on: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Owner> {
        let open = |target: &PathBuf| real::open_waiting(dir.join(target), OpenMode::Exclusive, &mut *goes_on);
        let devices = settings.targets.iter().map(open).collect::<Result<Vec<_>>>()?;
        let identities = identity::claim(settings, &devices)?;
        let host = Arc::new(Host::start_within(devices, within.memory)?);
        host.let_add(Box::new(adding(dir)));
        let socket = settings::socket(dir);
        let server = text(&socket)
            .and_then(|address| UnixNetwork.listen(&address))
            .and_then(|listener| Server::start_with(host.clone(), listener, within.connections))
            .inspect_err(|_| {
                // What matters is why nobody else can be served.
                let _ = host.close();
            })?;
        Ok(Owner { socket, host, server, held: Mutex::new(Some((identities, lock))) })
    }

    /// Everything is durable, then free for the next.
    fn close(&self) -> Result<()> {
        let Some(held) = self.held.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        self.server.stop_accepting();
        let closed = self.host.close();
        self.server.close();
        let removed = file::remove(&self.socket).map(|_| ());
        drop(held);
        closed.and(removed)
    }
}

/// How targets are added to a directory: formatted, claimed, opened, and then named in `cluster.toml`, so that it is known to
/// whoever opens the directory next before anything is on it.
fn adding(
    dir: &Path,
) -> impl FnMut(&AddTarget, &dyn Fn(Opened) -> Result<TargetId>) -> Result<TargetId> + Send + use<> {
    let (dir, mut claimed) = (dir.to_path_buf(), Vec::new());
    move |asked, open| {
        let mut settings = Settings::read(&dir)?;
        let made = format::another(&dir, asked, &settings)?;
        let device = real::open(dir.join(&made.device), OpenMode::Exclusive)?;
        let own = Settings { targets: vec![made.device.clone()], ids: vec![made.target] };
        let claim = identity::claim(&own, std::slice::from_ref(&device))?;
        let id = open(device)?;
        if settings.ids.len() == settings.targets.len() {
            settings.ids.push(id);
        }
        settings.targets.push(made.device);
        settings.write(&dir)?;
        claimed.push(claim);
        Ok(id)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Who wants to know closes.
        let _ = self.close();
    }
}

/// The targets of a directory, open in this process for as long as it lives: of whoever serves them to others in more ways
/// than one.
pub struct Owned {
    owner: Arc<Owner>,
}

/// Opens the targets in `dir`. [`Kind::Busy`] if another process has them, or I/O of one that was killed does not end.
pub fn own(dir: &Path) -> Result<Owned> {
    own_within(dir, Within::default())
}

/// The same, taking no more on than that.
pub fn own_within(dir: &Path, within: Within) -> Result<Owned> {
    // What a killed owner had asked of its devices may go on as long as a guest waits by itself.
    let give_up = clock::now() + Patience::default().limit;
    own_while(dir, within, &mut |_| clock::now() < give_up)
}

/// The same, which waits for devices that are in use while `goes_on` wishes.
pub(crate) fn own_while(dir: &Path, within: Within, goes_on: &mut dyn FnMut(&Error) -> bool) -> Result<Owned> {
    let settings = Settings::read(dir)?;
    let dir = file::absolute(dir)?;
    let Some(lock) = settings::try_own(&dir)? else {
        return Err(Error::busy(format!("a process has the cluster in {} open; end it first", dir.display())));
    };
    Ok(Owned { owner: Arc::new(Owner::start(&dir, &settings, lock, within, goes_on)?) })
}

impl Owned {
    /// The targets.
    pub fn host(&self) -> &Host {
        &self.owner.host
    }

    /// A way to them in this process.
    pub fn cluster(&self) -> Cluster {
        Cluster::over(Arc::new(LocalPeer(self.owner.host.clone())))
    }

    /// Everything is durable, then free for the next.
    pub fn close(&self) -> Result<()> {
        self.owner.close()
    }
}

impl Member {
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Member> {
        Settings::read(dir)?;
        let place = Mutex::new(Place { part: None, number: 0, closed: false });
        let member = Member { dir: file::absolute(dir)?, options, place };
        member.part()?;
        Ok(member)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process is now, and its number; it is made something if it is nothing.
    fn part(&self) -> Result<(Part, u64)> {
        let mut place = self.place();
        if place.closed {
            return Err(Error::disconnected(format!("the cluster in {} was closed", self.dir.display())));
        }
        let part = match &place.part {
            Some(part) => part.clone(),
            None => {
                let part = self.find_part()?;
                place.part = Some(part.clone());
                place.number += 1;
                part
            }
        };
        Ok((part, place.number))
    }

    /// The part with this number has lost its owner.
    fn lost(&self, number: u64) {
        let mut place = self.place();
        if place.number == number {
            place.part = None;
        }
    }

    fn find_part(&self) -> Result<Part> {
        let address = text(&settings::socket(&self.dir))?;
        let patience = self.options.patience;
        let (mut notice, give_up) = (Some(clock::now() + patience.notice), clock::now() + patience.limit);
        let mut pause = PAUSES.0;
        // Whether to go on waiting; once that takes long, it is told why.
        let mut goes_on = |why: &str| {
            let now = clock::now();
            if now < give_up && notice.take_if(|due| now >= *due).is_some() {
                (patience.tell)(why);
            }
            now < give_up
        };
        loop {
            if let Some(lock) = settings::try_own(&self.dir)? {
                // Targets may have been added since this process opened it.
                let settings = Settings::read(&self.dir)?;
                let held = &mut |held: &Error| goes_on(&held.message);
                let owner = Arc::new(Owner::start(&self.dir, &settings, lock, Within::default(), held)?);
                return Ok(Part { peer: Arc::new(LocalPeer(owner.host.clone())), owner: Some(owner) });
            }
            match Remote::connect_with(Arc::new(UnixNetwork), &address, patience) {
                Ok(remote) => return Ok(Part { peer: Arc::new(remote), owner: None }),
                // It is just beginning, or ending.
                Err(error) if matches!(error.kind, Kind::Missing | Kind::Disconnected) => {
                    let why = format!(
                        "a process has the cluster in {} and does not answer yet, or no more; wait, or end it",
                        self.dir.display()
                    );
                    if !goes_on(&why) {
                        return Err(Error::busy(format!(
                            "a process has the cluster in {} and has not answered for {:?} ({error}); end it or wait",
                            self.dir.display(),
                            patience.limit
                        )));
                    }
                }
                Err(error) => return Err(error),
            }
            clock::pause(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Does `action` with what this process is now; once more with what it is then if the owner went away meanwhile.
    /// The action is told whether it was tried before.
    fn with<T>(&self, action: impl Fn(&dyn Peer, bool) -> Result<T>) -> Result<T> {
        let give_up = clock::now() + self.options.patience.limit;
        let mut repeated = false;
        loop {
            let (part, number) = self.part()?;
            match action(&*part.peer, repeated) {
                Err(error) if error.kind == Kind::Disconnected && part.owner.is_none() && clock::now() < give_up => {
                    self.lost(number);
                    repeated = true;
                }
                result => return result,
            }
        }
    }
}

impl Peer for Member {
    fn call(&self, request: Request) -> Result<Reply> {
        self.with(|peer, repeated| if repeated { again(peer, &request) } else { peer.call(request.clone()) })
    }

    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        self.with(|peer, _| peer.open_writer(ring, writer, resume))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        self.with(|peer, _| peer.query(request.clone()))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        self.with(|peer, _| peer.objects())
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        self.with(|peer, _| peer.heaps())
    }

    fn now(&self) -> Moment {
        clock::now()
    }

    fn wall(&self) -> Timestamp {
        clock::wall()
    }

    fn random(&self) -> u64 {
        random::number()
    }

    fn close(&self) -> Result<()> {
        let part = {
            let mut place = self.place();
            place.closed = true;
            place.part.take()
        };
        match part {
            Some(Part { owner: Some(owner), .. }) => owner.close(),
            Some(Part { peer, .. }) => peer.close(),
            None => Ok(()),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Who wants to know closes.
        let _ = self.close();
    }
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_string);
    text.ok_or_else(|| Error::usage(format!("{} is not UTF-8; give the directory another name", path.display())))
}
