use super::*;
use crate::service::QueryId;
use forebay_env::pipe::Outlet;
use forebay_env::race::{First, race};
use forebay_env::{Buffer, Device, DeviceFuture, Env, Geometry, real, yield_now};
use forebay_model::ring::{Batch, QuerySummary, RingSpec};
use forebay_model::{Bytes, Profile, Timestamp};
use forebay_target::Target;
use forebay_wire::command::QueryRequest;
use std::future::Future;
use std::time::Duration;

const OBJECT: ObjectId = ObjectId { volume: 5, object: 9 };
const NEWER: u64 = FIRST_FENCE + 1;

/// Keeps a device from making anything durable, for a while.
#[derive(Default)]
struct Hold {
    is_held: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Hold {
    /// Goes on when nothing is held.
    async fn pass(&self) {
        poll_fn(|context| {
            if !self.is_held.get() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn release(&self) {
        self.is_held.set(false);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// A device that is held.
struct Held {
    device: Rc<dyn Device>,
    hold: Rc<Hold>,
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.device.read(offset, buffer)
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.device.write(offset, buffer)
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let (written, hold) = (self.device.write_durable(offset, buffer), self.hold.clone());
        Box::pin(async move {
            hold.pass().await;
            written.await
        })
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        let (flushed, hold) = (self.device.flush(), self.hold.clone());
        Box::pin(async move {
            hold.pass().await;
            flushed.await
        })
    }
}

/// Runs a test on the loop of a target with a ring, whose device can be held.
fn with_ring<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rc<Service>, Rc<Hold>) -> F + 'static) {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let device = real::create_file(dir.path().join("target"), Bytes::mib(256)).expect("a file for the target");
    real::run(real::Options { device }, |env| async move {
        let hold = Rc::new(Hold::default());
        let env = Env { device: Rc::new(Held { device: env.device.clone(), hold: hold.clone() }), ..env };
        Target::format(env.clone(), Profile::guess(Bytes::mib(256), false)).await.expect("a target");
        let target = Target::open(env.clone()).await.expect("it opens");
        let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new(ring::name_of(OBJECT), Bytes::mib(32)) };
        target.create_ring(spec).await.expect("there is room");
        let service = Service::new(env, target);
        test(service.clone(), hold).await;
        service.target.close().await.expect("everything is durable");
    })
    .expect("the loop of the target");
}

/// Begins a query that shows a newer version than the ring's fence; what comes of it.
fn query(service: &Rc<Service>, number: u64) -> (Outlet<Batch>, Outlet<Result<QuerySummary>>) {
    let request = QueryRequest {
        ring: ring::name_of(OBJECT),
        text: String::new(),
        now: Timestamp(0),
        follow: false,
        limit: None,
        gaps_only: false,
        blocks: false,
        numbered: false,
    };
    let fenced = Some(Fenced { object: OBJECT, version: NEWER });
    let ((batches, found), (end, outlet)) = (pipe(0), pipe(0));
    queries::start(service, QueryId(number), (request, fenced), batches, end);
    (found, outlet)
}

/// Waits until somebody makes the ring's fence durable.
async fn written(service: &Rc<Service>) {
    while !service.fences.known.borrow().get(&OBJECT).is_some_and(|fence| fence.is_written) {
        yield_now().await;
    }
}

/// Waits no longer than tests may.
async fn soon<T>(service: &Rc<Service>, what: impl Future<Output = T>) -> T {
    match race(what, service.env.clock.sleep(Duration::from_secs(20))).await {
        First::Left(came) => came,
        First::Right(()) => panic!("nobody answers"),
    }
}

#[test]
fn a_fence_that_a_query_raises_is_raised_also_if_the_query_is_cancelled_meanwhile() {
    with_ring(|service, hold| async move {
        hold.is_held.set(true);
        let (_found, mut cancelled) = query(&service, 1);
        soon(&service, written(&service)).await;
        queries::cancel(&service, QueryId(1));
        assert!(soon(&service, cancelled.receive()).await.is_none(), "it is over");
        hold.release();
        // As the manager orders it.
        soon(&service, raise(&service, OBJECT, NEWER)).await.expect("it is durable");
        let (_found, mut other) = query(&service, 2);
        let summary = soon(&service, other.receive()).await.expect("it is answered").expect("it may read");
        assert_eq!(summary.elements, 0);
        let old = Fenced { object: OBJECT, version: FIRST_FENCE };
        assert_eq!(enter(&service, Some(old)).await.map(drop).expect_err("it was revoked").kind, Kind::Stale);
    });
}

#[test]
fn who_gives_up_raising_a_fence_leaves_that_to_others() {
    with_ring(|service, hold| async move {
        hold.is_held.set(true);
        let raising = race(raise(&service, OBJECT, NEWER), soon(&service, written(&service))).await;
        assert!(matches!(raising, First::Right(())), "nothing becomes durable");
        hold.release();
        soon(&service, raise(&service, OBJECT, NEWER)).await.expect("it is durable");
    });
}
