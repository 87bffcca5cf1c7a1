//! The suite itself is tested: each of these devices breaks one promise, and must be found out.

use super::*;
use crate::device::{Device, Geometry};
use crate::real::{Options, create_file};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    LosesAWrite,
    WritesBesideThePlace,
    WaitsToBePolled,
    RoundsToTheGrid,
    TakesWhatIsPastTheEnd,
    TakesNothing,
    RefusesAsBusy,
    GivesAnotherBuffer,
    WritesHalf,
    RefusesUnwritten,
    FailsFlush,
    LosesDurableWrites,
}

struct Broken {
    inner: Rc<dyn Device>,
    fault: Fault,
    writes: Cell<u64>,
}

type Transferred = DeviceFuture<(Buffer, Result<()>)>;

fn ready(buffer: Buffer, result: Result<()>) -> Transferred {
    Box::pin(std::future::ready((buffer, result)))
}

impl Broken {
    /// What the fault makes of a transfer, reading and writing alike.
    fn intercept(&self, offset: Bytes, buffer: Buffer) -> std::result::Result<Buffer, Transferred> {
        let Geometry { size, block, .. } = self.inner.geometry();
        let length = buffer.len() as u64;
        let off_grid = offset % block != Bytes::ZERO || !length.is_multiple_of(block.0);
        let past_end = offset.0.checked_add(length).is_none_or(|end| end > size.0);
        let taken = match self.fault {
            Fault::RoundsToTheGrid => off_grid,
            Fault::TakesWhatIsPastTheEnd => past_end && !off_grid,
            Fault::TakesNothing => length == 0,
            _ => false,
        };
        if taken {
            return Err(ready(buffer, Ok(())));
        }
        if self.fault == Fault::RefusesAsBusy && past_end {
            return Err(ready(buffer, Err(forebay_model::Error::busy("not now"))));
        }
        Ok(buffer)
    }
}

impl Device for Broken {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: Bytes, buffer: Buffer) -> Transferred {
        let buffer = match self.intercept(offset, buffer) {
            Ok(buffer) => buffer,
            Err(done) => return done,
        };
        if self.fault == Fault::RefusesUnwritten && offset >= SPACE {
            return ready(buffer, Err(forebay_model::Error::device("nothing was written there")));
        }
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> Transferred {
        let mut buffer = match self.intercept(offset, buffer) {
            Ok(buffer) => buffer,
            Err(done) => return done,
        };
        let block = self.inner.geometry().block;
        self.writes.set(self.writes.get() + 1);
        let inner = self.inner.clone();
        match self.fault {
            Fault::LosesAWrite if (self.writes.get() + 1).is_multiple_of(97) => ready(buffer, Ok(())),
            Fault::WritesBesideThePlace if (self.writes.get() + 1).is_multiple_of(97) && offset > Bytes::ZERO => {
                inner.write(offset - block, buffer)
            }
            Fault::WaitsToBePolled => Box::pin(async move { inner.write(offset, buffer).await }),
            Fault::GivesAnotherBuffer => Box::pin(async move {
                let (buffer, result) = inner.write(offset, buffer).await;
                let mut other = Buffer::alone(Bytes(buffer.capacity() as u64)).unwrap();
                other.set_len(buffer.len());
                other.copy_from_slice(&buffer);
                (other, result)
            }),
            Fault::WritesHalf if buffer.len() as u64 > 1 << 20 => Box::pin(async move {
                let length = buffer.len();
                buffer.set_len(length / 2);
                let (mut buffer, result) = inner.write(offset, buffer).await;
                buffer.set_len(length);
                (buffer, result)
            }),
            _ => inner.write(offset, buffer),
        }
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> Transferred {
        match self.fault {
            Fault::LosesDurableWrites => ready(buffer, Ok(())),
            _ => self.inner.write_durable(offset, buffer),
        }
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        match self.fault {
            Fault::FailsFlush => Box::pin(std::future::ready(Err(forebay_model::Error::device("no")))),
            _ => self.inner.flush(),
        }
    }
}

/// Which checks a device with this fault fails.
fn failed(fault: Fault) -> Vec<&'static str> {
    let random = Rc::new(crate::random::seeded::Seeded::announced(&format!("{fault:?}")));
    let folder = tempfile::tempdir().unwrap();
    let device = create_file(folder.path().join("device"), Bytes::mib(24)).unwrap();
    crate::real::run(Options { device }, move |mut env| async move {
        env.random = random;
        env.device = Rc::new(Broken { inner: env.device.clone(), fault, writes: Cell::new(0) });
        // A check may wait for ever for what a broken device never does: give it up, and count it as failed.
        let mut failed = Vec::new();
        for check in CHECKS {
            let running = env.spawner.spawn((check.body)(env.clone()));
            let limit = env.clock.sleep(std::time::Duration::from_secs(3));
            match first(running, limit).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => failed.push(check.name),
            }
        }
        failed
    })
    .unwrap()
}

/// The value of `future`, unless `limit` ends first.
async fn first<T>(future: impl Future<Output = T>, limit: impl Future<Output = ()>) -> Option<T> {
    let (mut future, mut limit) = (std::pin::pin!(future), std::pin::pin!(limit));
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(value));
        }
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[test]
fn random_transfers_find_a_stray_write_whatever_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let device = create_file(folder.path().join("device"), Bytes::mib(8)).unwrap();
    crate::real::run(Options { device }, |mut env| async move {
        let inner = env.device.clone();
        for seed in 0..40 {
            env.random = Rc::new(crate::random::seeded::Seeded::new(seed));
            let broken = Broken { inner: inner.clone(), fault: Fault::WritesBesideThePlace, writes: Cell::new(0) };
            env.device = Rc::new(broken);
            assert!(random_transfers(env.clone()).await.is_err(), "not found with seed {seed}");
            env.device = inner.clone();
            random_transfers(env.clone()).await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn each_broken_promise_is_found_by_the_check_that_names_it() {
    assert_eq!(failed(Fault::None), Vec::<&str>::new());
    let lazy = failed(Fault::WaitsToBePolled);
    assert!(lazy.iter().any(|name| name.contains("nobody waits for")), "{lazy:?}");
    assert!(lazy.iter().any(|name| name.contains("without being polled")), "{lazy:?}");
    for (fault, named) in [
        (Fault::LosesAWrite, "random transfers"),
        (Fault::WritesBesideThePlace, "random transfers"),
        (Fault::RoundsToTheGrid, "off the block grid"),
        (Fault::TakesWhatIsPastTheEnd, "past the end"),
        (Fault::TakesNothing, "no bytes"),
        (Fault::RefusesAsBusy, "past the end"),
        (Fault::GivesAnotherBuffer, "buffers come back"),
        (Fault::WritesHalf, "long transfers"),
        (Fault::RefusesUnwritten, "never written"),
        (Fault::FailsFlush, "a flush"),
        (Fault::LosesDurableWrites, "a durable write"),
    ] {
        let failed = failed(fault);
        assert!(failed.iter().any(|name| name.contains(named)), "{fault:?} fails only {failed:?}, not '{named}'");
    }
}
