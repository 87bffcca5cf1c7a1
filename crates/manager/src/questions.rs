//! What is answered without a commit: from what is committed, so that nothing is told that a crash could undo.

use crate::draft::View;
use crate::engine::Snapshot;
use crate::keys;
use crate::manager::{Manager, Now};
use crate::operations::{is_left_to_rebuild, unverified};
use crate::place::{self, Found};
use crate::principal::{Principal, Wanted};
use crate::records::{Inode, KeyRecord, Named, UserRecord, VolumeRecord, Writers, decode};
use forebay_model::{Error, Result};
use forebay_wire::control::access::{Key, Keys, User};
use forebay_wire::control::cluster::Map;
use forebay_wire::control::files::{After, AskDegraded, Degraded, Displaced, OpenFile, OpenFiles, Unscrubbed};
use forebay_wire::control::names::{Entry, FileId, List, Listed, MOST_ENTRIES, Page, Stat};
use forebay_wire::control::volumes::Volume;
use forebay_wire::control::{Question, Reply};

impl Manager {
    /// Nodes and targets, and where copies of the metadata are.
    pub(crate) fn told_map(&self) -> Map {
        self.cluster.map(self.copying.told())
    }

    /// Answers a question. It costs no commit.
    pub fn ask(&mut self, now: Now, by: &Principal, question: &Question) -> Result<Reply> {
        let by = &*self.met(now, by)?;
        let view = self.view()?;
        match question {
            Question::Stat(asked) => stat(view, by, asked).map(Reply::Entry),
            Question::List(asked) => list(view, by, asked).map(Reply::Page),
            Question::Volumes => volumes(view).map(Reply::Volumes),
            Question::Users => users(view).map(Reply::Users),
            Question::Keys(asked) => access_keys(view, by, asked).map(Reply::Keys),
            Question::OpenToRead(asked) => self.open_to_read(now, by, asked),
            Question::Renew(asked) => self.renew(now, by, asked).map(Reply::Grants),
            Question::OpenFiles(asked) => open_files(view, by, asked).map(Reply::OpenFiles),
            Question::Unscrubbed(asked) => {
                let (files, more) = files_with(view, by, (b'S', "scrubbed"), asked)?;
                Ok(Reply::Unscrubbed(Unscrubbed { files, more }))
            }
            Question::Degraded(asked) => degraded(view, by, asked).map(Reply::Degraded),
            Question::GivenUp(asked) => self.given_up(now, by, asked).map(|()| Reply::Done),
            Question::Relocating(asked) => self.relocating(now, by, asked).map(Reply::Relocation),
            Question::Displaced(asked) => {
                let (files, more) = files_with(view, by, (keys::MOVES, "moved"), asked)?;
                Ok(Reply::Displaced(Displaced { files, more }))
            }
            Question::Unverified(asked) => unverified(view, now.wall, by, asked).map(Reply::Unverified),
            Question::OpenRing(asked) => self.open_ring(now, by, asked).map(Reply::Grant),
            Question::OpenHeap(asked) => self.open_heap(now, by, asked).map(Reply::Grant),
            Question::Map => Ok(Reply::Map(self.told_map())),
            Question::Targets => self.targets(now, by).map(Reply::Targets),
            // Whoever can wait is answered by [`Manager::ask_or_wait`].
            Question::Listen(_) | Question::MakeWay(_) => {
                let answer = self.ask_or_wait(now, by, question, false)?;
                Ok(answer.unwrap_or_else(|| Manager::nothing_yet(question)))
            }
        }
    }
}

/// A file or directory.
fn stat(view: &dyn Snapshot, by: &Principal, asked: &Stat) -> Result<Entry> {
    let Found { file, inode } = place::find(&view, by, &asked.place)?;
    Ok(inode.entry(file))
}

/// A part of a directory: what comes behind a name, so that what is made or removed between two parts moves nothing.
fn list(view: &dyn Snapshot, by: &Principal, asked: &List) -> Result<Page> {
    let found = place::find(&view, by, &asked.place)?;
    place::require_directory(&found)?;
    by.require(found.file, &found.inode, Wanted::READ)?;
    if asked.attributes {
        by.require(found.file, &found.inode, Wanted::SEARCH)?;
    }
    let mut from = keys::name(found.file, &asked.after);
    let prefix = from.len() - asked.after.len();
    if !asked.after.is_empty() {
        // The first key behind that name.
        from.push(0);
    }
    let most = asked.most.clamp(1, MOST_ENTRIES) as usize;
    let mut pairs = view.scan(&from, &keys::behind_names(found.file), most + 1)?;
    let more = pairs.len() > most;
    pairs.truncate(most);
    let mut entries = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let Named { file, kind } = decode(&key, &value)?;
        let name = String::from_utf8(key[prefix..].to_vec())
            .map_err(|_| Error::damaged(format!("a name in {} is not UTF-8; restore the metadata", found.file)))?;
        let attributes = match asked.attributes {
            true => Some(view.require::<Inode>(&keys::inode(file))?.attributes),
            false => None,
        };
        entries.push(Listed { name, file, kind, attributes });
    }
    Ok(Page { entries, more })
}

fn volumes(view: &dyn Snapshot) -> Result<Vec<Volume>> {
    let (from, to) = keys::all(b'V');
    let mut volumes = Vec::new();
    for (key, value) in view.scan(&from, &to, usize::MAX)? {
        let record: VolumeRecord = decode(&key, &value)?;
        volumes.push(record.volume(keys::number(&key)));
    }
    Ok(volumes)
}

fn users(view: &dyn Snapshot) -> Result<Vec<User>> {
    let (from, to) = keys::all(b'U');
    let mut users = Vec::new();
    for (key, value) in view.scan(&from, &to, usize::MAX)? {
        let record: UserRecord = decode(&key, &value)?;
        let Some(user) = keys::user_of(&key) else { return Err(Error::damaged("a user has a wrong key")) };
        users.push(User { user, name: record.name, groups: record.groups });
    }
    Ok(users)
}

fn access_keys(view: &dyn Snapshot, by: &Principal, asked: &Keys) -> Result<Vec<Key>> {
    by.require_self(asked.user, "see the keys of another user")?;
    let missing = || Error::missing(format!("there is no user {}; ask for all of them", asked.user));
    let user: UserRecord = view.read(&keys::user(asked.user))?.ok_or_else(missing)?;
    let mut issued = Vec::with_capacity(user.keys.len());
    for key in user.keys {
        let record: KeyRecord = view.require(&keys::access_key(key))?;
        issued.push(Key { key, user: asked.user, label: record.label, issued: record.issued });
    }
    issued.sort_by_key(|issued| issued.key);
    Ok(issued)
}

fn open_files(view: &dyn Snapshot, by: &Principal, asked: &After) -> Result<OpenFiles> {
    by.require_root("see who writes what")?;
    let (pairs, more) = part(view, b'W', asked)?;
    let mut files = Vec::new();
    for (key, value) in pairs {
        let Writers(writers) = decode(&key, &value)?;
        let file = FileId(keys::number(&key));
        files.extend(writers.iter().map(|writer| OpenFile { file, client: writer.client, since: writer.since }));
    }
    Ok(OpenFiles { files, more })
}

/// A part of the list of files of which something is to be rebuilt.
fn degraded(view: &dyn Snapshot, by: &Principal, asked: &AskDegraded) -> Result<Degraded> {
    let mut from = After { file: asked.file, most: asked.most };
    loop {
        let (mut files, more) = files_with(view, by, (keys::DEGRADED, "rebuilt"), &from)?;
        let Some(last) = files.last().copied().filter(|_| asked.left) else { return Ok(Degraded { files, more }) };
        let mut left = Vec::with_capacity(files.len());
        for file in files.drain(..) {
            if is_left_to_rebuild(view, by, file)? {
                left.push(file);
            }
        }
        // Whoever asks goes on behind the last one that it is told.
        if !left.is_empty() || !more {
            return Ok(Degraded { files: left, more });
        }
        from.file = last;
    }
}

/// A part of the list of files with which something is to be done, and whether there are more.
fn files_with(
    view: &dyn Snapshot,
    by: &Principal,
    (prefix, what): (u8, &str),
    asked: &After,
) -> Result<(Vec<FileId>, bool)> {
    by.require_root(&format!("see what is to be {what}"))?;
    let (pairs, more) = part(view, prefix, asked)?;
    Ok((pairs.iter().map(|(key, _)| FileId(keys::number(key))).collect(), more))
}

/// A part of a list of files, and whether there are more.
fn part(view: &dyn Snapshot, prefix: u8, asked: &After) -> Result<(Vec<crate::engine::Pair>, bool)> {
    let (mut from, to) = keys::all(prefix);
    from.extend_from_slice(&asked.file.0.saturating_add(1).to_be_bytes());
    let most = asked.most.clamp(1, MOST_ENTRIES) as usize;
    let mut pairs = view.scan(&from, &to, most + 1)?;
    let more = pairs.len() > most;
    pairs.truncate(most);
    Ok((pairs, more))
}

#[cfg(test)]
mod tests;
