//! Targets on their threads, and which of them has a name.

use crate::answer::Answer;
use crate::heaps::HeapLink;
use crate::objects::ObjectLink;
use crate::service::status::TargetStatus;
use crate::service::{self, Fenced, LinkId, Order, QueryId, SessionId};
use crate::writer::Writer;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::{Inlet, Outlet, pipe};
use forebay_env::real::{self, Opened, process, thread};
use forebay_model::heap::HeapSettings;
use forebay_model::ring::RingSpec;
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_target::Target;
use forebay_target::object::Memory;
use forebay_wire::command::{AddTarget, Info, OpenWriter, QueryRequest, Reply, Request};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of an answer that wait for a slow reader.
const ANSWER_AHEAD: usize = 4 << 20;

/// Targets that are open in this process. Calls block; any thread may make them.
pub struct Host {
    targets: Handles,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// Numbers for sessions and queries.
    next: AtomicU64,
    /// Held while a ring or a heap is created, so that no two targets get the same name.
    creating: Mutex<()>,
    adding: Mutex<Adding>,
    /// What each target may hold.
    memory: Memory,
}

/// How targets are added, and who hears of them. Held while one is added, and when the host ends.
#[derive(Default)]
struct Adding {
    make: Option<Make>,
    told: Vec<Box<dyn Fn(TargetId, TargetHandle) + Send>>,
}

/// Makes a target of a file or device, opens it by what it is given, and keeps that it is there; the id that it has.
pub type Make = Box<dyn FnMut(&AddTarget, &dyn Fn(Opened) -> Result<TargetId>) -> Result<TargetId> + Send>;

/// The targets of a process, also those that were added since somebody got this. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Handles(Arc<Mutex<Vec<(TargetId, TargetHandle)>>>);

impl Handles {
    /// One alone.
    pub(crate) fn one(id: TargetId, handle: TargetHandle) -> Handles {
        Handles(Arc::new(Mutex::new(vec![(id, handle)])))
    }

    /// As they are now.
    pub(crate) fn all(&self) -> Vec<(TargetId, TargetHandle)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one with this id.
    pub(crate) fn find(&self, target: TargetId) -> Result<TargetHandle> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|(id, _)| *id == target).map(|(_, handle)| handle.clone());
        found.ok_or_else(|| Error::missing(format!("there is no target {target}")))
    }

    fn push(&self, id: TargetId, handle: TargetHandle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((id, handle));
    }
}

/// A target at work.
struct Running {
    id: TargetId,
    handle: TargetHandle,
    thread: thread::JoinHandle<()>,
}

/// A way to a target's loop, for any thread.
#[derive(Clone)]
pub(crate) struct TargetHandle {
    orders: Sender<Order>,
    /// Why the target does nothing more.
    failure: Arc<Mutex<Option<Error>>>,
}

impl TargetHandle {
    /// A way to the loop that takes these orders.
    pub(crate) fn new(orders: Sender<Order>) -> TargetHandle {
        TargetHandle { orders, failure: Arc::default() }
    }

    /// From now on what is asked of an object has to be of `version`; nothing else is under way when this is answered.
    pub(crate) async fn fence(&self, object: ObjectId, version: u64) -> Result<()> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Fence { object, version, answer })?;
        outlet.receive().await.unwrap_or_else(|| Err(self.gone()))
    }

    /// Gives an order. An error if nobody will carry it out.
    pub(crate) fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).map_err(|_| self.gone())
    }

    /// Why the target does nothing more, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failing().clone()
    }

    pub(crate) fn gone(&self) -> Error {
        self.failure().unwrap_or_else(going_away)
    }

    fn failing(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an object and its companion; what is not there is gone already.
    pub(crate) async fn remove(&self, object: ObjectId) -> Result<()> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Discard { object, answer })?;
        outlet.receive().await.unwrap_or_else(|| Err(self.gone()))
    }

    /// Rings of volumes that were made anew of what their segments say, and may have been deleted, or have left.
    pub(crate) async fn made_anew(&self) -> Result<Vec<ObjectId>> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::MadeAnew(answer))?;
        outlet.receive().await.ok_or_else(|| self.gone())
    }

    /// Whether somebody who shows this may have a lock, as a task: to which version the object's fence was raised first since the
    /// target is served, if it was.
    pub(crate) async fn lock(&self, fenced: Fenced) -> Result<Option<u64>> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Lock { fenced, answer })?;
        outlet.receive().await.unwrap_or_else(|| Err(self.gone()))
    }

    /// Says of rings that were made anew whether they are to be there; durable when it is answered.
    pub(crate) async fn settle(&self, rings: BTreeMap<ObjectId, bool>) -> Result<()> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Settle { rings, answer })?;
        outlet.receive().await.unwrap_or_else(|| Err(self.gone()))
    }

    /// How the target is, as a task.
    pub(crate) async fn status(&self) -> Result<TargetStatus> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Tell(answer))?;
        outlet.receive().await.ok_or_else(|| self.gone())
    }

    /// Asks, as a task.
    pub(crate) async fn call_from_task(&self, request: Request, fenced: Option<Fenced>) -> Result<Reply> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::Ask { request, fenced, answer })?;
        outlet.receive().await.unwrap_or_else(|| Err(self.gone()))
    }

    /// Begins or resumes recording, as a task.
    pub(crate) async fn open_writer_from_task(
        &self,
        session: SessionId,
        request: OpenWriter,
        fenced: Fenced,
    ) -> Result<Writer> {
        let (answer, mut outlet) = pipe(0);
        self.order(Order::OpenWriter { session, request, fenced: Some(fenced), answer })?;
        let opening = outlet.receive().await.unwrap_or_else(|| Err(self.gone()))?;
        Ok(Writer::new(self.clone(), session, opening))
    }

    /// Begins a query, of whose answer so many bytes wait for a slow reader, and one batch at least.
    pub(crate) fn query(
        &self,
        query: QueryId,
        request: QueryRequest,
        fenced: Option<Fenced>,
        ahead: usize,
    ) -> Result<Answer> {
        let (batches, batches_out) = pipe(ahead);
        let (end, end_out) = pipe(0);
        self.order(Order::Query { query, request, fenced, batches, end })?;
        Ok(Answer::new(self.clone(), query, batches_out, end_out))
    }

    /// Gives an order and waits for its answer.
    fn ask<T: Send>(&self, order: impl FnOnce(Inlet<Result<T>>) -> Order) -> Result<T> {
        let (answer, mut outlet) = pipe(0);
        self.order(order(answer))?;
        outlet.receive_blocking().unwrap_or_else(|| Err(self.gone()))
    }

    fn call(&self, request: &Request) -> Result<Reply> {
        self.ask(|answer| Order::Ask { request: request.clone(), fenced: None, answer })
    }
}

impl Host {
    /// Opens the targets on `devices`, each on a thread of its own. All are open afterwards, or none is.
    pub fn start(devices: Vec<Opened>) -> Result<Host> {
        Host::start_within(devices, Memory::default())
    }

    /// The same, where each target may hold so much in memory.
    pub fn start_within(devices: Vec<Opened>, memory: Memory) -> Result<Host> {
        let host = Host {
            targets: Handles::default(),
            threads: Mutex::default(),
            next: AtomicU64::new(1),
            creating: Mutex::new(()),
            adding: Mutex::default(),
            memory,
        };
        let starting: Vec<_> = devices.into_iter().map(|device| start(device, memory)).collect();
        let mut failure = None;
        for started in starting {
            match started.and_then(Starting::wait) {
                Ok(running) => host.take_in(running),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            None => Ok(host),
            Some(error) => {
                // What matters is why one could not be opened; the others were not used.
                let _ = host.close();
                Err(error)
            }
        }
    }

    /// The ids of the targets, in their order.
    pub fn targets(&self) -> Vec<TargetId> {
        self.targets.all().into_iter().map(|(id, _)| id).collect()
    }

    fn take_in(&self, Running { id, handle, thread }: Running) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        self.targets.push(id, handle);
    }

    fn adding(&self) -> MutexGuard<'_, Adding> {
        self.adding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets targets be added, by what knows where to keep that.
    pub fn let_add(&self, make: Make) {
        self.adding().make = Some(make);
    }

    /// The targets that there are; `told` hears of each that is added later.
    pub(crate) fn follow(
        &self,
        told: impl Fn(TargetId, TargetHandle) + Send + 'static,
    ) -> Vec<(TargetId, TargetHandle)> {
        let mut adding = self.adding();
        adding.told.push(Box::new(told));
        self.targets.all()
    }

    /// Adds a target.
    fn add(&self, asked: &AddTarget) -> Result<Reply> {
        let mut adding = self.adding();
        let Adding { make, told } = &mut *adding;
        let make = make.as_mut().ok_or_else(|| {
            Error::refused("no target can be added to what this process serves, or not any more; ask the one that serves a directory")
        })?;
        let started = Cell::new(None);
        let opened = |device| {
            let running = start(device, self.memory).and_then(Starting::wait)?;
            let id = running.id;
            started.set(Some(running));
            Ok(id)
        };
        let made = make(asked, &opened);
        let running = match (made, started.into_inner()) {
            (Ok(_), Some(running)) => running,
            (made, running) => {
                if let Some(Running { handle, thread, .. }) = running {
                    // What matters is why it is none of this cluster.
                    drop(handle.ask(Order::Stop));
                    drop(thread.join());
                }
                return Err(made
                    .err()
                    .unwrap_or_else(|| Error::damaged("a target was made and not opened; this is a fault")));
            }
        };
        let (id, handle) = (running.id, running.handle.clone());
        self.take_in(running);
        told.iter().for_each(|told| told(id, handle.clone()));
        handle.call(&Request::Info)
    }

    /// Asks once.
    pub fn call(&self, request: Request) -> Result<Reply> {
        match &request {
            Request::CreateRing(spec) => self.create_ring(spec),
            Request::Info | Request::Status { ring: None } | Request::Profiles | Request::Plan(_) | Request::Heaps => {
                self.all(&request)
            }
            Request::CreateHeap { heap, settings } => self.create_heap(heap, *settings),
            Request::AddTarget(asked) => self.add(asked),
            Request::HeapInfo { heap } | Request::DeleteHeap { heap } => self.with_heap(heap)?.call(&request),
            Request::SetProfile { target, .. }
            | Request::Measure { target, .. }
            | Request::Scrub { target, .. }
            | Request::Settings { target, .. } => self.targets.find(*target)?.call(&request),
            Request::Status { ring: Some(ring) }
            | Request::DeleteRing { ring }
            | Request::ResizeRing { ring, .. }
            | Request::RelateRing { ring, .. }
            | Request::BeginRing { ring, .. }
            | Request::Pin { ring, .. }
            | Request::Unpin { ring, .. }
            | Request::Pins { ring } => self.with(ring)?.call(&request),
        }
    }

    /// Asks each target by itself.
    pub fn call_each(&self, request: &Request) -> Result<Vec<(TargetId, Reply)>> {
        self.targets.all().into_iter().map(|(id, handle)| Ok((id, handle.call(request)?))).collect()
    }

    /// Asks one target.
    pub fn call_at(&self, target: TargetId, request: &Request) -> Result<Reply> {
        self.targets.find(target)?.call(request)
    }

    /// Begins or resumes recording.
    pub fn open_writer(&self, request: OpenWriter) -> Result<Writer> {
        let target = self.with(&request.ring)?;
        let session = SessionId(self.next.fetch_add(1, Ordering::Relaxed));
        let opening = target.ask(|answer| Order::OpenWriter { session, request, fenced: None, answer })?;
        Ok(Writer::new(target, session, opening))
    }

    /// Begins a query.
    pub fn query(&self, request: QueryRequest) -> Result<Answer> {
        let target = self.with(&request.ring)?;
        let query = QueryId(self.next.fetch_add(1, Ordering::Relaxed));
        target.query(query, request, None, ANSWER_AHEAD)
    }

    /// A way to the objects of all targets.
    pub fn objects(&self) -> ObjectLink {
        let link = LinkId(self.next.fetch_add(1, Ordering::Relaxed));
        ObjectLink::new(link, self.targets.clone())
    }

    /// A way to the heaps of all targets.
    pub fn heaps(&self) -> HeapLink {
        let link = LinkId(self.next.fetch_add(1, Ordering::Relaxed));
        HeapLink::new(link, self.targets.clone())
    }

    /// Makes everything durable and closes the targets. Whoever still records or reads is told that this process goes
    /// away.
    pub fn close(&self) -> Result<()> {
        // No more are added; what those that were have claimed is free when they are closed.
        let added = std::mem::take(&mut *self.adding());
        let mut stopping: Vec<(TargetId, Outlet<Result<()>>)> = Vec::new();
        for (id, handle) in self.targets.all() {
            handle.failing().get_or_insert_with(going_away);
            let (answer, outlet) = pipe(0);
            // A target that is gone has said why when it went.
            if handle.order(Order::Stop(answer)).is_ok() {
                stopping.push((id, outlet));
            }
        }
        let mut result = Ok(());
        for (id, mut outlet) in stopping {
            let ended = outlet.receive_blocking().unwrap_or(Ok(()));
            result = result.and(ended.map_err(|error| error.of(format!("closing target {id}"))));
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        drop(added);
        result
    }

    /// The target that has the ring.
    fn with(&self, ring: &str) -> Result<TargetHandle> {
        let targets = self.targets.all();
        if let [(_, only)] = &targets[..] {
            return Ok(only.clone());
        }
        let mut missing = Error::missing(format!("there is no ring {ring}"));
        for (_, handle) in targets {
            match handle.call(&Request::Status { ring: Some(ring.to_string()) }) {
                Ok(_) => return Ok(handle),
                Err(error) if error.kind == Kind::Missing => missing = error,
                Err(error) => return Err(error),
            }
        }
        Err(missing)
    }

    /// The target that has the heap.
    fn with_heap(&self, heap: &str) -> Result<TargetHandle> {
        if let [(_, only)] = &self.targets.all()[..] {
            return Ok(only.clone());
        }
        let Reply::Heaps(heaps) = self.all(&Request::Heaps)? else { return Err(Error::missing("there are no heaps")) };
        let found = heaps.into_iter().find(|found| found.name == heap).map(|found| found.target);
        self.targets.find(found.ok_or_else(|| Error::missing(format!("there is no heap {heap}")))?)
    }

    /// Asks all targets and joins their answers.
    fn all(&self, request: &Request) -> Result<Reply> {
        let mut joined: Option<Reply> = None;
        for (_, handle) in self.targets.all() {
            let reply = handle.call(request)?;
            match (&mut joined, reply) {
                (None, reply) => joined = Some(reply),
                (Some(Reply::Info(all)), Reply::Info(mut more)) => all.targets.append(&mut more.targets),
                (Some(Reply::Rings(all)), Reply::Rings(mut more)) => all.append(&mut more),
                (Some(Reply::Profiles(all)), Reply::Profiles(mut more)) => all.append(&mut more),
                (Some(Reply::Plans(all)), Reply::Plans(mut more)) => all.append(&mut more),
                (Some(Reply::Heaps(all)), Reply::Heaps(mut more)) => all.append(&mut more),
                (Some(_), _) => {}
            }
        }
        match joined {
            Some(Reply::Info(info)) => Ok(Reply::Info(Info { process: process::id(), ..info })),
            Some(reply) => Ok(reply),
            None => Err(Error::missing("there are no targets")),
        }
    }

    /// Creates a ring on the first target that can promise it.
    fn create_ring(&self, spec: &RingSpec) -> Result<Reply> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_unused(&spec.name)?;
        self.on_the_first(&Request::CreateRing(spec.clone()))
    }

    /// Creates a heap on the first target that has room for it.
    fn create_heap(&self, heap: &str, settings: HeapSettings) -> Result<Reply> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_unused(heap)?;
        self.on_the_first(&Request::CreateHeap { heap: heap.to_string(), settings })
    }

    /// Refuses a name that a ring or a heap on any target has; one target alone finds that out by itself.
    fn check_unused(&self, name: &str) -> Result<()> {
        if self.targets.all().len() <= 1 {
            return Ok(());
        }
        if let Ok(Reply::Rings(rings)) = self.all(&Request::Status { ring: None })
            && rings.iter().any(|ring| ring.spec.name == name)
        {
            return Err(Error::exists(format!("there is a ring {name} already")));
        }
        if let Ok(Reply::Heaps(heaps)) = self.all(&Request::Heaps)
            && heaps.iter().any(|heap| heap.name == name)
        {
            return Err(Error::exists(format!("there is a heap {name} already")));
        }
        Ok(())
    }

    /// Asks one target after the other until one does not refuse.
    fn on_the_first(&self, request: &Request) -> Result<Reply> {
        let mut refusal = None;
        for (_, handle) in self.targets.all() {
            match handle.call(request) {
                Err(error) if matches!(error.kind, Kind::Refused | Kind::Full | Kind::Missing) => {
                    refusal.get_or_insert(error);
                }
                result => return result,
            }
        }
        Err(refusal.unwrap_or_else(|| Error::missing("there are no targets")))
    }
}

/// A target that is being opened.
struct Starting {
    opened: Outlet<Result<TargetId>>,
    handle: TargetHandle,
    thread: thread::JoinHandle<()>,
}

fn start(device: Opened, memory: Memory) -> Result<Starting> {
    let (orders, receiver) = mailbox();
    let handle = TargetHandle::new(orders);
    let failure = handle.failure.clone();
    let (tell, opened) = pipe(0);
    let name = device.geometry().name.clone();
    let thread = thread::spawn("target", move || {
        let loop_name = name.clone();
        let ended = real::run_or_end(real::Options { device }, move |env| async move {
            match Target::open(env.clone()).await {
                Ok(target) => {
                    target.objects().stay_within(memory);
                    tell.send(Ok(target.id()), 0).await;
                    drop(tell);
                    service::serve(env, target, receiver).await;
                }
                Err(error) => {
                    tell.send(Err(named(error, &loop_name)), 0).await;
                }
            }
        });
        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ended {
            *failure = Some(named(error, &name));
        }
        failure.get_or_insert_with(going_away);
    })?;
    Ok(Starting { opened, handle, thread })
}

impl Starting {
    fn wait(mut self) -> Result<Running> {
        match self.opened.receive_blocking() {
            Some(Ok(id)) => Ok(Running { id, handle: self.handle, thread: self.thread }),
            Some(Err(error)) => {
                let _ = self.thread.join();
                Err(error)
            }
            None => {
                let _ = self.thread.join();
                Err(self.handle.gone())
            }
        }
    }
}

/// The error, said of the device unless it names it already.
fn named(error: Error, device: &str) -> Error {
    if error.message.contains(device) { error } else { error.of(device) }
}

fn going_away() -> Error {
    Error::disconnected("the process that serves the cluster is going away")
}
