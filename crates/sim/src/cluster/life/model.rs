//! The plain model of the files that one client has to itself: their names, and their bytes.
//!
//! A file whose last flush or close was answered is settled: it is what was written. One of which a write, a flush or a close
//! failed, or whose client died, is in doubt: what was acknowledged is there or was overwritten by what was written since; if
//! it is longer than what was acknowledged, all that was written is there. A cut of which nothing was answered was done, behind all that was
//! written before it, or has not begun.

use forebay_model::layout::Raid;
use forebay_wire::control::names::FileId;
use std::collections::BTreeMap;

/// What is known of one file.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Known {
    /// Its number; none while the answer to its making was lost.
    pub(in crate::cluster) file: Option<FileId>,
    /// How it is striped.
    pub(in crate::cluster) raid: Raid,
    /// What it was when a flush or close was answered last.
    pub(in crate::cluster) settled: Vec<u8>,
    /// What it is for whoever writes it.
    pub(in crate::cluster) current: Vec<u8>,
    /// What was written since it was settled: where, and what.
    since: Vec<(usize, Vec<u8>)>,
    /// What it is once a cut is done that was asked for.
    cut: Option<Vec<u8>>,
    /// Whether it has to be recovered before anybody uses it.
    pub(in crate::cluster) in_doubt: bool,
}

impl Known {
    pub(super) fn new(raid: Raid) -> Known {
        let (settled, current, since) = (Vec::new(), Vec::new(), Vec::new());
        Known { file: None, raid, settled, current, since, cut: None, in_doubt: false }
    }

    /// Something is about to be written.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.current.len() < end {
            self.current.resize(end, 0);
        }
        self.current[at..end].copy_from_slice(bytes);
        self.since.push((at, bytes.to_vec()));
    }

    /// It is about to be cut, or lengthened.
    pub(super) fn cut(&mut self, size: usize) {
        let mut cut = self.current.clone();
        cut.resize(size, 0);
        self.cut = Some(cut);
    }

    /// All that was written is durable, and a cut that was asked for is done.
    pub(super) fn flushed(&mut self) {
        self.current = self.cut.take().unwrap_or_else(|| std::mem::take(&mut self.current));
        self.settled = self.current.clone();
        self.since.clear();
    }

    /// What it was found to be after it was recovered; what is wrong with that, if anything is.
    pub(super) fn found(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        self.allows(&bytes)?;
        (self.current, self.cut) = (bytes, None);
        self.flushed();
        self.in_doubt = false;
        Ok(())
    }

    /// Whether it may be this.
    pub(in crate::cluster) fn allows(&self, bytes: &[u8]) -> Result<(), String> {
        let (settled, current) = (self.settled.len(), self.current.len());
        if self.cut.as_deref() == Some(bytes) {
            return Ok(());
        }
        if !self.in_doubt || bytes.len() > settled {
            return match first_difference(bytes, &self.current) {
                None => Ok(()),
                Some(at) => Err(format!(
                    "byte {at} of {} is another one than was written (of {current}, {settled} were acknowledged)",
                    bytes.len()
                )),
            };
        }
        if bytes.len() < settled {
            return Err(format!("it has {} bytes, and {settled} were acknowledged", bytes.len()));
        }
        let mut allowed: Vec<bool> = bytes.iter().zip(&self.settled).map(|(there, was)| there == was).collect();
        for (at, written) in &self.since {
            for (nth, byte) in written.iter().enumerate().take_while(|(nth, _)| at + nth < settled) {
                allowed[at + nth] |= bytes[at + nth] == *byte;
            }
        }
        match allowed.iter().position(|allowed| !allowed) {
            None => Ok(()),
            Some(at) => Err(format!(
                "byte {at} of {settled} is {}, was acknowledged as {}, and was never written as that since",
                bytes[at], self.settled[at]
            )),
        }
    }
}

/// Where two first differ, also in length.
pub(in crate::cluster) fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let differ = one.iter().zip(other).position(|(one, other)| one != other);
    differ.or((one.len() != other.len()).then(|| one.len().min(other.len())))
}

/// Names in a directory, and which file each is of.
pub(in crate::cluster) type Names = BTreeMap<String, u64>;

/// A change of names whose answer was lost.
#[derive(Debug, Clone)]
pub(super) enum Undecided {
    Create { name: String, key: u64 },
    Remove { name: String },
    Rename { from: String, to: String },
}

/// What one client has to itself.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Owned {
    /// Its directory.
    pub(in crate::cluster) directory: String,
    pub(in crate::cluster) names: Names,
    /// By numbers of the model's.
    pub(in crate::cluster) files: BTreeMap<u64, Known>,
    pub(super) undecided: Option<Undecided>,
    /// Changes whose answers were lost and that had not been made when that was looked at. What was asked may still be on its way: to a
    /// manager that had stopped, or from a client that is gone.
    late: Vec<Late>,
    next: u64,
}

/// A change that may come late, and the file that it makes.
#[derive(Debug)]
struct Late {
    change: Undecided,
    made: Option<(u64, Known)>,
}

impl Owned {
    pub(super) fn new(directory: String) -> Owned {
        Owned { directory, ..Owned::default() }
    }

    /// Where a name is.
    pub(in crate::cluster) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The name of a file.
    pub(super) fn name_of(&self, key: u64) -> String {
        let found = self.names.iter().find(|(_, named)| **named == key);
        found.map(|(name, _)| name.clone()).expect("a file of the model has a name")
    }

    /// A change of names is asked for.
    pub(super) fn begin(&mut self, change: Undecided) {
        assert!(self.undecided.is_none(), "one change at a time");
        self.undecided = Some(change);
    }

    /// A file that is about to be made.
    pub(super) fn fresh(&mut self, raid: Raid) -> u64 {
        self.next += 1;
        self.files.insert(self.next, Known::new(raid));
        self.next
    }

    /// The change was done, or was not.
    pub(super) fn decide(&mut self, done: bool) {
        let Some(change) = self.undecided.take() else { return };
        if done {
            carry_out(&mut self.names, &change);
        }
        let there: Vec<u64> = self.names.values().copied().collect();
        self.files.retain(|key, _| there.contains(key));
    }

    /// The directory was listed: names are as they have to be, and what was undecided is not any more.
    pub(super) fn listed(&mut self, listed: &BTreeMap<String, FileId>) -> Result<(), String> {
        let after = |names: &Names, change: &Undecided| {
            let mut names = names.clone();
            carry_out(&mut names, change);
            names
        };
        let done = self.undecided.as_ref().map(|change| after(&self.names, change));
        if done.is_some_and(|names| self.is(&names, listed)) {
            self.decide(true);
        } else if self.is(&self.names, listed) {
            self.leave_undecided();
        } else {
            let come = self.late.iter().position(|late| self.is(&after(&self.names, &late.change), listed));
            let Some(come) = come else {
                return Err(format!(
                    "{} has {listed:?}, and should have {:?}, perhaps after {:?} or one of {:?}",
                    self.directory, self.names, self.undecided, self.late
                ));
            };
            let Late { change, made } = self.late.remove(come);
            self.files.extend(made);
            carry_out(&mut self.names, &change);
            self.leave_undecided();
        }
        for (name, key) in &self.names {
            if let Some(known) = self.files.get_mut(key) {
                known.file = listed.get(name).copied();
            }
        }
        Ok(())
    }

    /// What was undecided has not been done, and may be later.
    fn leave_undecided(&mut self) {
        if let Some(change) = self.undecided.clone() {
            let made = match &change {
                Undecided::Create { key, .. } => self.files.get(key).map(|known| (*key, known.clone())),
                _ => None,
            };
            self.late.push(Late { change, made });
        }
        self.decide(false);
    }

    /// Whether something may come late that takes a name.
    pub(super) fn may_be_taken(&self, name: &str) -> bool {
        self.late.iter().any(|late| match &late.change {
            Undecided::Create { name: taken, .. } | Undecided::Rename { to: taken, .. } => taken == name,
            Undecided::Remove { .. } => false,
        })
    }

    fn is(&self, names: &Names, listed: &BTreeMap<String, FileId>) -> bool {
        let same = |name: &String, key: &u64| {
            let known = self.files.get(key).and_then(|known| known.file);
            listed.get(name).is_some_and(|file| known.is_none_or(|known| known == *file))
        };
        names.len() == listed.len() && names.iter().all(|(name, key)| same(name, key))
    }
}

fn carry_out(names: &mut Names, change: &Undecided) {
    match change {
        Undecided::Create { name, key } => drop(names.insert(name.clone(), *key)),
        Undecided::Remove { name } => drop(names.remove(name)),
        Undecided::Rename { from, to } => {
            if let Some(key) = names.remove(from) {
                names.insert(to.clone(), key);
            }
        }
    }
}
