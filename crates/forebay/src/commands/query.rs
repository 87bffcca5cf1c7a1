//! `forebay query` and `forebay tail`: looking back, and watching.

use crate::context::{Context, when_stopped};
use crate::show::element::{Elements, Form};
use crate::show::raw::Raw;
use crate::show::{human, json, say};
use clap::Args;
use forebay_client::{Answer, Cluster, Event, QueryOptions};
use forebay_env::real::signal::Stop;
use forebay_model::ring::Item;
use forebay_model::{Error, Result};
use serde_json::json;

/// How elements are shown.
#[derive(Args)]
pub struct FormArgs {
    /// The bytes too, in hexadecimal
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
    /// The bytes alone, as they are, one element after the other; not with --json
    #[arg(long)]
    raw: bool,
}

/// What to look for.
#[derive(Args)]
pub struct QueryArgs {
    /// The ring
    ring: String,
    /// What to look for, such as 'src=10.0.0.1 and port=53 and after 45m ago'; everything if left out
    #[arg(default_value = "")]
    query: String,
    /// Elements at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only say how many there are
    #[arg(long, conflicts_with_all = ["hex", "raw"])]
    count: bool,
    /// How to show them.
    #[command(flatten)]
    form: FormArgs,
}

/// What to watch for.
#[derive(Args)]
pub struct TailArgs {
    /// The ring
    ring: String,
    /// What to look for; everything if left out
    #[arg(default_value = "")]
    query: String,
    /// Elements at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin with what is there already
    #[arg(long)]
    all: bool,
    /// How to show them.
    #[command(flatten)]
    form: FormArgs,
}

impl FormArgs {
    fn form(&self, json: bool) -> Result<Form> {
        Ok(match (self.raw, self.hex, json) {
            (true, _, true) => {
                return Err(Error::usage(
                    "--raw writes bytes alone, and --json a value a line: give one of both, or --json with --hex for the \
                     bytes, too",
                ));
            }
            (true, _, _) => Form::Raw,
            (_, true, true) => Form::JsonHex,
            (_, true, false) => Form::Hex,
            (_, _, true) => Form::Json,
            _ => Form::Lines,
        })
    }
}

/// Looks back.
pub fn run(context: &mut Context, args: &QueryArgs) -> Result<()> {
    let form = args.form.form(context.json)?;
    context.with_cluster(|context, cluster| {
        let options = QueryOptions { limit: args.limit, ..QueryOptions::default() };
        let answer = cluster.query_with(&args.ring, &args.query, options)?;
        if args.count {
            return count(context, &args.ring, answer);
        }
        show(context, cluster, &args.ring, answer, form, true)
    })
}

/// Watches.
pub fn tail(context: &mut Context, args: &TailArgs) -> Result<()> {
    let form = args.form.form(context.json)?;
    context.with_cluster(|context, cluster| {
        let options = QueryOptions { follow: true, limit: args.limit, gaps_only: false };
        let answer = match args.all {
            true => cluster.query_with(&args.ring, &args.query, options)?,
            false => cluster.tail_with(&args.ring, &args.query, options)?,
        };
        show(context, cluster, &args.ring, answer, form, false)
    })
}

/// Says how many there are: if it is stopped, how many there were until then.
fn count(context: &mut Context, ring: &str, mut answer: Answer) -> Result<()> {
    let stop = stop(&answer)?;
    let mut missing = 0;
    // No element is needed as a whole for that.
    while let Some(batch) = answer.next_batch()? {
        for item in &batch.items {
            if let Item::Gap(gap) = item {
                missing = u64::saturating_add(missing, gap.count.unwrap_or(0));
            }
        }
    }
    let summary = answer.summary().copied().unwrap_or_default();
    if context.json {
        let mut value = json::query_summary(&summary);
        value["missing"] = json!(missing);
        context.out.json(&value)?;
    } else {
        context.out.line(summary.elements)?;
    }
    context.out.flush()?;
    not_stopped(&stop, ring)
}

/// What ends the answer early if this process is told to stop.
fn stop(answer: &Answer) -> Result<Stop> {
    let stop = Stop::on_signals()?;
    let stopper = answer.stopper();
    when_stopped(&stop, move || stopper.stop())?;
    Ok(stop)
}

fn not_stopped(stop: &Stop, ring: &str) -> Result<()> {
    match stop.is_set() {
        true => Err(Error::busy(format!("the query of {ring} was stopped before its end"))),
        false => Ok(()),
    }
}

fn show(
    context: &mut Context,
    cluster: &Cluster,
    ring: &str,
    mut answer: Answer,
    form: Form,
    with_summary: bool,
) -> Result<()> {
    let mut elements = Elements::new(&cluster.ring(ring)?.spec, form)?;
    let stop = stop(&answer)?;
    let out = &mut context.out;
    let (mut joined, mut raw) = (Vec::new(), Raw::default());
    // Batch by batch, so that what was found is seen when it was found.
    while let Some(batch) = answer.next_batch()? {
        if form == Form::Raw {
            raw.write(&batch, out)?;
        } else {
            let mut write = |event: Event<'_>| elements.write(&event, out).map(|()| true);
            forebay_client::answer::visit_batch(&batch, &mut joined, &mut write)?;
        }
        if !with_summary {
            out.flush()?;
        }
    }
    if with_summary && let Some(summary) = answer.summary() {
        match form {
            Form::Json | Form::JsonHex => out.json(&json::query_summary(summary))?,
            Form::Raw => {}
            Form::Lines | Form::Hex => {
                out.flush()?;
                say(&format!(
                    "{}, {}; {} read from the device",
                    human::some(summary.elements, "element"),
                    summary.bytes,
                    summary.read
                ));
            }
        }
    }
    out.flush()?;
    // A tail has no end but this.
    if with_summary { not_stopped(&stop, ring) } else { Ok(()) }
}
