//! How a recording goes, told beside it: on a terminal twice a second, to programs once.
//!
//! Invariant: whoever records waits for nobody who is asked or told, and nothing that happens to them ends a recording. What
//! cannot be told any more is not told, and why is kept for the end.

use crate::show::live::Live;
use crate::show::out::Out;
use crate::show::{human, json, rings};
use forebay_client::{Cluster, RecorderProgress};
use forebay_env::real::signal::Stop;
use forebay_env::real::{clock, thread};
use forebay_model::ring::{RingState, RingStatus};
use forebay_model::{Moment, Rate, Result};
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the ring is asked, and people are told.
const LOOK: Duration = Duration::from_millis(500);
/// How often programs are told.
const TOLD: Duration = Duration::from_secs(1);

/// Tells how it goes until that ends.
pub(super) struct Report {
    latest: Arc<Latest>,
    over: Stop,
    telling: thread::JoinHandle<Result<()>>,
}

/// What is known of it.
struct Latest {
    /// How far the recorder said that it had come.
    progress: Mutex<RecorderProgress>,
    /// What the ring said of itself.
    ring: Mutex<RingStatus>,
}

impl Report {
    /// Begins to ask and to tell, on threads of their own.
    pub(super) fn begin(json: bool, cluster: &Cluster, ring: &RingStatus, began: Moment) -> Result<Report> {
        let latest = Arc::new(Latest { progress: Mutex::default(), ring: Mutex::new(ring.clone()) });
        let over = Stop::new()?;
        let (asking, asked, cluster, name) = (latest.clone(), over.clone(), cluster.clone(), ring.spec.name.clone());
        thread::spawn("ask", move || {
            while asked.wait(Some(LOOK)).is_ok_and(|over| !over) {
                // Where nobody answers, what was last said stays; that nobody does is told elsewhere.
                if let Ok(ring) = cluster.ring(&name) {
                    *locked(&asking.ring) = ring;
                }
            }
        })?;
        let (told, guarantee, until) = (latest.clone(), ring.spec.guarantee, over.clone());
        let telling = thread::spawn("tell", move || {
            let mut teller = Teller { latest: told, guarantee, began, last: (began, RecorderProgress::default()) };
            if json { teller.programs(&until) } else { teller.people(&until) }
        })?;
        Ok(Report { latest, over, telling })
    }

    /// Takes note of how far it has come.
    pub(super) fn note(&self, progress: RecorderProgress) {
        *locked(&self.latest.progress) = progress;
    }

    /// Tells no more; an error is why something was not told. It waits for whoever reads what was written.
    pub(super) fn end(self) -> Result<()> {
        self.over.set();
        // A thread that panicked has said so.
        self.telling.join().unwrap_or(Ok(()))
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Teller {
    latest: Arc<Latest>,
    guarantee: Rate,
    began: Moment,
    /// When it was told last, and what.
    last: (Moment, RecorderProgress),
}

impl Teller {
    fn programs(&mut self, over: &Stop) -> Result<()> {
        let mut out = Out::new()?;
        while !over.wait(Some(TOLD))? {
            out.json(&self.json())?;
            out.flush()?;
        }
        Ok(())
    }

    fn people(&mut self, over: &Stop) -> Result<()> {
        let mut live = Live::new(true);
        while !over.wait(Some(LOOK))? {
            live.show(&self.line());
        }
        Ok(())
    }

    /// How far it has come, at which rate, and what the ring says.
    fn look(&mut self) -> (Moment, RecorderProgress, Rate, RingStatus) {
        let ring = locked(&self.latest.ring).clone();
        let mut progress = *locked(&self.latest.progress);
        // Who waits for room says nothing of it.
        progress.full |= ring.state == RingState::Full;
        let now = clock::now();
        let (before, last) = std::mem::replace(&mut self.last, (now, progress));
        let rate = Rate::of(progress.bytes.saturating_sub(last.bytes), now.since(before));
        (now, progress, rate, ring)
    }

    fn json(&mut self) -> serde_json::Value {
        let (now, progress, rate, ring) = self.look();
        let mut value = json::recorded("progress", &progress, now.since(self.began).as_secs_f64());
        value["rate_bytes_per_second"] = json!(rate.0);
        value["guarantee_bytes_per_second"] = json!(self.guarantee.0);
        value["oldest"] = ring.oldest.map_or(serde_json::Value::Null, json::time);
        value["history_seconds"] = json!(rings::history(&ring).as_secs_f64());
        value["durable_lag_blocks"] = json!(progress.blocks.saturating_sub(progress.durable_blocks));
        value
    }

    fn line(&mut self) -> String {
        let (_, progress, rate, ring) = self.look();
        let promise =
            if self.guarantee == Rate(0) { String::new() } else { format!(" of {} promised", self.guarantee) };
        let oldest = ring.oldest.map_or_else(|| "-".to_string(), human::clock);
        let full = if progress.full { "  FULL: everything is pinned" } else { "" };
        format!(
            "{rate}{promise}  {}  history {} (since {oldest})  lost {}  {} not on disk yet{full}",
            human::some(progress.elements, "element"),
            human::span(rings::history(&ring)),
            human::losses(&progress.losses),
            human::some(progress.blocks.saturating_sub(progress.durable_blocks), "block")
        )
    }
}
