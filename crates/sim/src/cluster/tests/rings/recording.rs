//! A recorder over the network, as the tests of rings drive it: what it offered, and what was accepted of that.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const LIMIT: Duration = Duration::from_secs(60);

/// Hands a recorder the way that was opened for it, and the time. Here nothing may block.
struct Hand {
    now: AtomicU64,
    writer: u64,
    link: Mutex<Option<Box<dyn WriterLink>>>,
}

impl Peer for Hand {
    fn call(&self, _: Request) -> Result<forebay_wire::command::Reply> {
        Err(Error::usage("nothing is asked here"))
    }

    fn open_writer(&self, _: &str, _: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        assert!(!resume, "a session resumes by itself");
        Ok(self.link.lock().expect("nobody panicked").take().expect("it is opened once"))
    }

    fn query(&self, _: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Err(Error::usage("nothing is asked here"))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Err(Error::usage("nothing is asked here"))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Err(Error::usage("nothing is asked here"))
    }

    fn now(&self) -> Moment {
        Moment(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        self.writer
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A client that records numbered elements.
pub(super) struct Recording {
    pub(super) machine: ClientMachine,
    hand: Arc<Hand>,
    pub(super) recorder: Recorder,
    pub(super) session: u64,
    /// The numbers that were accepted.
    pub(super) accepted: Vec<u64>,
    /// And their times.
    pub(super) times: Vec<Timestamp>,
    pub(super) offered: u64,
    /// How far its wall clock was set back.
    pub(super) set_back: Duration,
}

/// What came of a session that is over.
pub(super) struct Past {
    pub(super) session: u64,
    pub(super) accepted: Vec<u64>,
    pub(super) offered: u64,
    pub(super) durable: u64,
    pub(super) in_order: bool,
}

impl Recording {
    /// Opens the ring as soon as it can be: whoever was cut off has it for a while.
    pub(super) fn begin(cluster: &Cluster, session: u64) -> Recording {
        let machine = cluster.client_machine(&format!("client{session}"));
        let world = cluster.world();
        let end = world.now() + Duration::from_secs(120);
        let link = loop {
            let rings = machine.files.rings();
            let opened = world.run(async move { rings.open("/ring", true).await?.record(session, LIMIT).await });
            match opened {
                Ok(link) => break link,
                Err(error) => {
                    assert!(matches!(error.kind, Kind::Busy | Kind::Disconnected), "{error:?}");
                    assert!(world.now() < end, "{error:?}");
                    world.run_for(Duration::from_secs(1));
                }
            }
        };
        let hand = Arc::new(Hand {
            now: AtomicU64::new(world.now().0),
            writer: session,
            link: Mutex::new(Some(Box::new(link))),
        });
        let recorder = Client::over(hand.clone()).recorder("/ring").expect("it is opened");
        Recording {
            machine,
            hand,
            recorder,
            session,
            accepted: Vec::new(),
            times: Vec::new(),
            offered: 0,
            set_back: Duration::ZERO,
        }
    }

    pub(super) fn tell_time(&self, world: &World) {
        self.hand.now.store(world.now().0, Ordering::SeqCst);
    }

    /// Offers some elements, and lets time pass.
    pub(super) fn step(&mut self, world: &World, chance: &dyn Random) {
        self.step_of(world, chance, 10);
    }

    /// The same with fewer than `most` elements.
    pub(super) fn step_of(&mut self, world: &World, chance: &dyn Random, most: u64) {
        self.tell_time(world);
        for _ in 0..chance.below(most) {
            self.offer_some(world, chance, 3000);
        }
        self.recorder.tick().expect("it goes on");
        world.run_for(Duration::from_millis(20));
    }

    /// Offers an element of fewer bytes than `most`; or, now and then, one that nearly fills a block. What takes several would wait for
    /// room, and here nothing may block.
    fn offer_some(&mut self, world: &World, chance: &dyn Random, most: u64) {
        let more = match chance.below(200) {
            0 => 30_000 + chance.below(34_000),
            _ => chance.below(most),
        };
        self.offer(world, more as usize);
    }

    /// Offers an element with so many bytes that do not matter.
    pub(super) fn offer(&mut self, world: &World, more: usize) {
        let mut element = [self.session.to_le_bytes(), self.offered.to_le_bytes()].concat();
        element.resize(16 + more, 7);
        let before = self.recorder.progress().elements;
        // No two have the same time.
        let time = Timestamp(world.clock().wall().0 + self.offered as i64).before(self.set_back);
        self.recorder.element(time, &[&element], &[]).expect("it is accepted or dropped");
        if self.recorder.progress().elements > before {
            self.accepted.push(self.offered);
            self.times.push(time);
        }
        self.offered += 1;
    }

    /// When those were recorded that an answer does not have, which has nothing twice.
    pub(super) fn lacking(&self, found: &[Found]) -> Vec<Timestamp> {
        let all: Vec<(u64, u64)> = found.iter().filter_map(Found::element).collect();
        let there: BTreeSet<(u64, u64)> = all.iter().copied().collect();
        assert_eq!(all.len(), there.len(), "nothing comes twice");
        let accepted = self.accepted.iter().zip(&self.times);
        accepted.filter(|(number, _)| !there.contains(&(self.session, **number))).map(|(_, time)| *time).collect()
    }

    /// Waits until all that was accepted is durable.
    pub(super) fn settle(&mut self, world: &World) {
        let (soon, end) = (world.now() + Duration::from_secs(10), world.now() + Duration::from_secs(120));
        loop {
            self.tell_time(world);
            self.recorder.tick().expect("it goes on");
            let progress = self.recorder.progress();
            // A gap that waits goes out with a block, too.
            let is_all = progress.durable_blocks == progress.blocks && progress.durable_elements == progress.elements;
            if is_all && world.now() >= soon {
                return;
            }
            assert!(world.now() < end, "all that was healed goes on: {progress:?}");
            world.run_for(Duration::from_millis(50));
        }
    }

    pub(super) fn past(self, in_order: bool) -> Past {
        let Recording { recorder, session, accepted, offered, .. } = self;
        let durable = recorder.progress().durable_elements;
        Past { session, accepted, offered, durable, in_order }
    }
}
