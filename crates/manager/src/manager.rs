//! The state machine: a batch of changes is one commit, and what it answers is durable.
//!
//! Always: at most one manager changes an engine. Each opening raises the term durably, and every transaction has the
//! condition that the term is still its own. After a commit that failed it is unknown what is there, so this manager
//! refuses everything from then on, and another one has to be opened.

use crate::authenticate::standing;
use crate::callbacks::Callbacks;
use crate::cluster::{Cluster, Effect};
use crate::copies::age::outdated;
use crate::copies::{Copying, Known, first_batch};
use crate::draft::{Batch, Draft, View};
use crate::engine::{Condition, Engine, Outcome, Recent, Snapshot, Transaction, Write};
use crate::given::Given;
use crate::grant::Granting;
use crate::holders::Holders;
use crate::keys;
use crate::lengths::Lengths;
use crate::operations::Operation;
use crate::principal::Principal;
use crate::records::{
    Answer, CopiedOn, Epochs, Fresh, Inode, KeyRecord, Meta, Next, Term, ToScrub, UserNumber, UserRecord, VolumeRecord,
    Writers, Written, encode,
};
use crate::remembered;
use forebay_env::{Random, random};
use forebay_model::{Error, Kind, Moment, Result, TargetId, Timestamp};
use forebay_wire::capability::{LONGEST_LIFE, SKEW};
use forebay_wire::control::access::{Hidden, IssuedKey, ROOT_USER};
use forebay_wire::control::files::{Caching, Grant};
use forebay_wire::control::names::{FileId, FileKind};
use forebay_wire::control::volumes::{Policy, Quota};
use forebay_wire::control::{Call, Reply};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// The volume in which the root of everything is.
const FIRST_VOLUME: u64 = 1;
/// What people call root.
const ROOT_NAME: &str = "root";

/// Both times: the wall's is data, the monotonic one decides who is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall time.
    pub wall: Timestamp,
    /// Monotonic time.
    pub moment: Moment,
}

/// How long things are waited for, or kept.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a capability counts: five minutes at most.
    pub life: Duration,
    /// A node that has not reported for so long is down.
    pub node_timeout: Duration,
    /// A client that has not asked for anything for so long is gone. More than `life`.
    pub client_timeout: Duration,
    /// So long it is remembered what a client was answered.
    pub remember: Duration,
    /// All keys of targets are rolled when the last time is so long ago: much longer than `life`, so that what is made with the one
    /// before the last is over long before.
    pub roll_every: Duration,
    /// When the fullest target is used by so many hundredths more than the emptiest, components are moved between them until it is
    /// half of that; 0: never.
    pub balance_above: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            life: LONGEST_LIFE,
            node_timeout: Duration::from_secs(30),
            client_timeout: 2 * LONGEST_LIFE,
            remember: Duration::from_secs(24 * 3600),
            roll_every: Duration::from_secs(3600),
            balance_above: 10,
        }
    }
}

/// A change, and who asks for it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who.
    pub by: Principal,
    /// What, under which number.
    pub call: Call,
}

/// The manager of a cluster.
pub struct Manager {
    pub(crate) engine: Box<dyn Engine>,
    /// What is committed; `None` after a commit that failed, and while one is under way.
    pub(crate) view: Option<Recent>,
    pub(crate) cluster: Cluster,
    pub(crate) random: Rc<dyn Random>,
    pub(crate) settings: Settings,
    fence: Condition,
    /// How often one was opened.
    pub(crate) term: u64,
    /// What is not in copies on targets yet.
    pub(crate) copying: Copying,
    /// How far copies go that are no newer than what was opened, and how far this opening can have written them.
    pub(crate) known: Known,
    pub(crate) written: Written,
    /// Whether it has begun an object: before that none of this opening is anywhere, and nothing is said of it.
    has_written: bool,
    /// What is told to tell capabilities from one another: the term above, a count below.
    pub(crate) serial: u64,
    /// When clients were heard of last.
    pub(crate) seen: BTreeMap<u64, Moment>,
    pub(crate) holders: Holders,
    pub(crate) given: Given,
    pub(crate) callbacks: Callbacks,
    pub(crate) lengths: Lengths,
    pub(crate) rounds: crate::tick::Rounds,
    pub(crate) balance: crate::balance::Balance,
}

impl Manager {
    /// Makes a cluster in an engine that has none, and a key for root. [`Kind::Exists`] if it has one.
    pub fn create(
        engine: &mut dyn Engine,
        cluster: u128,
        policy: Policy,
        now: Timestamp,
        random: &dyn Random,
    ) -> Result<IssuedKey> {
        crate::placement::check(&policy)?;
        let meta = Meta { cluster, root_key: random::bytes(random) };
        let key = random.next_u64().max(1);
        let secret = random::bytes(random);
        let (kind, owner) = (FileKind::Directory, ROOT_USER);
        let attributes = Fresh { kind, mode: 0o755, owner, group: 0, volume: FIRST_VOLUME }.attributes(now);
        let root = Inode { parent: FileId::ROOT, attributes, written: false };
        let volume = VolumeRecord::fresh(FileId::ROOT, Quota::default(), policy);
        let user = UserRecord { name: ROOT_NAME.to_string(), groups: vec![0], keys: vec![key] };
        let issued = KeyRecord { user: ROOT_USER, secret, label: "made with the cluster".to_string(), issued: now };
        fn put(key: Vec<u8>, value: &impl Serialize) -> Result<Write> {
            let value = Some(encode(&key, value)?);
            Ok(Write { key, value })
        }
        let writes = [
            put(keys::META.to_vec(), &meta),
            put(keys::TERM.to_vec(), &Term(0)),
            put(keys::EPOCHS.to_vec(), &Epochs { epoch: 1, least: 1, rolled: 0, rolled_at: now }),
            put(keys::NEXT.to_vec(), &Next { file: FileId::ROOT.0 + 1, volume: FIRST_VOLUME + 1 }),
            put(keys::inode(FileId::ROOT), &root),
            put(keys::volume(FIRST_VOLUME), &volume),
            put(keys::user(ROOT_USER), &user),
            put(keys::user_name(ROOT_NAME), &UserNumber(ROOT_USER)),
            put(keys::access_key(key), &issued),
        ];
        let writes = writes.into_iter().collect::<Result<_>>()?;
        let conditions = vec![Condition::Absent(keys::META.to_vec())];
        match engine.commit(&[Transaction { conditions, writes }])?[..] {
            [Outcome::Committed] => Ok(IssuedKey { key, secret: Hidden(secret.to_vec()) }),
            _ => Err(Error::exists("the engine has the metadata of a cluster already; open it, or take another file")),
        }
    }

    /// Whether an engine has the metadata of a cluster.
    pub fn is_in(engine: &dyn Engine) -> Result<bool> {
        Ok(engine.snapshot()?.get(keys::META)?.is_some())
    }

    /// Opens the cluster that an engine has. Whichever manager had it open before may change nothing any more.
    pub fn open(mut engine: Box<dyn Engine>, random: Rc<dyn Random>, settings: Settings) -> Result<Manager> {
        if settings.life > LONGEST_LIFE || settings.client_timeout <= settings.life {
            return Err(Error::usage(format!(
                "a capability counts for {LONGEST_LIFE:?} at most and a client is gone later than that, and not {:?} and \
                 {:?}; set other times",
                settings.life, settings.client_timeout
            )));
        }
        let view = engine.snapshot()?;
        let meta: Option<Meta> = view.read(keys::META)?;
        let Some(meta) = meta else {
            return Err(Error::missing("the engine has no metadata of a cluster; make one first"));
        };
        let older: Option<CopiedOn> = view.read(keys::OUTDATED)?;
        if let Some(CopiedOn(targets)) = older {
            return Err(outdated(targets.first().copied().unwrap_or(TargetId(0))));
        }
        let known = Known::load(&*view)?;
        let before = Condition::Is(keys::TERM.to_vec(), view.get(keys::TERM)?.unwrap_or_default());
        let Term(term) = view.require(keys::TERM)?;
        drop(view);
        let mine = encode(keys::TERM, &Term(term + 1))?;
        let write = Write { key: keys::TERM.to_vec(), value: Some(mine.clone()) };
        if engine.commit(&[Transaction { conditions: vec![before], writes: vec![write] }])? != [Outcome::Committed] {
            return Err(superseded());
        }
        let view = Recent::new(engine.snapshot()?);
        let cluster = Cluster::load(&view, &meta)?;
        let Next { file, .. } = (&view as &dyn Snapshot).require(keys::NEXT)?;
        let holders = Holders::from(file);
        let callbacks = Callbacks::from(term + 1, file, recorded(&view)?);
        let copying = Copying::load(&view, term + 1)?;
        Ok(Manager {
            engine,
            view: Some(view),
            cluster,
            random,
            settings,
            fence: Condition::Is(keys::TERM.to_vec(), mine),
            term: term + 1,
            copying,
            known,
            written: Written { term: term + 1, object: 0, at: 0, batch: first_batch(term + 1) },
            has_written: false,
            serial: (term + 1) << 40,
            seen: BTreeMap::new(),
            holders,
            given: Given::default(),
            callbacks,
            lengths: Lengths::default(),
            rounds: crate::tick::Rounds::default(),
            balance: crate::balance::Balance::default(),
        })
    }

    /// Carries out changes in their order, all in one commit, and answers each. What is answered is durable.
    pub fn apply(&mut self, now: Now, calls: &[Asked]) -> Vec<Result<Reply>> {
        self.note_time(now);
        let mut batch = self.batch();
        let answers: Vec<Result<Answer>> = calls.iter().map(|asked| self.one(&mut batch, now, asked)).collect();
        if let Err(error) = self.commit(batch) {
            return calls.iter().map(|_| Err(error.clone())).collect();
        }
        let answered = calls.iter().zip(answers);
        answered.map(|(asked, answer)| self.told(now, &asked.by, answer?)).collect()
    }

    /// One change of a batch: its answer, and what it does if that is new.
    fn one(&mut self, batch: &mut Batch, now: Now, asked: &Asked) -> Result<Answer> {
        let Asked { by, call } = asked;
        let view = self.view.as_ref().ok_or_else(closed)?;
        let mut draft = Draft::new(view, batch);
        let by = &*standing(&draft, by)?;
        self.seen.insert(by.client, now.moment);
        let hash = remembered::hash(&call.change)?;
        if let Some(answer) = remembered::find(&draft, by.client, call.sequence, &hash)? {
            return Ok(answer);
        }
        let mut operation = Operation {
            draft,
            by,
            now,
            cluster: &self.cluster,
            callbacks: &mut self.callbacks,
            lengths: &mut self.lengths,
            given: &self.given,
            random: &*self.random,
            settings: &self.settings,
        };
        let answer = match operation.carry_out(&call.change) {
            Err(error) if is_ours(&error) => return Err(error),
            Err(error) => {
                operation.draft.clear();
                Answer::Error(error)
            }
            Ok(answer) => answer,
        };
        draft = operation.draft;
        remembered::remember(&mut draft, by, now.wall, call.sequence, hash, &answer)?;
        let drafted = draft.ready()?;
        let effects = batch.take(drafted);
        self.change(effects);
        Ok(answer)
    }

    /// An answer as it is told: with capabilities, if it is about an open file.
    fn told(&mut self, now: Now, by: &Principal, answer: Answer) -> Result<Reply> {
        match answer {
            Answer::Reply(reply) => Ok(reply),
            Answer::Error(error) => Err(error),
            Answer::Opened(file) => {
                let by = standing(&self.view()?, by)?;
                let grant = self.grant(now, &by, file, true)?;
                let Writers(writers) = self.view()?.read(&keys::writers(file))?.unwrap_or_default();
                if self.callbacks.told(file, by.client).is_none() {
                    // Another manager let it in, and its answer was lost.
                    if let Some(writer) = writers.iter().find(|writer| writer.is(&by) && writer.cached) {
                        let caching = if writer.alone { Caching::Exclusive } else { Caching::Nothing };
                        self.callbacks.allow(file, by.client, caching, true, now.moment)?;
                        // That one may have called it back since, for others who have it open.
                        self.callbacks.told_writer(file, by.client, now.moment);
                    }
                }
                // Who opens it beside others looks whether somebody left a cut: of a file that nobody left there is none.
                let left = self.view()?.read::<ToScrub>(&keys::to_scrub(file))?.is_some();
                Ok(Reply::Grant(Grant { callback: self.callbacks.told(file, by.client), left, ..grant }))
            }
            Answer::Calling => Ok(Reply::Calling),
        }
    }

    /// Somebody asks something: who that is by now.
    pub(crate) fn met<'a>(&mut self, now: Now, by: &'a Principal) -> Result<Cow<'a, Principal>> {
        let by = standing(&self.view()?, by)?;
        self.seen.insert(by.client, now.moment);
        self.note_time(now);
        Ok(by)
    }

    /// It is asked something.
    fn note_time(&mut self, now: Now) {
        self.holders.begin(now.wall.after(self.settings.life + SKEW));
        self.given.begin(now.wall.after(self.settings.life));
        self.callbacks.begin(now.moment);
        self.lengths.begin(now.wall);
    }

    /// The cluster.
    pub fn cluster(&self) -> u128 {
        self.cluster.id
    }

    /// Whether this manager may still be asked. Once it may not, another one has to be opened.
    pub fn is_open(&self) -> bool {
        self.view.is_some()
    }

    /// What is committed.
    pub(crate) fn view(&self) -> Result<&dyn Snapshot> {
        let view = self.view.as_ref().ok_or_else(closed)?;
        Ok(view)
    }

    /// A batch of nothing yet.
    pub(crate) fn batch(&self) -> Batch {
        Batch::new(self.fence.clone())
    }

    /// Does in memory what drafts say that were taken over.
    pub(crate) fn change(&mut self, effects: Vec<Effect>) {
        effects.into_iter().for_each(|effect| self.cluster.change(effect));
    }

    /// Commits a batch; on an error this manager is closed.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<()> {
        let mut transactions = batch.finish();
        if transactions.is_empty() {
            return self.view().map(drop);
        }
        // Before those that it is about: a crash between them leaves too much in it, and never too little.
        let written = (&mut self.written, self.has_written);
        if let Some(named) = self.copying.note(&transactions, &self.fence, written)? {
            transactions.insert(0, named);
        }
        // An engine keeps what a snapshot sees; there is none while it commits, so that it keeps no more than it must.
        if self.view.take().is_none() {
            return Err(closed());
        }
        let outcomes = self.engine.commit(&transactions).map_err(|cause| unknown(&cause))?;
        if outcomes.contains(&Outcome::Refused) {
            return Err(superseded());
        }
        self.view = Some(Recent::new(self.engine.snapshot().map_err(|cause| unknown(&cause))?));
        Ok(())
    }

    /// Has the engine say how far copies can have been written with it, now and with each commit of changes.
    pub(crate) fn note_written(&mut self) -> Result<()> {
        self.has_written = true;
        let written = self.written;
        self.put(keys::WRITTEN, &written)
    }

    /// What is said of this engine, which is older than the copy of a target; from now on it is opened no more.
    pub(crate) fn outdated(&mut self, target: TargetId) -> Result<Error> {
        self.put(keys::OUTDATED, &CopiedOn(vec![target]))?;
        Ok(outdated(target))
    }

    /// Puts what is of this engine alone.
    fn put(&mut self, key: &[u8], value: &impl Serialize) -> Result<()> {
        let mut batch = self.batch();
        let mut draft = Draft::new(self.view()?, &batch);
        draft.put(key.to_vec(), value)?;
        let drafted = draft.ready()?;
        batch.take(drafted);
        self.commit(batch)
    }

    /// What makes capabilities for somebody.
    pub(crate) fn granting<'a>(&'a mut self, now: Now, by: &'a Principal) -> Result<Granting<'a>> {
        let view = self.view.as_ref().ok_or_else(closed)?;
        let until = now.wall.after(self.settings.life);
        if let Some(key) = by.key {
            self.given.note(key, by.client, until, now.wall);
        }
        Ok(Granting {
            view,
            cluster: &self.cluster,
            by,
            now: now.wall,
            until,
            serial: &mut self.serial,
            holders: &mut self.holders,
        })
    }
}

/// Clients that said that they keep what they read.
fn recorded(view: &dyn Snapshot) -> Result<BTreeSet<u64>> {
    let (from, to) = keys::all(keys::CACHES);
    Ok(view.scan(&from, &to, usize::MAX)?.iter().map(|(key, _)| keys::number(key)).collect())
}

/// Whether an error is about the metadata, and not about what was asked: then nothing was decided.
fn is_ours(error: &Error) -> bool {
    matches!(error.kind, Kind::Device | Kind::Damaged | Kind::Version | Kind::Disconnected)
}

pub(crate) fn closed() -> Error {
    Error::disconnected("this manager could not commit, or another one has taken over; ask again when one is open")
}

/// A commit ended in an error: what the engine's kind says to do is for whoever opens it, and not for whoever asked, since
/// that may have been done.
fn unknown(cause: &Error) -> Error {
    Error::disconnected(format!(
        "the manager could not commit, and it is not known whether this was done: {cause}; ask again when another one is open"
    ))
}

fn superseded() -> Error {
    Error::disconnected("another manager has taken over; ask that one")
}

#[cfg(test)]
mod tests;
