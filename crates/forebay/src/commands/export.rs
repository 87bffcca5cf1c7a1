//! `forebay export`: what a query finds, in the formats of others.

use crate::context::{Context, when_stopped};
use crate::show::live::{Live, bar};
use crate::show::{human, say};
use clap::{Args, ValueEnum};
use forebay_capture::LinkType;
use forebay_capture::export::{ArrowFormat, Column, ColumnKind, Exporter, Format, Totals, exporter};
use forebay_client::{Answer, Cluster, Event};
use forebay_env::real::file::{self, NewFile};
use forebay_env::real::signal::Stop;
use forebay_model::key::{KeySet, KeyType, KeyValue, MAX_KEYS};
use forebay_model::ring::{Content, RingSpec};
use forebay_model::{Error, Kind, Result};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What to export, and where to.
#[derive(Args)]
pub struct ExportArgs {
    /// The ring
    ring: String,
    /// What to look for, as in `forebay query`; everything if left out
    #[arg(default_value = "")]
    query: String,
    /// The file; - is standard output
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The format; guessed from the file's name if left out
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// Overwrite the file if it is there
    #[arg(long)]
    force: bool,
}

/// A format to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Packets, gaps included
    Pcapng,
    /// Packets, no gaps
    Pcap,
    /// The bytes, one element behind the other
    Raw,
    /// The bytes, each element behind its length in four bytes, least significant first
    Lp,
    /// Sequence, time, lengths and keys as text
    Csv,
    /// The same as an Arrow file
    Arrow,
}

impl FormatName {
    fn guess(path: &Path) -> Option<FormatName> {
        Some(match path.extension()?.to_str()? {
            "pcapng" | "ntar" => FormatName::Pcapng,
            "pcap" | "cap" => FormatName::Pcap,
            "raw" | "bin" | "dat" => FormatName::Raw,
            "lp" => FormatName::Lp,
            "csv" => FormatName::Csv,
            "arrow" | "feather" | "ipc" => FormatName::Arrow,
            _ => return None,
        })
    }

    /// The exporter's word for it.
    pub fn of(self, spec: &RingSpec) -> Result<Format> {
        let link = || match spec.content {
            Content::Packets(link) => u16::try_from(link).map(LinkType).map_err(|_| {
                Error::usage(format!("{} has packets of link type {link}, which pcap cannot say", spec.name))
            }),
            Content::Opaque => Err(Error::usage(format!(
                "{} has no packets: export it as raw, lp, csv or arrow (or create rings of packets with --packets)",
                spec.name
            ))),
        };
        let columns = || -> Result<Vec<Column>> {
            let keys = KeySet::parse(&spec.keys)?;
            let column = |key: &forebay_model::key::KeySpec| Column {
                name: key.name().to_string(),
                kind: match key.key_type() {
                    KeyType::Unsigned { .. } => ColumnKind::Number,
                    _ => ColumnKind::Text,
                },
            };
            Ok(keys.specs().iter().map(column).collect())
        };
        Ok(match self {
            FormatName::Pcapng => Format::Pcapng { link: link()?, interface: Some(spec.name.clone()) },
            FormatName::Pcap => Format::Pcap(link()?),
            FormatName::Raw => Format::Raw,
            FormatName::Lp => Format::LengthPrefixed,
            FormatName::Csv => Format::Csv(columns()?),
            FormatName::Arrow => Format::Arrow(ArrowFormat::File, columns()?),
        })
    }
}

/// Exports.
pub fn run(context: &mut Context, args: &ExportArgs) -> Result<()> {
    let to_stdout = args.to == Path::new("-");
    let Some(format) = args.format.or_else(|| FormatName::guess(&args.to)) else {
        return Err(Error::usage(format!(
            "the name {} does not say a format; give --format pcapng, pcap, raw, lp, csv or arrow",
            args.to.display()
        )));
    };
    context.with_cluster(|context, cluster| {
        let spec = cluster.ring(&args.ring)?.spec;
        let format = format.of(&spec)?;
        // A bad query is said before a file is made.
        let answer = cluster.query(&args.ring, &args.query)?;
        let file = if to_stdout { None } else { Some(NewFile::begin(&args.to, args.force).map_err(forcible)?) };
        let (out, name): (Box<dyn Write + Send>, String) = match &file {
            None => (Box::new(file::stdout()?), "standard output".to_string()),
            Some(file) => (Box::new(file.writer()?), args.to.display().to_string()),
        };
        let stop = Stop::on_signals()?;
        let totals = write(cluster, &spec, answer, exporter(format, out, &name)?, &stop, !context.json)?;
        if let Some(file) = file {
            // Also if it was stopped: what was found until then is whole.
            file.keep().map_err(forcible)?;
        }
        let text = sentence(&totals, &name);
        if context.json && !to_stdout {
            context.out.json(&json!({
                "to": name, "elements": totals.elements, "payload_bytes": totals.payload, "gaps": totals.gaps,
                "gaps_left_out": totals.left_out, "expired": totals.expired, "stopped": stop.is_set(),
            }))?;
        } else if to_stdout {
            say(&text);
        } else {
            context.out.line(text)?;
        }
        if stop.is_set() { Err(Error::busy(format!("exporting to {name} was stopped before its end"))) } else { Ok(()) }
    })
}

fn forcible(error: Error) -> Error {
    match error.kind {
        Kind::Exists => Error::exists(format!("{error}; --force overwrites it")),
        _ => error,
    }
}

/// Hands everything that `answer` finds to `exporter`.
pub fn write(
    cluster: &Cluster,
    spec: &RingSpec,
    mut answer: Answer,
    mut exporter: Box<dyn Exporter + Send>,
    stop: &Stop,
    with_bar: bool,
) -> Result<Totals> {
    let stopper = answer.stopper();
    when_stopped(stop, move || stopper.stop())?;
    // Without keys an element costs no text.
    let keys = if exporter.has_keys() { spec.key_set()? } else { KeySet::none() };
    let mut values = vec![KeyValue::MISSING; keys.len()];
    let mut texts = vec![String::new(); keys.len()];
    let mut live = Live::new(with_bar);
    let ring = cluster.ring(&spec.name)?;
    let (first, next) = (ring.first_sequence, ring.next_sequence);
    answer.for_each(|event| {
        match event {
            Event::Element { sequence, time, payload, caller, cut } => {
                keys.extract(payload, caller, &mut values);
                let mut named = [("", ""); MAX_KEYS];
                let mut known = 0;
                for ((key, value), text) in keys.specs().iter().zip(&values).zip(&mut texts) {
                    if *value != KeyValue::MISSING {
                        text.clear();
                        // Writing to a string cannot fail.
                        let _ = write!(text, "{}", key.show(*value));
                        named[known] = (key.name(), text);
                        known += 1;
                    }
                }
                exporter.element_cut(sequence, time, &[payload], &named[..known], cut)?;
                if live.is_due() {
                    let (done, total) = (sequence.saturating_sub(first), next.saturating_sub(first));
                    live.show(&format!("exporting {}", bar(done, total, 40)));
                }
            }
            Event::Gap(gap) => exporter.gap(&gap)?,
            Event::Expired { from, to } => exporter.expired(from..to)?,
        }
        Ok(true)
    })?;
    exporter.finish()
}

fn sentence(totals: &Totals, name: &str) -> String {
    let mut text = format!("Exported {} to {name}", human::some(totals.elements, "element"));
    if totals.payload > 0 {
        text += &format!(", {}", forebay_model::Bytes(totals.payload));
    }
    match (totals.gaps, totals.left_out) {
        (0, 0) => {}
        (gaps, 0) => text += &format!("; {} marked in it", human::some(gaps, "gap")),
        (_, left) => text += &format!("; the format has no place for {}, left out", human::some(left, "gap")),
    }
    if totals.expired > 0 {
        text += &format!("; {} had expired", human::some(totals.expired, "element"));
    }
    text + "."
}
