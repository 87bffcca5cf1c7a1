//! What every [`Fabric`](crate::fabric::Fabric) is held to, real or simulated, as two machines see it that may be one.
//!
//! Each check listens for itself and is independent of the others. Chance comes from the environment, so a simulated run
//! is replayed by its seed; so does time, and a check that does not end has failed. A connection has to take 100 KiB from
//! who writes before anybody reads.

mod ends;

use super::streams::{close, echo, fill, painted, read, rest, send, send_in_parts, write};
use super::{Failure, Report, Verdict};
use crate::fabric::{Door, Duplex, NetworkEnv};
use crate::mailbox::mailbox;
use crate::pipe::pipe;
use crate::race::{First, race};
use crate::{Task, yield_now};
use ends::{after_the_end, gone_away, half_closed, half_dropped};
use forebay_model::Kind;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// How long a check may take before it has failed.
const LIMIT: Duration = Duration::from_secs(120);
/// More than any network may take from a writer whose reader does not read.
const FLOOD: usize = 64 << 20;

/// Where the checks run.
#[derive(Clone)]
pub struct Ground {
    /// The machine that is connected to.
    pub listening: NetworkEnv,
    /// The machine that connects, which may be the same.
    pub connecting: NetworkEnv,
    /// An address of the machine that listens, with port 0.
    pub address: String,
}

type Body = fn(Ground) -> Pin<Box<dyn Future<Output = Verdict>>>;

/// One thing that a network must do.
pub struct Check {
    /// The sentence that holds if it passes.
    pub name: &'static str,
    body: Body,
}

macro_rules! checks {
    ($($name:literal => $body:ident),* $(,)?) => {
        /// All checks.
        pub const CHECKS: &[Check] = &[$(Check { name: $name, body: |ground| Box::pin($body(ground)) }),*];
    };
}

checks! {
    "port 0 is another free port each time" => free_ports,
    "an address that is listened at is busy, until the door is dropped" => taken_addresses,
    "what is no address is a wrong request" => wrong_addresses,
    "where nobody listens, that is what connecting says" => nobody,
    "a connection that was given up harms no other" => given_up,
    "connections that are made before anybody accepts are accepted" => early_comers,
    "a door that is dropped leaves its connections alone" => dropped_door,
    "what is sent comes back, in pieces of any size and number" => echoes,
    "both directions are under way at once" => both_directions,
    "many connections are under way at once" => many,
    "who closes what it writes can still read" => half_closed,
    "who drops what it writes can still read" => half_dropped,
    "after the end there is the end, and after closing no writing" => after_the_end,
    "a peer that goes away in the middle is noticed by who reads and by who writes" => gone_away,
    "who does not read holds up who writes, and nobody else" => backpressure,
    "tasks on one connection wake one another, whoever polled last" => wake_ups,
}

/// Runs all checks, one after the other.
pub async fn run(ground: Ground) -> Report {
    let mut report = Report::default();
    for check in CHECKS {
        let clock = ground.connecting.clock.clone();
        let verdict = match race((check.body)(ground.clone()), clock.sleep(LIMIT)).await {
            First::Left(verdict) => verdict,
            First::Right(()) => Err(Failure(format!("it has not ended after {LIMIT:?}"))),
        };
        match verdict {
            Ok(()) => report.held.push(check.name),
            Err(failure) => report.failed.push((check.name, failure)),
        }
    }
    report
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(format!("{:?}: {error}", error.kind()))
    }
}

impl Ground {
    /// A door, and one connection through it: the end that connected first.
    async fn pair(&self) -> Result<(Box<dyn Door>, Duplex, Duplex), Failure> {
        let door = self.listening.fabric.listen(&self.address).await?;
        let (connecting, accepting) = self.join(&*door).await?;
        Ok((door, connecting, accepting))
    }

    async fn join(&self, door: &dyn Door) -> Result<(Duplex, Duplex), Failure> {
        let accepting = self.listening.spawner.spawn(door.accept());
        let connecting = self.connecting.fabric.connect(&door.address()).await?;
        Ok((connecting, accepting.await?))
    }

    /// A door behind which all that comes is sent back.
    async fn echoing(&self) -> Result<(String, Task<()>), Failure> {
        let door = self.listening.fabric.listen(&self.address).await?;
        let (address, spawner) = (door.address(), self.listening.spawner.clone());
        let serving = self.listening.spawner.spawn(async move {
            while let Ok(duplex) = door.accept().await {
                spawner.detach(async move {
                    // Who tests sees on the other end what went wrong.
                    let _ = echo(duplex).await;
                });
            }
        });
        Ok((address, serving))
    }

    async fn kind_of_refusal(&self, address: &str) -> Result<Kind, Failure> {
        match self.connecting.fabric.connect(address).await {
            Ok(_) => Err(Failure(format!("a connection to {address} was made"))),
            Err(e) => {
                ensure!(!e.message.is_empty(), "a connection to {address} was refused without a word");
                Ok(e.kind)
            }
        }
    }
}

async fn free_ports(ground: Ground) -> Verdict {
    let mut doors = Vec::new();
    for _ in 0..20 {
        doors.push(ground.listening.fabric.listen(&ground.address).await?);
    }
    let mut addresses: Vec<String> = doors.iter().map(|door| door.address()).collect();
    for door in &doors {
        let (connecting, accepting) = ground.join(&**door).await?;
        ensure!(!connecting.peer.is_empty() && !accepting.peer.is_empty(), "a peer has no name");
    }
    addresses.sort();
    addresses.dedup();
    ensure!(addresses.len() == 20, "20 doors have {} addresses: {addresses:?}", addresses.len());
    Ok(())
}

async fn taken_addresses(ground: Ground) -> Verdict {
    let door = ground.listening.fabric.listen(&ground.address).await?;
    let address = door.address();
    match ground.listening.fabric.listen(&address).await {
        Err(e) if e.kind == Kind::Busy => {}
        Err(e) => return Err(Failure(format!("{address} is refused with {:?}, not as busy: {e}", e.kind))),
        Ok(_) => return Err(Failure(format!("two listen at {address}"))),
    }
    drop(door);
    let again = ground.listening.fabric.listen(&address).await?;
    ensure!(again.address() == address, "{address} came back as {}", again.address());
    Ok(())
}

async fn wrong_addresses(ground: Ground) -> Verdict {
    for address in ["", "nonsense", ":", "host:", ":7", "host:65536", "host:x"] {
        let kind = ground.kind_of_refusal(address).await?;
        ensure!(kind == Kind::Usage, "'{address}' was refused with {kind:?}");
        match ground.listening.fabric.listen(address).await {
            Err(e) if e.kind == Kind::Usage => {}
            Err(e) => return Err(Failure(format!("listening at '{address}' was refused with {:?}", e.kind))),
            Ok(_) => return Err(Failure(format!("somebody listens at '{address}'"))),
        }
    }
    Ok(())
}

async fn nobody(ground: Ground) -> Verdict {
    let door = ground.listening.fabric.listen(&ground.address).await?;
    let address = door.address();
    drop(door);
    let kind = ground.kind_of_refusal(&address).await?;
    ensure!(kind == Kind::Missing, "where nobody listens, connecting says {kind:?}");
    Ok(())
}

async fn given_up(ground: Ground) -> Verdict {
    let (address, _serving) = ground.echoing().await?;
    for polls in 0..4 {
        let mut connecting = ground.connecting.fabric.connect(&address);
        for _ in 0..polls {
            let done = poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context).is_ready())).await;
            if done {
                break;
            }
            yield_now().await;
        }
        drop(connecting);
    }
    let mut duplex = ground.connecting.fabric.connect(&address).await?;
    ask(&mut duplex, 1, 1000).await
}

/// Sends `length` bytes and compares what comes back.
async fn ask(duplex: &mut Duplex, number: u64, length: usize) -> Verdict {
    let sent = painted(number, length);
    send(&mut duplex.write, &sent).await?;
    let mut back = vec![0; length];
    let filled = fill(&mut duplex.read, &mut back).await?;
    ensure!(filled == length, "of {length} bytes, {filled} came back");
    ensure!(back == sent, "{length} bytes came back as others");
    Ok(())
}

async fn early_comers(ground: Ground) -> Verdict {
    let door = ground.listening.fabric.listen(&ground.address).await?;
    let mut early = Vec::new();
    for number in 0..10 {
        let mut duplex = ground.connecting.fabric.connect(&door.address()).await?;
        send(&mut duplex.write, &[number]).await?;
        early.push(duplex);
    }
    for _ in 0..10 {
        let mut duplex = door.accept().await?;
        let mut said = [0];
        ensure!(fill(&mut duplex.read, &mut said).await? == 1, "what was sent early has not come");
        send(&mut duplex.write, &said).await?;
    }
    for (number, mut duplex) in early.into_iter().enumerate() {
        let heard = rest(&mut duplex.read).await?;
        ensure!(heard == [number as u8], "connection {number} was answered {heard:?}");
    }
    Ok(())
}

async fn dropped_door(ground: Ground) -> Verdict {
    let (door, mut connecting, accepting) = ground.pair().await?;
    drop(door);
    let echoing = ground.listening.spawner.spawn(echo(accepting));
    ask(&mut connecting, 2, 100_000).await?;
    close(&mut connecting.write).await?;
    ensure!(echoing.await? == 100_000, "the other side has seen less");
    Ok(())
}

async fn echoes(ground: Ground) -> Verdict {
    const TOTAL: usize = 3 << 20;
    let (address, _serving) = ground.echoing().await?;
    let Duplex { mut read, mut write, .. } = ground.connecting.fabric.connect(&address).await?;
    let sent = painted(3, TOTAL);
    let expected = sent.clone();
    let random = ground.connecting.random.clone();
    let writing = ground.connecting.spawner.spawn(async move {
        let mut left = &sent[..];
        while !left.is_empty() {
            // Small and large ones alike.
            let most = 1 << (1 + random.below(18));
            let (piece, after) = left.split_at(left.len().min(1 + random.below(most) as usize));
            match random.below(3) {
                0 => send_in_parts(&mut write, piece, random.below(piece.len() as u64 + 1) as usize).await?,
                _ => send(&mut write, piece).await?,
            }
            left = after;
        }
        close(&mut write).await
    });
    let random = &ground.connecting.random;
    let mut back = vec![0; TOTAL];
    let mut at = 0;
    while at < TOTAL {
        let most = (1 << (1 + random.below(18))).min((TOTAL - at) as u64);
        let wanted = 1 + random.below(most) as usize;
        let filled = fill(&mut read, &mut back[at..at + wanted]).await?;
        ensure!(filled == wanted, "the stream ended {} bytes early", TOTAL - at - filled);
        at += filled;
    }
    writing.await?;
    ensure!(rest(&mut read).await?.is_empty(), "more came back than was sent");
    let wrong = back.iter().zip(&expected).position(|(one, other)| one != other);
    ensure!(wrong.is_none(), "byte {wrong:?} came back as another");
    Ok(())
}

async fn both_directions(ground: Ground) -> Verdict {
    const TOTAL: usize = 2 << 20;
    let (_door, connecting, accepting) = ground.pair().await?;
    let mut tasks = Vec::new();
    for (env, duplex, number) in [(&ground.connecting, connecting, 4), (&ground.listening, accepting, 5)] {
        let Duplex { mut read, mut write, .. } = duplex;
        tasks.push(env.spawner.spawn(async move {
            send(&mut write, &painted(number, TOTAL)).await?;
            close(&mut write).await?;
            Ok::<(), Failure>(())
        }));
        tasks.push(env.spawner.spawn(async move {
            let came = rest(&mut read).await?;
            ensure!(came == painted(9 - number, TOTAL), "{} bytes came, and not those that were sent", came.len());
            Ok(())
        }));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn many(ground: Ground) -> Verdict {
    const COUNT: u64 = 200;
    let (address, _serving) = ground.echoing().await?;
    let under_way = Rc::new(Cell::new(0));
    let mut tasks = Vec::new();
    for number in 0..COUNT {
        let (env, address, under_way) = (ground.connecting.clone(), address.clone(), under_way.clone());
        tasks.push(ground.connecting.spawner.spawn(async move {
            let mut duplex = env.fabric.connect(&address).await?;
            under_way.set(under_way.get() + 1);
            for _ in 0..5 {
                let length = 1 + env.random.below(20_000) as usize;
                ask(&mut duplex, 100 + number, length).await?;
            }
            // Nobody leaves before all have come.
            while under_way.get() < COUNT {
                ask(&mut duplex, 100 + number, 1).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn backpressure(ground: Ground) -> Verdict {
    let (door, connecting, mut accepting) = ground.pair().await?;
    let (mut other, echoing) = ground.join(&*door).await?;
    ground.listening.spawner.detach(async move {
        // Who asks sees what went wrong.
        let _ = echo(echoing).await;
    });
    let taken = Rc::new(Cell::new(0));
    let writer = {
        let (taken, mut writing) = (taken.clone(), connecting.write);
        ground.connecting.spawner.spawn(async move {
            let flood = painted(10, FLOOD);
            while taken.get() < FLOOD {
                let end = FLOOD.min(taken.get() + (256 << 10));
                taken.set(taken.get() + write(&mut writing, &flood[taken.get()..end]).await?);
            }
            close(&mut writing).await
        })
    };
    for _ in 0..200 {
        ask(&mut other, 11, 1000).await?;
    }
    ensure!(taken.get() > 0, "nothing was taken from who writes");
    ensure!(taken.get() < FLOOD, "{FLOOD} bytes were taken, and nobody reads");
    let came = rest(&mut accepting.read).await?;
    writer.await?;
    ensure!(came == painted(10, FLOOD), "{} bytes came of {FLOOD}, or others", came.len());
    Ok(())
}

async fn wake_ups(ground: Ground) -> Verdict {
    const TURNS: u64 = 1000;
    let (_door, connecting, accepting) = ground.pair().await?;
    // On each side one task reads, and another one writes what the first one says.
    let mut sides = Vec::new();
    for (env, duplex) in [(&ground.connecting, connecting), (&ground.listening, accepting)] {
        let Duplex { mut read, mut write, .. } = duplex;
        let (numbers, mut inbox) = mailbox::<u64>();
        let (done, ended) = pipe::<u64>(1);
        let first = numbers.clone();
        env.spawner.detach(async move {
            let mut word = [0; 8];
            let mut last = 0;
            while let Ok(8) = fill(&mut read, &mut word).await {
                last = u64::from_le_bytes(word);
                if last >= TURNS || numbers.send(last + 1).is_err() {
                    break;
                }
            }
            done.send(last, 1).await;
        });
        env.spawner.detach(async move {
            while let Some(number) = inbox.receive().await {
                if send(&mut write, &number.to_le_bytes()).await.is_err() {
                    break;
                }
            }
        });
        sides.push((first, ended));
    }
    let started = sides[0].0.send(1);
    ensure!(started.is_ok(), "the first task is gone");
    for (first, mut ended) in sides {
        drop(first);
        let last = ended.receive().await;
        ensure!(last.is_some_and(|last| last + 1 >= TURNS), "the last turn was {last:?} of {TURNS}");
    }
    moved_reader(ground).await
}

/// A task polls a stream, and then another one does: the second is woken.
async fn moved_reader(ground: Ground) -> Verdict {
    let (_door, mut connecting, mut accepting) = ground.pair().await?;
    let mut early = [0; 4];
    let polled = {
        let mut reading = pin!(read(&mut accepting.read, &mut early));
        poll_fn(|context| Poll::Ready(reading.as_mut().poll(context).is_ready())).await
    };
    ensure!(!polled, "something came before it was sent");
    let moved = ground.listening.spawner.spawn(async move {
        let mut word = [0; 4];
        fill(&mut accepting.read, &mut word).await?;
        Ok::<_, Failure>(word)
    });
    yield_now().await;
    send(&mut connecting.write, b"word").await?;
    ensure!(&moved.await? == b"word", "another word came");
    Ok(())
}
