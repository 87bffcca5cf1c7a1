//! `put`, `get`, `ls`, `stat`, `rm`, `mkdir` and `mv` of a cluster on the network: its files by their names.

use super::put::{PutArgs, progress};
use super::several::{removed_before, with};
use crate::args::{self, StripingArgs};
use crate::context::Context;
use crate::show::live::Live;
use crate::show::{human, json, out, say};
use bytes::Bytes as Slice;
use clap::Args;
use forebay_client::file::options::Options;
use forebay_client::files::blocking::{FilesClient, OpenFile};
use forebay_env::real::file::{self, File, NewFile};
use forebay_env::real::signal::{Ready, Stop};
use forebay_env::real::{clock, random};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::names::{Attributes, FileKind, Listed};
use forebay_wire::control::volumes::{Policy, Volume};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// What is moved at once.
const PIECE: usize = 4 << 20;
/// The mode of files that are made, if nothing is said.
const FILE_MODE: u32 = 0o644;
/// What files are called that are to have a name once all is in them; a number behind it tells one from another.
const DRAFT: &str = ".forebay.put.";
/// How many hexadecimal digits it has.
const DIGITS: usize = 16;

/// A directory.
#[derive(Args)]
pub struct MkdirArgs {
    /// Its name, such as /data
    name: String,
    /// Who may do what in it, in octal
    #[arg(long, value_name = "MODE", value_parser = args::mode, default_value = "755")]
    mode: u32,
}

/// What gets another name.
#[derive(Args)]
pub struct MvArgs {
    /// The file or directory
    from: String,
    /// Its name from now on
    to: String,
    /// Replace a file, or an empty directory, that has the name
    #[arg(long)]
    force: bool,
}

/// Makes a directory.
pub fn mkdir(context: &mut Context, args: &MkdirArgs) -> Result<()> {
    let files = context.files()?;
    files.make_directory(&args.name, args.mode)?;
    match context.json {
        true => context.out.json(&json!({ "type": "directory", "name": args.name })),
        false => context.out.line(format_args!("Made {}.", args.name)),
    }
}

/// Gives something another name.
pub fn mv(context: &mut Context, args: &MvArgs) -> Result<()> {
    let files = context.files()?;
    let moved = files.rename(&args.from, &args.to, !args.force).map_err(forcible)?;
    match context.json {
        true => context.out.json(&entry(&args.to, moved.file.0, &moved.attributes)),
        false => context.out.line(format_args!("{} is {} now.", args.from, args.to)),
    }
}

/// Keeps a file, or standard input. It has the name when all of it is durable.
pub fn put(context: &mut Context, files: &FilesClient, args: &PutArgs) -> Result<()> {
    let PutArgs { file: from, name, force, mode, striping } = args;
    let (name, force) = (name.as_str(), *force);
    let (mut source, size) = match from == Path::new("-") {
        true => (file::stdin()?, None),
        false if file::is_directory(from) => {
            return Err(Error::usage(format!("{} is a directory; name a file", from.display())));
        }
        false => {
            let source = File::open(from)?;
            let size = source.size().ok().map(|size| size.0).filter(|size| *size > 0);
            (source, size)
        }
    };
    let there = if_there(files.stat(name))?.map(|entry| entry.attributes);
    if !force && there.is_some() {
        return Err(Error::exists(format!("there is {name} already; --force replaces it")));
    }
    // What was nobody else's to read stays so.
    let replaced = there.filter(|there| there.kind == FileKind::File).map(|there| there.mode);
    let stop = Stop::on_signals()?;
    let began = clock::now();
    let (draft, file) = create_draft(files, name, mode.or(replaced), *striping)?;
    let mut live = Live::new(!context.json);
    let copied = copy_in(&mut source, &file, &stop, |done| {
        if live.is_due() {
            live.show(&progress("putting", done, size, began));
        }
    });
    drop(live);
    let done = give_name(files, (&draft, file), copied, name, force).map_err(forcible)?;
    let seconds = clock::now().since(began).as_secs_f64();
    // The file is there all the same.
    let over = files.volumes().of(directory(name)).ok().filter(|volume| volume.over_since.is_some());
    if context.json {
        let over = over.as_ref().map(over_quota);
        return context.out.json(&json!({ "name": name, "size_bytes": done, "seconds": seconds, "over_quota": over }));
    }
    if let Some(over) = over {
        say(&format!("forebay: {}", warning(&over)));
    }
    context.out.line(format_args!("Put {} into {name}.", Bytes(done)))
}

fn over_quota(over: &Volume) -> Value {
    json!({
        "volume": over.volume, "used_bytes": over.bytes.0, "soft_bytes": over.quota.soft_bytes.map(|bytes| bytes.0),
        "files": over.files, "soft_files": over.quota.soft_files, "over_since": over.over_since.map(json::time),
    })
}

fn warning(over: &Volume) -> String {
    let bytes = over.quota.soft_bytes.filter(|soft| over.bytes > *soft).map(|soft| format!("{} of {soft}", over.bytes));
    let files =
        over.quota.soft_files.filter(|soft| over.files > *soft).map(|soft| format!("{} of {soft} files", over.files));
    let said: Vec<String> = bytes.into_iter().chain(files).collect();
    format!(
        "volume {} holds more than its soft quota since {}: {}; remove something, for after a week nothing more is taken",
        over.volume,
        over.over_since.map(human::clock).unwrap_or_default(),
        said.join(" and ")
    )
}

/// The directory in which a name is.
fn directory(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The directory in which a name is, as it is called itself.
fn directory_of(name: &str) -> &str {
    match directory(name) {
        "" => "/",
        directory => directory,
    }
}

/// What was found under a name, or that there is nothing. Whatever else goes wrong says nothing of that.
fn if_there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind == Kind::Missing => Ok(None),
        found => found.map(Some),
    }
}

/// Makes a file that is to have a name once there is something in it, as its volume says or as it is asked for; what it is called
/// until then.
pub(super) fn create_draft(
    files: &FilesClient,
    name: &str,
    mode: Option<u32>,
    striping: StripingArgs,
) -> Result<(String, OpenFile)> {
    let policy = match striping.is_any() {
        true => Some(striping.policy(files.volumes().of(directory(name))?.policy)),
        false => None,
    };
    let (draft, mode) = (draft(name), mode.unwrap_or(FILE_MODE));
    let create = |policy| files.create(&draft, mode, policy, Options::default());
    let file = match (create(policy), policy) {
        // The volume's number is the most that its files have, and not one that anybody asked for: as many as there are will do.
        (Err(error), Some(policy)) if error.kind == Kind::Refused && !striping.is_wide_as_said() => {
            create(Some(Policy { targets: 0, ..policy }))?
        }
        (made, _) => made?,
    };
    Ok((draft, file))
}

/// Closes such a file and gives it its name, if all that was to be in it is; it is not if filling it was stopped, which gives nothing.
pub(super) fn give_name<T>(
    files: &FilesClient,
    (draft, file): (&str, OpenFile),
    filled: Result<Option<T>>,
    name: &str,
    force: bool,
) -> Result<T> {
    let was_stopped = matches!(filled, Ok(None));
    let named = filled.and_then(|filled| {
        let stopped = || Error::busy(format!("putting {name} was stopped before its end"));
        let filled = filled.ok_or_else(stopped)?;
        file.close()?;
        files.rename(draft, name, !force)?;
        Ok(filled)
    });
    // Half of it helps nobody.
    named.map_err(|error| match if_there(files.remove(draft)) {
        Ok(_) if was_stopped => with(error, "nothing of it stays"),
        Ok(_) => error,
        Err(second) => {
            say(&format!(
                "forebay: what was written of {name} was not removed: {second}; `forebay rm --unfinished {}` removes it",
                directory_of(name)
            ));
            error
        }
    })
}

/// A name beside another, that nobody else has, as short as it may be whatever that one is.
fn draft(name: &str) -> String {
    format!("{}/{DRAFT}{:0DIGITS$x}", directory(name), random::number())
}

/// Whether that is the name of what is being put, or was left by a put that was killed.
fn is_draft(name: &str) -> bool {
    let number = name.strip_prefix(DRAFT);
    number.is_some_and(|n| n.len() == DIGITS && n.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')))
}

/// Copies all of a source, and gives how much that is; nothing if it was stopped before the end.
fn copy_in(source: &mut File, file: &OpenFile, stop: &Stop, mut shown: impl FnMut(u64)) -> Result<Option<u64>> {
    let mut done = 0;
    loop {
        if stop.wait_input(&*source, None)? == Ready::Stopped {
            return Ok(None);
        }
        let mut buffer = vec![0; PIECE];
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(Some(done)),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::device(format!("reading the source failed: {error}"))),
        };
        buffer.truncate(count);
        file.write_at(Bytes(done), Slice::from(buffer))?;
        done += count as u64;
        shown(done);
    }
}

/// Writes bytes of a file into another, or to standard output.
pub fn get(
    context: &mut Context,
    files: &FilesClient,
    name: &str,
    to: &Path,
    (offset, length): (Bytes, Option<Bytes>),
    force: bool,
) -> Result<()> {
    let (stop, file) = (Stop::on_signals()?, files.open(name, Options::default())?);
    let size = file.size()?;
    let end = length.map_or(size, |length| Bytes(offset.0.saturating_add(length.0)).min(size));
    let due = end.0.saturating_sub(offset.0);
    let to_stdout = to == Path::new("-");
    let (began, mut live) = (clock::now(), Live::new(!context.json && !to_stdout));
    let mut shown = |done: u64| {
        if live.is_due() {
            live.show(&progress("getting", done, Some(due), began));
        }
    };
    let read = |at, length| file.read_slices(at, length);
    if to_stdout {
        copy_out((read, name), (offset, end), &stop, |bytes| context.out.bytes(bytes), &mut shown)?;
        context.out.flush()?;
        return file.close();
    }
    let mut target = NewFile::begin(to, force).map_err(forcible)?;
    let place = to.display();
    let write = |bytes: &[u8]| target.write_all(bytes).map_err(|error| out::trouble_with(&place, &error));
    let copied = copy_out((read, name), (offset, end), &stop, write, &mut shown);
    drop(live);
    let done = copied?;
    file.close()?;
    target.keep().map_err(forcible)?;
    match context.json {
        true => context.out.json(&json!({ "name": name, "to": place.to_string(), "bytes": done })),
        false => context.out.line(format_args!("Got {} of {name} into {place}.", Bytes(done))),
    }
}

/// Hands over what `read` gives from a place on, and up to a length; how much it was.
fn copy_out(
    (read, name): (impl Fn(Bytes, Bytes) -> Result<Vec<Slice>>, &str),
    (from, end): (Bytes, Bytes),
    stop: &Stop,
    mut take: impl FnMut(&[u8]) -> Result<()>,
    shown: &mut impl FnMut(u64),
) -> Result<u64> {
    let mut at = from;
    while at < end {
        if stop.is_set() {
            return Err(Error::busy("it was stopped before its end"));
        }
        let pieces = read(at, Bytes(PIECE as u64).min(end - at)).map_err(|error| error.of(name))?;
        if pieces.is_empty() {
            return Err(Error::busy(format!(
                "{name} became shorter while it was read: {end} of it were to be read, and it ends at {at}; get it again"
            )));
        }
        for piece in pieces {
            take(&piece)?;
            at += Bytes(piece.len() as u64);
        }
        shown(at.0 - from.0);
    }
    Ok(at.0 - from.0.min(at.0))
}

/// Lists a directory, or says what a file is.
pub fn ls(context: &mut Context, files: &FilesClient, name: &str) -> Result<()> {
    if files.stat(name)?.attributes.kind == FileKind::File {
        return stat(context, files, name);
    }
    let (mut after, mut any) = (String::new(), false);
    loop {
        let (entries, more) = files.list(name, &after)?;
        for listed in &entries {
            any = true;
            show(context, name, listed)?;
        }
        match entries.into_iter().next_back().filter(|_| more) {
            Some(last) => after = last.name,
            None => break,
        }
    }
    if !any && !context.json {
        context.out.line("Nothing here; `forebay put FILE /name` makes a file.")?;
    }
    Ok(())
}

fn show(context: &mut Context, directory: &str, listed: &Listed) -> Result<()> {
    let name = format!("{}/{}", directory.trim_end_matches('/'), listed.name);
    let Some(attributes) = &listed.attributes else { return context.out.line(name) };
    if context.json {
        return context.out.json(&entry(&name, listed.file.0, attributes));
    }
    let size = match attributes.kind {
        FileKind::File | FileKind::Ring => attributes.size.to_string(),
        FileKind::Heap => "heap".to_string(),
        FileKind::Directory => human::some(attributes.entries, "entry"),
    };
    context.out.line(format_args!("{}  {size:>12}  {name}", human::clock(attributes.modified)))
}

/// Everything about a file or directory.
pub fn stat(context: &mut Context, files: &FilesClient, name: &str) -> Result<()> {
    let found = files.stat(name)?;
    let fields = entry(name, found.file.0, &found.attributes);
    if context.json {
        return context.out.json(&fields);
    }
    for (field, value) in fields.as_object().into_iter().flatten() {
        context.out.line(format_args!("{field:14} {}", value.as_str().map_or(value.to_string(), str::to_string)))?;
    }
    Ok(())
}

/// Removes a file, or an empty directory.
pub fn rm(context: &mut Context, files: &FilesClient, name: &str) -> Result<()> {
    match files.stat(name)?.attributes.kind {
        FileKind::File | FileKind::Ring | FileKind::Heap => files.remove(name)?,
        FileKind::Directory => files.remove_directory(name)?,
    }
    match context.json {
        true => context.out.json(&json!({ "name": name, "removed": true })),
        false => context.out.line(format_args!("Removed {name}.")),
    }
}

/// Removes from a directory what is being put into it, and what puts that were killed have left there.
pub fn rm_unfinished(context: &mut Context, files: &FilesClient, directory: &str) -> Result<()> {
    if files.stat(directory)?.attributes.kind != FileKind::Directory {
        return Err(Error::usage(format!("{directory} is no directory; name the one into which something was put")));
    }
    let mut removed = 0;
    removed_from(files, directory, &mut removed).map_err(|error| removed_before(error, removed, "file"))?;
    match context.json {
        true => context.out.json(&json!({ "removed_unfinished": removed })),
        false => context.out.line(format_args!("Removed {} without a name.", human::some(removed, "file"))),
    }
}

fn removed_from(files: &FilesClient, directory: &str, removed: &mut u64) -> Result<()> {
    let mut after = String::new();
    loop {
        let (entries, more) = files.list(directory, &after)?;
        for listed in entries.iter().filter(|listed| listed.kind == FileKind::File && is_draft(&listed.name)) {
            // It may have its name by now.
            let gone = files.remove(&format!("{}/{}", directory.trim_end_matches('/'), listed.name));
            *removed += u64::from(if_there(gone)?.is_some());
        }
        match entries.into_iter().next_back().filter(|_| more) {
            Some(last) => after = last.name,
            None => return Ok(()),
        }
    }
}

pub(super) fn entry(name: &str, number: u64, attributes: &Attributes) -> Value {
    let kind = match attributes.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Ring => "ring",
        FileKind::Heap => "heap",
    };
    json!({
        "type": kind, "name": name, "size_bytes": attributes.size.0, "entries": attributes.entries,
        "mode": format!("{:04o}", attributes.mode), "owner": attributes.owner, "group": attributes.group,
        "created": json::time(attributes.created), "modified": json::time(attributes.modified),
        "volume": attributes.volume, "file": number,
    })
}

/// The library cannot know what the option is called here.
fn forcible(error: Error) -> Error {
    match error.kind {
        Kind::Exists => Error::exists(format!("{}; --force replaces it", error.message)),
        _ => error,
    }
}

#[cfg(test)]
mod tests;
