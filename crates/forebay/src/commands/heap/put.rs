//! `forebay heap put`: files or a batch become records. Their ids are printed when they are committed.

use super::records::{Format, Input, stopped, whole};
use super::{abort, open};
use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use clap::Args;
use forebay_client::heaps::{Heap, NewRoot, RecordId, check_record};
use forebay_env::real::clock;
use forebay_env::real::file::{self, File};
use forebay_env::real::signal::Stop;
use forebay_model::{Bytes, Error, Kind, Moment, Rate, Result};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to put, and where.
#[derive(Args)]
pub struct PutArgs {
    /// The heap
    name: String,
    /// Files, each of which is a record; - is all of standard input as one. Without any, standard input has many
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many records come on standard input
    #[arg(long, value_enum, default_value = "lines", conflicts_with = "files")]
    format: Format,
    /// Commit after so many records, and at the end; without, once at the end, so that all are kept or none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: Option<u64>,
    /// The root that the commits name: last (the last record of each), none, or an id; the one before if left out
    #[arg(long, value_name = "ID", value_parser = root)]
    root: Option<Root>,
}

/// The root to be.
#[derive(Debug, Clone, Copy)]
enum Root {
    Last,
    Given(NewRoot),
}

fn root(text: &str) -> Result<Root> {
    if text == "last" { Ok(Root::Last) } else { super::root(text).map(Root::Given) }
}

/// Puts it.
pub fn run(context: &mut Context, args: &PutArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    context.with_cluster(|context, cluster| {
        let heap = open(cluster, &args.name)?;
        let live = Live::new(!context.json);
        let began = clock::now();
        let mut putting =
            Putting { context, args, heap, live, began, bytes: 0, sent: 0, committed: 0, is_unknown: false };
        let result = putting.all(&stop);
        result.map_err(|error| putting.give_up(error))
    })
}

/// Records on their way.
struct Putting<'a> {
    context: &'a mut Context,
    args: &'a PutArgs,
    heap: Heap,
    live: Live,
    began: Moment,
    bytes: u64,
    /// Records that were taken in, and those of them that were committed.
    sent: u64,
    committed: u64,
    /// Whether it is not known if the last commit was made.
    is_unknown: bool,
}

impl Putting<'_> {
    fn all(&mut self, stop: &Stop) -> Result<()> {
        if self.args.files.is_empty() {
            let mut input = Input::new(stop)?;
            while let Some(record) = input.record(self.args.format)? {
                self.one(&record, stop)?;
            }
        }
        for path in &self.args.files {
            let record = read(path, stop)?;
            self.one(&record, stop)?;
        }
        // A root that is named is committed also where nothing is put.
        let names_root = self.sent == 0 && matches!(self.args.root, Some(Root::Given(_)));
        if self.sent > self.committed || names_root { self.commit() } else { Ok(()) }
    }

    fn one(&mut self, record: &[u8], stop: &Stop) -> Result<()> {
        if stop.is_set() {
            return Err(stopped());
        }
        self.heap.send(record)?;
        self.sent += 1;
        self.bytes += record.len() as u64;
        if self.live.is_due() {
            let rate = Rate::of(Bytes(self.bytes), clock::now().since(self.began));
            self.live.show(&format!("putting {}, {}, {rate}", human::some(self.sent, "record"), Bytes(self.bytes)));
        }
        if self.args.commit_every == Some(self.sent - self.committed) { self.commit() } else { Ok(()) }
    }

    /// Commits what was taken in, and tells the ids.
    fn commit(&mut self) -> Result<()> {
        let ids = self.heap.settle()?;
        let root = match self.args.root {
            None => NewRoot::Same,
            Some(Root::Given(root)) => root,
            Some(Root::Last) => ids.last().map_or(NewRoot::Same, |last| NewRoot::Record(*last)),
        };
        let commit = self.heap.commit(root);
        self.is_unknown = commit.as_ref().is_err_and(|error| error.kind == Kind::Disconnected);
        let (commit, first) = (commit?, self.committed + 1);
        self.committed = self.sent;
        self.live.clear();
        for (id, number) in ids.iter().zip(first..) {
            self.tell(number, *id, commit)?;
        }
        self.context.out.flush()
    }

    fn tell(&mut self, number: u64, id: RecordId, commit: u64) -> Result<()> {
        if self.context.json {
            self.context.out.json(&json!({ "record": number, "id": id.to_string(), "commit": commit }))
        } else {
            self.context.out.line(id)
        }
    }

    /// Undoes what is not committed; what is said then.
    fn give_up(&mut self, error: Error) -> Error {
        self.live.clear();
        abort(&mut self.heap);
        let first = match self.committed {
            0 => None,
            1 => Some("the first record was".to_string()),
            count => Some(format!("the first {} were", human::count(count))),
        };
        let rest = match (first, self.is_unknown) {
            (None, false) => "nothing was kept".to_string(),
            (None, true) => "all that was put was kept, or nothing".to_string(),
            (Some(first), false) => format!("{first} committed before, and nothing after was kept"),
            (Some(first), true) => format!("{first} committed before; all that was put after was kept, or nothing"),
        };
        Error::new(error.kind, format!("putting records into {}: {}; {rest}", self.args.name, error.message))
    }
}

/// The content of a file, or all of standard input.
fn read(path: &Path, stop: &Stop) -> Result<Vec<u8>> {
    let is_input = path == Path::new("-");
    let record = if is_input {
        Input::new(stop)?.whole()?
    } else if file::is_directory(path) {
        return Err(Error::usage(format!("{} is a directory; name a file", path.display())));
    } else {
        let content = whole(&mut File::open(path)?);
        content.map_err(|error| Error::device(format!("reading {} failed: {error}", path.display())))?
    };
    let name = if is_input { "standard input".to_string() } else { path.display().to_string() };
    check_record(record.len()).map_err(|error| error.of(name))?;
    Ok(record)
}
