//! What clients keep of files without asking anybody, and who is called back before others use these (Panasas ActiveScale, 2004:
//! callbacks that are exclusive, shared, or none).
//!
//! A client keeps something for as long as it is in touch, [`LEASE`] from when it last asked. So who does not answer keeps nothing a
//! second later than that, and what it has open to write is taken from it.
//!
//! Only in memory. What another manager allowed is known of those who write a file from the list of them; those who only read have
//! said durably that they do, and until each of them has said what it keeps, or its lease is over, nobody writes what was there
//! before.

use crate::records::Writer;
use forebay_model::{Error, Moment, Result};
use forebay_wire::control::files::{Caching, Callback, Called, Kept, LEASE, Listen, MOST_KEPT};
use forebay_wire::control::names::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Who was not heard of for so long keeps nothing any more.
const LATE: Duration = LEASE.saturating_add(Duration::from_secs(1));
/// Who was called back so long ago and keeps something all the same loses it, also if it is heard of.
const STUCK: Duration = Duration::from_secs(30);
/// For so long after somebody wanted a file and others were in the way, nobody is let keep anything more of it.
const WANTED: Duration = Duration::from_secs(3);
/// What somebody could keep and did not take up is offered again so late, unless it says the same twice: its reason is not known here.
const DECLINED: Duration = Duration::from_secs(30);
/// What clients keep, or are told that they do not, each a client and a file, at most.
const MOST: usize = 1 << 20;
/// What one client is told at most that it does not keep, though it said so.
pub(crate) const MOST_TAKEN: usize = 1 << 16;
/// The most clients of one access key that say that they keep something.
pub(crate) const MOST_OF_KEY: usize = 1 << 12;

/// Who keeps what.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// The number under which something was said last.
    serial: u64,
    /// Files with this number or a higher one were made since this manager was opened.
    first_known: u64,
    /// Since when this manager is asked.
    opened: Option<Moment>,
    /// Clients that said durably that they keep what they read.
    recorded: BTreeSet<u64>,
    /// Those of them that did so before this manager was opened, and have not said what they keep.
    unheard: BTreeSet<u64>,
    clients: BTreeMap<u64, Client>,
    /// How many of them were let in with each access key, as far as these are counted.
    of_keys: BTreeMap<u64, usize>,
    files: BTreeMap<FileId, BTreeMap<u64, Entry>>,
    count: usize,
    /// How many calls there are of what nobody keeps.
    taken: usize,
    /// Files of which somebody may perhaps keep more again.
    freed: BTreeSet<FileId>,
    /// Files of which somebody did not take up what it could keep, and when it said so last.
    declined: BTreeMap<FileId, Moment>,
    /// Files for which others were called back lately.
    wanted: BTreeMap<FileId, Moment>,
    /// Something that somebody waits for may be there.
    is_changed: bool,
}

/// A client that keeps something.
struct Client {
    /// When it was heard of last.
    heard: Moment,
    /// It has said all that it keeps.
    is_known: bool,
    /// How many parts of all that it keeps it has said, one behind the other.
    parts: u32,
    /// What it was told and has not answered.
    calls: BTreeMap<FileId, Callback>,
    /// The same of what it said that it keeps, and does not.
    taken: BTreeMap<FileId, Callback>,
    /// The access key with which it was let in, if it is counted.
    key: Option<u64>,
}

/// What a client keeps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// So much at most.
    keeps: Caching,
    /// What it was told last.
    allowed: Caching,
    serial: u64,
    write: bool,
    /// Since when it is called back.
    called: Option<Moment>,
}

/// How a client may use a file.
pub(crate) struct Uses {
    /// It is on the list of those that write it; and whether others are.
    pub(crate) writes: bool,
    pub(crate) others_write: bool,
    /// Its mode lets this client read it, or it writes it.
    pub(crate) may_read: bool,
}

/// A client that was called back and is not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silent {
    pub(crate) file: FileId,
    pub(crate) client: u64,
    pub(crate) write: bool,
}

impl Callbacks {
    /// Of a manager of this term, which makes files from this number on; these clients may keep what they read.
    pub(crate) fn from(term: u64, first_known: u64, recorded: BTreeSet<u64>) -> Callbacks {
        Callbacks { serial: term << 40, first_known, unheard: recorded.clone(), recorded, ..Callbacks::default() }
    }

    /// The manager is asked something.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.opened.get_or_insert(now);
    }

    /// A client that was let in with a key says something: it has a place among those with the same key. [`forebay_model::Kind::Busy`]
    /// if there is none.
    pub(crate) fn enter(&mut self, client: u64, key: Option<u64>, now: Moment) -> Result<()> {
        if let Some(key) = key
            && self.clients.get(&client).is_none_or(|state| state.key.is_none())
        {
            let of_key = self.of_keys.entry(key).or_default();
            if *of_key >= MOST_OF_KEY {
                return Err(Error::busy(format!(
                    "{MOST_OF_KEY} clients with access key {key:x} keep something of files, and that is the most; end some, or take another key"
                )));
            }
            *of_key += 1;
            self.heard(client, now).key = Some(key);
        }
        Ok(())
    }

    /// Nothing is kept in memory of a client any more.
    fn drop_client(&mut self, client: u64) {
        let Some(state) = self.clients.remove(&client) else { return };
        self.taken -= state.taken.len();
        if let Some(key) = state.key
            && let Some(of_key) = self.of_keys.get_mut(&key)
        {
            *of_key -= 1;
            if *of_key == 0 {
                self.of_keys.remove(&key);
            }
        }
    }

    /// A client said durably that it keeps what it reads.
    pub(crate) fn record(&mut self, client: u64, now: Moment) {
        self.recorded.insert(client);
        self.heard(client, now);
    }

    fn heard(&mut self, client: u64, now: Moment) -> &mut Client {
        let fresh = || Client {
            heard: now,
            is_known: false,
            parts: 0,
            calls: BTreeMap::new(),
            taken: BTreeMap::new(),
            key: None,
        };
        let state = self.clients.entry(client).or_insert_with(fresh);
        state.heard = state.heard.max(now);
        state
    }

    /// [`forebay_model::Kind::Stale`] if it did not.
    pub(crate) fn require_recorded(&self, client: u64) -> Result<()> {
        match self.recorded.contains(&client) {
            true => Ok(()),
            false => Err(Error::stale(format!(
                "client {client:x} has not said that it keeps what it reads, or was not heard of for long; say so and open again"
            ))),
        }
    }

    /// What a client was told of a file last.
    pub(crate) fn told(&self, file: FileId, client: u64) -> Option<Callback> {
        let Entry { allowed, serial, .. } = *self.files.get(&file)?.get(&client)?;
        Some(Callback { file, caching: allowed, serial })
    }

    /// Whether a client may have something of a file that it wrote, as far as it has said.
    pub(crate) fn is_exclusive(&self, file: FileId, client: u64) -> bool {
        self.files.get(&file).and_then(|file| file.get(&client)).is_none_or(|entry| entry.keeps == Caching::Exclusive)
    }

    /// A client that has a file open to write opens it to read besides: what it was told, under a number of its own. That it keeps all may
    /// only be the worst that was taken of it, so where others may have the file open it is called back.
    pub(crate) fn told_writer(&mut self, file: FileId, client: u64, now: Moment) -> Option<Callback> {
        let Entry { allowed, .. } = *self.files.get(&file)?.get(&client).filter(|entry| entry.write)?;
        let may_be_others = self.is_unsure(file, client, now) || self.is_used_by_others(file, client);
        let caching = if may_be_others { Caching::Nothing } else { allowed };
        Some(self.put(file, client, caching, true, now))
    }

    /// Those who write a file are these: others that did are not any more, and may still keep what they read. Of one of them that
    /// may be alone, and of which nothing is known here, the worst is taken.
    pub(crate) fn meet(&mut self, file: FileId, writers: &[Writer], now: Moment) {
        let is_writer = |client: u64| writers.iter().any(|writer| writer.client == client);
        let of_file = self.files.get_mut(&file).into_iter().flatten();
        for (_, entry) in of_file.filter(|(client, entry)| entry.write && !is_writer(**client)) {
            entry.write = false;
            (entry.keeps, entry.allowed) = (entry.keeps.min(Caching::Shared), entry.allowed.min(Caching::Shared));
        }
        for writer in writers.iter().filter(|writer| writer.cached && writer.alone) {
            if self.told(file, writer.client).is_none() {
                self.put(file, writer.client, Caching::Exclusive, true, self.opened.unwrap_or(now));
            }
        }
    }

    /// Whether others were called back from a file lately.
    pub(crate) fn is_wanted(&self, file: FileId, now: Moment) -> bool {
        self.wanted.get(&file).is_some_and(|wanted| now.since(*wanted) < WANTED)
    }

    /// Whether any other client has a file open, as far as is known here.
    pub(crate) fn is_used_by_others(&self, file: FileId, by: u64) -> bool {
        self.files.get(&file).is_some_and(|file| file.keys().any(|client| *client != by))
    }

    /// A client may keep this of a file that it opens.
    pub(crate) fn allow(
        &mut self,
        file: FileId,
        client: u64,
        caching: Caching,
        write: bool,
        now: Moment,
    ) -> Result<Callback> {
        if self.count + self.taken >= MOST && self.told(file, client).is_none() {
            return Err(Error::busy(format!(
                "clients have {MOST} files open of which they keep something, and that is the most; close some"
            )));
        }
        Ok(self.put(file, client, caching, write, now))
    }

    fn put(&mut self, file: FileId, client: u64, caching: Caching, write: bool, heard: Moment) -> Callback {
        self.serial += 1;
        let before = self.files.get(&file).and_then(|of_file| of_file.get(&client)).copied();
        // What it keeps already it keeps until it says otherwise.
        let keeps = before.map_or(caching, |before| before.keeps.max(caching));
        let called = before.and_then(|before| before.called).or(Some(heard)).filter(|_| caching < keeps);
        self.insert(file, client, Entry { keeps, allowed: caching, serial: self.serial, write, called });
        self.heard(client, heard);
        self.answered(file, client, None);
        if caching < keeps {
            self.tell(file, client);
        }
        Callback { file, caching, serial: self.serial }
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn insert(&mut self, file: FileId, client: u64, entry: Entry) {
        let before = self.files.entry(file).or_default().insert(client, entry);
        self.count += usize::from(before.is_none());
    }

    fn remove(&mut self, file: FileId, client: u64) {
        let Some(of_file) = self.files.get_mut(&file) else { return };
        if of_file.remove(&client).is_some() {
            self.count -= 1;
            if of_file.is_empty() {
                self.files.remove(&file);
            } else {
                self.freed.insert(file);
            }
            self.is_changed = true;
        }
        self.answered(file, client, None);
    }

    /// A client need not be told any more what it was told of a file, if that was under this number.
    fn answered(&mut self, file: FileId, client: u64, serial: Option<u64>) {
        let Some(Client { calls, taken, .. }) = self.clients.get_mut(&client) else { return };
        let is_this =
            |call: Option<&Callback>| call.is_some_and(|call| serial.is_none_or(|serial| serial == call.serial));
        if is_this(calls.get(&file)) {
            calls.remove(&file);
        }
        if is_this(taken.get(&file)) {
            taken.remove(&file);
            self.taken -= 1;
        }
    }

    /// Whether others keep so much of a file; they are called back.
    pub(crate) fn is_kept(&mut self, file: FileId, by: u64, least: Caching, now: Moment) -> bool {
        let is_unsure = least == Caching::Shared && self.is_unsure(file, by, now);
        let is_kept = self.call_others(file, by, least, now);
        if is_kept {
            self.wanted.insert(file, now);
        }
        is_unsure || is_kept
    }

    /// Calls back all other clients that keep so much of a file; whether there are any.
    fn call_others(&mut self, file: FileId, by: u64, least: Caching, now: Moment) -> bool {
        let entries = self.files.get(&file).into_iter().flatten();
        let kept: Vec<u64> = entries
            .filter(|(client, entry)| **client != by && entry.keeps >= least)
            .map(|(client, _)| *client)
            .collect();
        kept.iter().for_each(|client| self.call(file, *client, now));
        !kept.is_empty()
    }

    /// Whether clients of an earlier manager may have a file open, or keep something of it, of which nobody knows here.
    pub(crate) fn is_unsure(&self, file: FileId, by: u64, now: Moment) -> bool {
        let is_over = self.opened.is_some_and(|opened| now.since(opened) > LATE);
        file.0 < self.first_known && !is_over && self.unheard.iter().any(|client| *client != by)
    }

    /// Has a client keep nothing of a file any more.
    pub(crate) fn call(&mut self, file: FileId, client: u64, now: Moment) {
        let Some(entry) = self.files.get_mut(&file).and_then(|of_file| of_file.get_mut(&client)) else { return };
        if entry.allowed == Caching::Nothing {
            return;
        }
        self.serial += 1;
        (entry.allowed, entry.serial) = (Caching::Nothing, self.serial);
        entry.called.get_or_insert(now);
        self.tell(file, client);
    }

    fn tell(&mut self, file: FileId, client: u64) {
        let Some(callback) = self.told(file, client) else { return };
        if let Some(state) = self.clients.get_mut(&client) {
            state.calls.insert(file, callback);
            self.is_changed = true;
        }
    }

    /// A client may keep more of a file again.
    pub(crate) fn lift(&mut self, file: FileId, client: u64, caching: Caching) {
        let Some(entry) = self.files.get_mut(&file).and_then(|of_file| of_file.get_mut(&client)) else { return };
        self.serial += 1;
        (entry.keeps, entry.allowed, entry.serial) = (caching, caching, self.serial);
        entry.called = None;
        self.declined.remove(&file);
        self.tell(file, client);
    }

    /// Files of which somebody may perhaps keep more again; left out are those for which somebody is called back.
    pub(crate) fn freed(&mut self, now: Moment) -> Vec<FileId> {
        let is_due = |declined: &Moment| now.since(*declined) > DECLINED;
        self.freed.extend(self.declined.iter().filter(|(_, declined)| is_due(declined)).map(|(file, _)| *file));
        self.declined.retain(|_, declined| !is_due(declined));
        let freed = std::mem::take(&mut self.freed);
        let is_quiet = |file: &FileId| {
            let entries = self.files.get(file);
            entries.is_some_and(|entries| entries.values().all(|entry| entry.keeps == entry.allowed))
        };
        freed.into_iter().filter(is_quiet).collect()
    }

    /// What somebody may perhaps keep more of is looked at again with the next tick.
    pub(crate) fn look_again(&mut self, file: FileId) {
        self.freed.insert(file);
    }

    /// Who has a file open, whether to write, and what it keeps.
    pub(crate) fn users(&self, file: FileId) -> Vec<(u64, bool, Caching)> {
        let entries = self.files.get(&file).into_iter().flatten();
        entries.map(|(client, entry)| (*client, entry.write, entry.keeps)).collect()
    }

    /// Something about a file is other than it was: somebody may perhaps keep more again.
    pub(crate) fn free(&mut self, file: FileId) {
        self.is_changed = true;
        if self.files.contains_key(&file) {
            self.freed.insert(file);
        }
    }

    /// A client asks, and says what it keeps; `uses` says how it may use a file.
    pub(crate) fn hear(
        &mut self,
        client: u64,
        asked: &Listen,
        now: Moment,
        uses: impl Fn(FileId) -> Result<Uses>,
    ) -> Result<()> {
        self.heard(client, now);
        if asked.all {
            self.hear_all(client, asked, now, &uses)?;
        }
        for kept in &asked.kept {
            // Among all that it keeps is also what it has yet to give up, which answers no call.
            if !(asked.all && self.is_to_give_up(client, kept)) {
                self.hear_of(client, kept, now, &uses)?;
            }
        }
        Ok(())
    }

    /// Whether a client that was called back says that it still keeps more of a file than it was told.
    fn is_to_give_up(&self, client: u64, kept: &Kept) -> bool {
        let entry = self.files.get(&kept.file).and_then(|of_file| of_file.get(&client));
        entry.is_some_and(|entry| entry.called.is_some() && kept.caching > Some(entry.allowed))
    }

    fn hear_of(&mut self, client: u64, kept: &Kept, now: Moment, uses: impl Fn(FileId) -> Result<Uses>) -> Result<()> {
        self.answered(kept.file, client, Some(kept.serial));
        let entry = self.files.get_mut(&kept.file).and_then(|of_file| of_file.get_mut(&client));
        let Some(entry) = entry.filter(|entry| entry.serial == kept.serial) else { return Ok(()) };
        match kept.caching {
            None if !(entry.write && uses(kept.file)?.writes) => {
                self.remove(kept.file, client);
                return Ok(());
            }
            // Who writes it closes it otherwise.
            None => entry.keeps = Caching::Nothing,
            Some(caching) => entry.keeps = caching.min(entry.allowed),
        }
        let is_declined = entry.called.is_none() && entry.keeps < entry.allowed;
        (entry.allowed, entry.called) = (entry.keeps, None);
        self.is_changed = true;
        // Who says it twice says that what was in the way is gone.
        if is_declined {
            self.declined.insert(kept.file, now);
        } else {
            self.freed.insert(kept.file);
        }
        Ok(())
    }

    /// What a client says that it keeps, when nothing was known of that here. It may have kept something of what it may use by what
    /// another manager said, and has to give up what does not go with what others have by now.
    fn hear_all(
        &mut self,
        client: u64,
        asked: &Listen,
        now: Moment,
        uses: impl Fn(FileId) -> Result<Uses>,
    ) -> Result<()> {
        // One that is forgotten as one that keeps what it reads says so again first: else another manager would not wait for it.
        if asked.kept.iter().any(|kept| kept.caching.is_some() && !kept.write) {
            self.require_recorded(client)?;
        }
        let state = self.heard(client, now);
        if asked.part == 0 {
            state.parts = 0;
        }
        // Of a part that another manager heard, or that came before something was taken from this client, nothing is known here.
        if state.is_known || asked.part != state.parts {
            return Ok(());
        }
        for one in &asked.kept {
            let Some(caching) = one.caching else { continue };
            // Who is called back is waited for from when it was, whatever it says meanwhile, and under whichever number.
            let is_old = self.told(one.file, client).is_some_and(|told| told.serial > one.serial);
            if is_old || self.is_to_give_up(client, one) {
                continue;
            }
            let uses = uses(one.file)?;
            if one.write && !uses.writes || !uses.may_read || self.count + self.taken >= MOST {
                // It was taken from this client, or never was its own.
                self.serial += 1;
                let taken = Callback { file: one.file, caching: Caching::Nothing, serial: self.serial };
                let of_client = &mut self.heard(client, now).taken;
                let is_full = of_client.len() >= MOST_TAKEN && !of_client.contains_key(&one.file);
                if is_full || self.taken > MOST {
                    // What it keeps is known when it was told of some of that, and says all of it again.
                    return Ok(());
                }
                let before = self.heard(client, now).taken.insert(one.file, taken);
                self.taken += usize::from(before.is_none());
                continue;
            }
            let keeps = if one.write { caching } else { caching.min(Caching::Shared) };
            // What was taken from one of which all was known here it does not keep again before those who wait for it.
            let known = self.files.get(&one.file).and_then(|of_file| of_file.get(&client));
            let known = known.map_or(Caching::Nothing, |entry| entry.allowed);
            let is_known = !one.write && !self.unheard.contains(&client);
            let is_taken = is_known && keeps > known && self.is_wanted(one.file, now);
            let (keeps, serial) = if is_taken { (known, self.next_serial()) } else { (keeps, one.serial) };
            let entry = Entry { keeps, allowed: keeps, serial, write: one.write, called: None };
            self.insert(one.file, client, entry);
            if is_taken {
                self.tell(one.file, client);
            }
            let others = self.files.get(&one.file).into_iter().flatten().filter(|(other, _)| **other != client);
            let mut others = others.map(|(_, other)| other.write || other.keeps > Caching::Nothing && one.write);
            if keeps > Caching::Nothing && (uses.others_write || others.any(|is_in_the_way| is_in_the_way)) {
                self.call(one.file, client, now);
            }
            // While nothing was known of this client others may have been let keep what they would not have been beside it.
            self.call_others(one.file, client, if one.write { Caching::Shared } else { Caching::Exclusive }, now);
        }
        let state = self.heard(client, now);
        (state.parts, state.is_known) = if asked.more { (state.parts + 1, false) } else { (0, true) };
        if !asked.more {
            self.unheard.remove(&client);
        }
        self.is_changed = true;
        Ok(())
    }

    /// What a client is to be told, if anything is.
    pub(crate) fn called(&self, client: u64) -> Option<Called> {
        let state = self.clients.get(&client)?;
        let files: Vec<Callback> = state.calls.values().chain(state.taken.values()).take(MOST_KEPT).copied().collect();
        let unknown = !state.is_known;
        (unknown || !files.is_empty()).then_some(Called { files, unknown, ..Called::default() })
    }

    /// How many calls there are of what this client does not keep, and of all.
    #[cfg(test)]
    pub(crate) fn taken_of(&self, client: u64) -> (usize, usize) {
        (self.clients.get(&client).map_or(0, |state| state.taken.len()), self.taken)
    }

    /// These clients wait for an answer here, so they are in touch.
    pub(crate) fn wait_here(&mut self, clients: impl Iterator<Item = u64>, now: Moment) {
        for client in clients {
            if let Some(state) = self.clients.get_mut(&client) {
                state.heard = now;
            }
        }
    }

    /// Whether something changed that somebody may wait for.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Who was called back and is not heard of any more, or did not answer for far too long.
    pub(crate) fn silent(&self, now: Moment) -> Vec<Silent> {
        let called = self.clients.iter().flat_map(|(client, state)| {
            let is_late = now.since(state.heard) > LATE;
            state.calls.keys().map(move |file| (*file, *client, is_late))
        });
        let silent = called.filter_map(|(file, client, is_late)| {
            let entry = self.files.get(&file)?.get(&client)?;
            let is_stuck = entry.called.is_some_and(|called| now.since(called) > STUCK);
            let is_called = entry.allowed < entry.keeps;
            (is_called && (is_late || is_stuck)).then_some(Silent { file, client, write: entry.write })
        });
        silent.collect()
    }

    /// What a client kept of a file and did not give up is taken from it, and whoever waited for that comes first.
    pub(crate) fn take_silent(&mut self, file: FileId, client: u64, now: Moment) {
        self.wanted.insert(file, now);
        self.take(file, client);
    }

    /// What a client kept of a file is taken from it.
    fn take(&mut self, file: FileId, client: u64) {
        self.remove(file, client);
        self.is_unknown(client);
    }

    /// A client has to say again what it keeps.
    fn is_unknown(&mut self, client: u64) {
        if let Some(state) = self.clients.get_mut(&client) {
            (state.is_known, state.parts) = (false, 0);
        }
    }

    /// Who is not heard of any more keeps nothing that it read. Clients that do not count any more as those that keep what they
    /// read.
    pub(crate) fn forget(&mut self, now: Moment, is_writer: impl Fn(FileId, u64) -> Result<bool>) -> Result<Vec<u64>> {
        self.wanted.retain(|_, wanted| now.since(*wanted) < WANTED);
        if self.opened.is_some_and(|opened| now.since(opened) > LATE) && !self.unheard.is_empty() {
            self.unheard.clear();
            self.is_changed = true;
        }
        let late: BTreeSet<u64> =
            self.clients.iter().filter(|(_, state)| now.since(state.heard) > LATE).map(|(client, _)| *client).collect();
        if !late.is_empty() {
            let entries = self.files.iter().flat_map(|(file, of_file)| of_file.iter().map(|entry| (*file, entry)));
            let mut gone = Vec::new();
            for (file, (client, entry)) in entries.filter(|(_, (client, _))| late.contains(client)) {
                if !entry.write || !is_writer(file, *client)? {
                    gone.push((file, *client));
                }
            }
            gone.into_iter().for_each(|(file, client)| self.take(file, client));
            let writing: BTreeSet<u64> = self
                .files
                .values()
                .flatten()
                .map(|(client, _)| *client)
                .filter(|client| late.contains(client))
                .collect();
            late.difference(&writing).for_each(|client| self.drop_client(*client));
        }
        let is_gone = |client: &&u64| !self.clients.contains_key(client) && !self.unheard.contains(client);
        let gone: Vec<u64> = self.recorded.iter().filter(is_gone).copied().collect();
        self.recorded.retain(|client| !gone.contains(client));
        Ok(gone)
    }
}
