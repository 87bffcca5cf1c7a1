//! What somebody's program asked its store for, as lines of text: `put NAME LENGTH` (of a name that is there: the record
//! is replaced), `free NAME`, `get NAME`, `commit`. A name is any word. Empty lines, and what follows a `#`, say nothing.
//!
//! A trace is read whole before it is played, and what it frees and gets has to be there by then: so nothing that it asks
//! for can fail but for the store.

use super::churn::Contents;
use super::load::{Tell, tell_now_and_then};
use forebay_btree::PageStore;
use forebay_model::heap::LARGEST_RECORD;
use forebay_model::{Error, Result};
use std::collections::BTreeMap;
use std::rc::Rc;

/// One line. Names are numbers here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Put(u32, u32),
    Free(u32),
    Get(u32),
    Commit,
}

/// A trace that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    steps: Vec<Step>,
    /// Names that occur.
    names: u32,
    /// The longest record.
    longest: usize,
}

/// A name that occurred: its number, and whether it has a record where reading has come to.
struct Name {
    number: u32,
    there: bool,
}

impl Trace {
    /// Reads `text`; `file` is what it is called in errors.
    pub fn parse(file: &str, text: &str) -> Result<Trace> {
        let mut names: BTreeMap<&str, Name> = BTreeMap::new();
        let mut trace = Trace { steps: Vec::new(), names: 0, longest: 0 };
        for (index, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = said.split_whitespace().collect();
            let wrong = |why: String| Error::usage(format!("{file}:{}: {why}", index + 1));
            let known = |names: &BTreeMap<&str, Name>, name: &str| {
                let found = names.get(name).filter(|name| name.there);
                found.map(|name| name.number).ok_or_else(|| {
                    wrong(format!("nothing is called '{name}' here; expected a name that was put and not freed since"))
                })
            };
            let step = match words[..] {
                [] => continue,
                ["put", name, length] => {
                    let bytes = length.parse::<usize>().ok().filter(|bytes| (1..=LARGEST_RECORD).contains(bytes));
                    let bytes = bytes.ok_or_else(|| {
                        wrong(format!("'{length}' is no length of a record; expected 1 to {LARGEST_RECORD} bytes"))
                    })?;
                    trace.longest = trace.longest.max(bytes);
                    let number = names.len() as u32;
                    let name = names.entry(name).or_insert(Name { number, there: false });
                    name.there = true;
                    Step::Put(name.number, bytes as u32)
                }
                ["get", name] => Step::Get(known(&names, name)?),
                ["free", name] => {
                    let number = known(&names, name)?;
                    names.entry(name).and_modify(|name| name.there = false);
                    Step::Free(number)
                }
                ["commit"] => Step::Commit,
                _ => {
                    return Err(wrong(format!(
                        "'{}' says nothing; expected `put NAME LENGTH`, `free NAME`, `get NAME` or `commit`",
                        said.trim()
                    )));
                }
            };
            trace.steps.push(step);
        }
        if trace.steps.is_empty() {
            return Err(Error::usage(format!("{file} has no line that asks for anything; expected `put NAME LENGTH`")));
        }
        trace.names = names.len() as u32;
        Ok(trace)
    }
}

/// A trace on a store.
pub struct Running<S> {
    trace: Rc<Trace>,
    store: S,
    contents: Contents,
    /// Of each name its record, how long that is, and which put it was of.
    records: Vec<Option<(u64, u32, u64)>>,
}

impl<S: PageStore> Running<S> {
    /// Before the first line.
    pub fn new(trace: Rc<Trace>, store: S) -> Running<S> {
        let contents = Contents::new(&Same::default(), trace.longest);
        let records = vec![None; trace.names as usize];
        Running { trace, store, contents, records }
    }

    /// Plays it, and commits.
    pub async fn run(&mut self, tell: &Tell) -> Result<()> {
        let trace = self.trace.clone();
        for (number, step) in (0..).zip(&trace.steps) {
            match *step {
                Step::Put(name, length) => {
                    let id = self.store.put(self.contents.of(number, length as usize)).await?;
                    if let Some((old, ..)) = self.records[name as usize].replace((id, length, number)) {
                        self.store.free(old).await?;
                    }
                }
                Step::Free(name) => {
                    let taken = self.records[name as usize].take();
                    let (id, ..) = taken.expect("reading the trace has found it there");
                    self.store.free(id).await?;
                }
                Step::Get(name) => self.get(name).await?,
                Step::Commit => self.store.commit(None).await?,
            }
            tell_now_and_then(tell, number, trace.steps.len() as u64);
        }
        self.store.commit(None).await
    }

    async fn get(&mut self, name: u32) -> Result<()> {
        let Some((id, length, number)) = self.records[name as usize] else { return Ok(()) };
        let bytes = self.store.get(id).await?;
        if self.contents.are(&bytes, number, length as usize) {
            return Ok(());
        }
        Err(Error::damaged(format!("record {id:016x} has not the bytes that were put")))
    }

    /// Reads all that is there.
    pub async fn verify(&mut self) -> Result<()> {
        for name in 0..self.trace.names {
            self.get(name).await?;
        }
        Ok(())
    }
}

/// A trace leaves nothing to chance: its bytes are the same each time.
#[derive(Default)]
struct Same(std::cell::Cell<u64>);

impl forebay_env::Random for Same {
    fn next_u64(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = self.0.get();
        (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

#[cfg(test)]
mod tests;
