//! `forebay status` and `forebay top`: how everything is.

mod network;

use crate::args::span;
use crate::context::{self, Context};
use crate::show::{json, rings};
use clap::Args;
use forebay_client::{Cluster, Info};
use forebay_env::real::process::{self, Standard};
use forebay_env::real::signal::Stop;
use forebay_model::ring::RingStatus;
use forebay_model::{Bytes, Moment, PlanRequest, Rate, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long rates are looked at where something is being recorded.
const LOOK: Duration = Duration::from_millis(500);

/// Nothing to say.
#[derive(Args)]
pub struct StatusArgs {}

/// How often.
#[derive(Args)]
pub struct TopArgs {
    /// Time between two looks
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "1s")]
    interval: Duration,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// A look at everything.
trait Looked: Sized {
    /// Takes one.
    fn take(context: &Context, cluster: &Cluster) -> Result<Self>;

    /// Whether somebody records.
    fn is_recording(&self) -> bool;

    /// What each ring was written at since `before`.
    fn rates(&self, before: &Self) -> BTreeMap<String, Rate>;

    /// Tells it.
    fn show(&self, context: &mut Context, rates: &BTreeMap<String, Rate>) -> Result<()>;
}

/// A look at a directory.
struct Look {
    at: Moment,
    rings: Vec<RingStatus>,
    info: Info,
    /// The highest guarantee that another ring could have, by target.
    headroom: Vec<Option<Rate>>,
}

impl Looked for Look {
    fn take(_context: &Context, cluster: &Cluster) -> Result<Look> {
        let (at, rings, info) = (cluster.now(), cluster.settled()?, cluster.info()?);
        // A small ring in the fastest free place; where there is no space, there is no answer.
        let smallest = info.targets.iter().map(|t| t.group * 4).max().unwrap_or(Bytes::mib(64));
        let question = PlanRequest { capacity: Some(smallest), ..PlanRequest::new(Rate(1)) };
        let plans = cluster.plan(question).map(|plans| plans.told).unwrap_or_default();
        let best = |target: &forebay_client::TargetInfo| {
            plans.iter().find(|plan| plan.target == target.id).map(|plan| plan.plan.highest)
        };
        let headroom = info.targets.iter().map(best).collect();
        Ok(Look { at, rings, info, headroom })
    }

    fn is_recording(&self) -> bool {
        self.rings.iter().any(|ring| ring.recording)
    }

    fn rates(&self, before: &Look) -> BTreeMap<String, Rate> {
        let time = self.at.since(before.at);
        let mut rates = BTreeMap::new();
        for ring in &self.rings {
            if let Some(old) = before.rings.iter().find(|old| old.spec.name == ring.spec.name) {
                let written = ring.written.saturating_sub(old.written);
                rates.insert(ring.spec.name.clone(), Rate::of(written, time));
            }
        }
        rates
    }

    fn show(&self, context: &mut Context, rates: &BTreeMap<String, Rate>) -> Result<()> {
        if context.json {
            return context.out.json(&self.json(rates));
        }
        self.lines(rates).iter().try_for_each(|line| context.out.line(line))
    }
}

impl Look {
    fn lines(&self, rates: &BTreeMap<String, Rate>) -> Vec<String> {
        let mut lines = Vec::new();
        if self.rings.is_empty() {
            lines.push("No rings yet; make one with `forebay ring create /name --capacity 10GiB`.".to_string());
        } else {
            lines.extend(rings::table(&self.rings, Some(rates)));
        }
        lines.push(String::new());
        let promised = Rate(self.rings.iter().map(|ring| ring.spec.guarantee.0).sum());
        // A ring does not say on which device it is.
        let of_one = if self.info.targets.len() == 1 { format!(" {promised} promised,") } else { String::new() };
        if self.info.targets.len() > 1 {
            lines.push(format!("{promised} promised to all rings together"));
        }
        for (target, headroom) in self.info.targets.iter().zip(&self.headroom) {
            let more = match headroom {
                Some(rate) if rate.0 > 0 => format!("{rate} more could be promised"),
                _ => "no more can be promised".to_string(),
            };
            lines.push(format!(
                "{}: {} of {} free;{of_one} {more}; {} read for queries, {} reads waited",
                target.device, target.free, target.size, target.activity.read, target.activity.throttled
            ));
        }
        let health = rings::health(&self.rings, &self.info);
        lines.push(format!("health: {} - {}", health.code, health.remedy));
        lines
    }

    fn json(&self, rates: &BTreeMap<String, Rate>) -> Value {
        let health = rings::health(&self.rings, &self.info);
        let all: Vec<Value> = self
            .rings
            .iter()
            .map(|ring| {
                let mut value = json::ring(ring);
                value["rate_bytes_per_second"] = json!(rates.get(&ring.spec.name).map(|rate| rate.0));
                value
            })
            .collect();
        let mut value = json::info(&self.info);
        if let Some(targets) = value["targets"].as_array_mut() {
            for (target, headroom) in targets.iter_mut().zip(&self.headroom) {
                target["headroom_bytes_per_second"] = json!(headroom.map(|rate| rate.0));
            }
        }
        value["rings"] = Value::Array(all);
        value["health"] = json!({ "code": health.code, "remedy": health.remedy });
        value
    }
}

/// One look; two where something is being recorded, to see how fast.
pub fn run(context: &mut Context, _args: &StatusArgs) -> Result<()> {
    match context.is_remote() {
        true => look::<network::Look>(context),
        false => look::<Look>(context),
    }
}

fn look<L: Looked>(context: &mut Context) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let first = L::take(context, cluster)?;
        if !first.is_recording() {
            return first.show(context, &BTreeMap::new());
        }
        Stop::new()?.wait(Some(LOOK))?;
        let second = L::take(context, cluster)?;
        second.show(context, &second.rates(&first))
    })
}

/// Looks until stopped.
pub fn top(context: &mut Context, args: &TopArgs) -> Result<()> {
    match context.is_remote() {
        true => look_on::<network::Look>(context, args),
        false => look_on::<Look>(context, args),
    }
}

fn look_on<L: Looked>(context: &mut Context, args: &TopArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let clear = !context.json && process::is_terminal(Standard::Output);
    context.with_cluster(|context, cluster| {
        let mut before = L::take(context, cluster)?;
        let mut left = args.count;
        while left != Some(0) && !stop.wait(Some(args.interval))? {
            let look = L::take(context, cluster)?;
            if clear {
                context.out.bytes(b"\x1b[H\x1b[2J")?;
                let name = context.cluster.as_ref().map_or_else(String::new, |name| name.display().to_string());
                context.out.line(format_args!("{name}  {}\n", crate::show::human::clock(context::wall())))?;
            }
            look.show(context, &look.rates(&before))?;
            context.out.flush()?;
            before = look;
            left = left.map(|left| left - 1);
        }
        Ok(())
    })
}
