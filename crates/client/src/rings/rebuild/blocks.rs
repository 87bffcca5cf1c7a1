//! Blocks as they lie at one target, and as they were packed.

use super::super::answer::PartAnswer;
use super::super::merge::Asked;
use super::super::source::Heard;
use super::super::stripe::{Row, Table};
use super::super::way::{PAUSE, Way};
use super::super::writer::is_passing;
use crate::answer::cursor::conjunction;
use crate::peer::Part;
use forebay_env::race::{First, race};
use forebay_model::block::{Header, View};
use forebay_model::ring::{Batch, Item};
use forebay_model::{Cause, Error, Gap, Result, Timestamp};
use forebay_wire::control::files::ComponentState;
use forebay_wire::ring::RingQuery;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// So often in a row it is asked again for the same block.
const MOST_BREAKS: u32 = 3;
/// For so long whoever follows a ring waits for a target that may have what it was not known to have.
const SILENT: Duration = Duration::from_secs(1);

/// Blocks of one part of a ring as they were packed, in the order in which they lie there.
pub(super) struct Blocks {
    way: Way,
    now: Timestamp,
    answer: Option<PartAnswer>,
    /// The times and the number from which on it is asked for.
    asked: ((Timestamp, Timestamp), u64),
    /// The last block that was given of that: the number of its first element, its session and its number there.
    given: Option<(u64, (u64, u64))>,
    /// Whether it may come again, as it was asked again since.
    is_again: bool,
    waiting: VecDeque<Lying>,
    /// What could not be read behind the last of them.
    unread: Unread,
    is_away: bool,
    /// While what is recorded is followed, a target is away as long as the one who follows it there does not hear of it.
    heard: Option<Rc<Heard>>,
    /// Whether most of what is looked for is not there, or does not lie in the order of time: then each is looked for alone.
    is_sparse: bool,
    /// A target that does not answer for so long counts as away until something is heard of it.
    limit: Duration,
}

/// What is looked for: its session, its number there, and its times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) writer: u64,
    pub(super) number: u64,
    pub(super) times: (i64, i64),
}

impl From<&Row> for Name {
    fn from(row: &Row) -> Name {
        Name { writer: row.writer, number: row.number, times: row.times }
    }
}

impl From<&Table> for Name {
    fn from(table: &Table) -> Name {
        Name { writer: table.writer, number: table.number, times: table.times() }
    }
}

/// A block as it was packed, and the number of its first element where it lies.
pub(super) struct Lying {
    pub(super) packed: Vec<u8>,
    pub(super) first: u64,
    /// What could not be read before it.
    pub(super) unread: Unread,
}

/// What could not be read of a part between two of its blocks.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Blocks are damaged: between which times, all of them.
    pub(super) damaged: Option<Gap>,
    /// Some were overwritten.
    pub(super) is_overrun: bool,
}

impl Unread {
    fn add(&mut self, gap: Gap) {
        match &mut self.damaged {
            Some(damaged) => damaged.merge(gap),
            none => *none = Some(gap),
        }
    }
}

impl Lying {
    fn begins_after(&self, times: (i64, i64)) -> Result<bool> {
        Ok(View::of_sealed(&self.packed)?.header().min_time.get() > times.1)
    }
}

impl Blocks {
    pub(super) fn new(asked: &Asked, component: usize) -> Blocks {
        let is_away = asked.statuses[component].is_none();
        let heard = asked.query.follow.then(|| asked.heard[component].clone());
        let way = asked.ways[component].apart();
        // Tables that tell later what is absent lie behind those of later times.
        let is_parity = component == asked.spread.targets as usize;
        let is_sparse = is_parity || asked.replaced.contains(&(component as u32));
        Blocks {
            way,
            now: asked.query.now,
            answer: None,
            asked: ((Timestamp::MIN, Timestamp::MAX), 0),
            given: None,
            is_again: false,
            waiting: VecDeque::new(),
            unread: Unread::default(),
            is_away,
            heard,
            is_sparse,
            limit: Duration::MAX,
        }
    }

    /// The same for who looks for what is mostly not there.
    pub(super) fn sparse(asked: &Asked, component: usize) -> Blocks {
        Blocks { is_sparse: true, limit: SILENT, ..Blocks::new(asked, component) }
    }

    /// The same for who looks for few of them, and asks the target whether anybody else hears of it or not.
    pub(super) fn of_whoever(asked: &Asked, component: usize) -> Blocks {
        Blocks { is_sparse: true, is_away: false, heard: None, ..Blocks::new(asked, component) }
    }

    /// Nothing is asked of its target any more.
    pub(super) fn count_as_away(&mut self) {
        (self.is_away, self.heard) = (true, None);
    }

    fn is_away(&self) -> bool {
        self.heard.as_ref().map_or(self.is_away, |heard| !heard.is_there.get())
    }

    pub(super) async fn begin(&mut self, times: (Timestamp, Timestamp)) -> Result<()> {
        self.begin_at(times, 0).await
    }

    /// Begins with what has these times, from this number on where it lies.
    pub(super) async fn begin_at(&mut self, times: (Timestamp, Timestamp), number: u64) -> Result<()> {
        (self.asked, self.given, self.is_again) = ((times, number), None, false);
        self.ask(number).await
    }

    /// Asks for what was asked for, from this number on.
    async fn ask(&mut self, number: u64) -> Result<()> {
        let times = self.asked.0;
        self.waiting.clear();
        self.unread = Unread::default();
        if self.answer.take().is_some() {
            // With it ended its connection.
            self.way = self.way.apart();
        }
        let text = match times {
            (Timestamp::MIN, Timestamp::MAX) => String::new(),
            (from, Timestamp::MAX) => format!("after {from}"),
            (Timestamp::MIN, to) => format!("before {}", Timestamp(to.0 + 1)),
            (from, to) => format!("time in {from}..{to}"),
        };
        let text = if number == 0 { text } else { conjunction(&text, number) };
        let query = RingQuery {
            text,
            now: self.now,
            follow: false,
            limit: None,
            gaps_only: false,
            blocks: true,
            numbered: false,
        };
        self.answer = Some(PartAnswer::open(self.way.clone(), query).await?);
        Ok(())
    }

    /// Waits until there is a block; whether there is one.
    async fn fill(&mut self) -> Result<bool> {
        while self.waiting.is_empty() {
            let Some(answer) = &mut self.answer else { return Ok(false) };
            match answer.next().await {
                Ok(Part::Batch(Batch { items, payload })) => {
                    let mut at = 0;
                    for item in items {
                        let (length, caller) = match item {
                            Item::Element { length, caller, .. } => (length as usize, usize::from(caller)),
                            Item::Gap(gap) if gap.cause == Cause::Damaged => {
                                self.unread.add(Gap { count: None, ..gap });
                                continue;
                            }
                            Item::Gap(_) | Item::Block { .. } => continue,
                            Item::Expired { .. } => {
                                self.unread.is_overrun = true;
                                continue;
                            }
                        };
                        let mut block = payload[at..at + length].to_vec();
                        at += length + caller;
                        let view = View::parse(&block)?;
                        view.verify()?;
                        let first = view.header().first_sequence.get();
                        Header::clear_stamp(&mut block);
                        let unread = std::mem::take(&mut self.unread);
                        self.waiting.push_back(Lying { packed: block, first, unread });
                    }
                }
                Ok(Part::End(_)) => self.answer = None,
                Err(error) => {
                    self.answer = None;
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// The same when it was looked for so often. One who follows the ring asks a target that went away as often, but once.
    pub(super) async fn find_in_time(&mut self, block: Name, tries: u32) -> Result<Option<Lying>> {
        let mut tries = if self.is_away { 1 } else { tries };
        loop {
            let found = self.find(block).await;
            tries -= 1;
            if tries == 0 || matches!(found, Ok(Some(_))) || found.is_err() && self.heard.is_none() {
                return found;
            }
            self.way.nodes().env().clock.sleep(PAUSE).await;
        }
    }

    /// A block, if it is there. An error means that the target is away.
    pub(super) async fn find(&mut self, block: Name) -> Result<Option<Lying>> {
        if self.is_away() {
            self.is_away = true;
            return Err(Error::disconnected("the target is away"));
        }
        let Name { writer, number, times } = block;
        // Of a part that lies elsewhere by now, most is not there.
        let found = match self.is_sparse || self.way.state() == ComponentState::Filling {
            true => match self.heard.clone() {
                Some(heard) => self.look_soon(&heard, block).await,
                None => self.look_within(writer, number, times).await,
            },
            false => self.look_for(writer, number, times).await,
        };
        self.is_away = found.is_err();
        found
    }

    /// The next block, over one connection after the other.
    pub(super) async fn next(&mut self) -> Result<Option<Lying>> {
        let mut breaks = 0;
        loop {
            match self.fill().await {
                Ok(false) => return Ok(None),
                Ok(true) => {
                    let Some(lying) = self.waiting.pop_front() else { continue };
                    let name = name_of(&lying.packed)?;
                    if self.was_given(lying.first, name) {
                        continue;
                    }
                    self.given = Some((lying.first, name));
                    return Ok(Some(lying));
                }
                Err(error) if is_passing(&error) && breaks < MOST_BREAKS => {
                    breaks += 1;
                    self.way.nodes().env().clock.sleep(PAUSE).await;
                    self.is_again = self.given.is_some();
                    self.ask(self.given.map_or(self.asked.1, |(first, _)| first.max(self.asked.1))).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a block came before it was asked again. Several may begin with the same number, if they have no element.
    fn was_given(&mut self, first: u64, name: (u64, u64)) -> bool {
        let Some((last, its_name)) = self.given.filter(|_| self.is_again) else { return false };
        self.is_again = first <= last && name != its_name;
        first <= last
    }

    /// What could not be read behind the last block.
    pub(super) fn unread(&mut self) -> Unread {
        std::mem::take(&mut self.unread)
    }

    /// Looks while a target that is followed is not silent for too long.
    async fn look_soon(&mut self, heard: &Heard, block: Name) -> Result<Option<Lying>> {
        let (clock, limit) = (self.way.nodes().env().clock.clone(), self.limit);
        let looked = match limit {
            Duration::MAX => return self.look_within(block.writer, block.number, block.times).await,
            limit => race(self.look_within(block.writer, block.number, block.times), clock.sleep(limit)).await,
        };
        match looked {
            First::Left(found) => found,
            First::Right(()) => {
                self.answer = None;
                heard.is_there.set(false);
                Err(Error::disconnected(format!("the target did not answer for {limit:?}")))
            }
        }
    }

    /// Looks among the blocks of these times alone.
    async fn look_within(&mut self, writer: u64, number: u64, times: (i64, i64)) -> Result<Option<Lying>> {
        self.begin((Timestamp(times.0), Timestamp(times.1))).await?;
        while let Some(lying) = self.next().await? {
            if name_of(&lying.packed)? == (writer, number) {
                return Ok(Some(lying));
            }
        }
        Ok(None)
    }

    async fn look_for(&mut self, writer: u64, number: u64, times: (i64, i64)) -> Result<Option<Lying>> {
        let mut is_anew = false;
        loop {
            // A stream of which nothing was wanted for long was ended where it ran.
            while self.fill().await.or_else(|error| if is_anew { Err(error) } else { Ok(false) })? {
                let (session, here) = name_of(&self.waiting[0].packed)?;
                if (session, here) == (writer, number) {
                    return Ok(self.waiting.pop_front());
                }
                if session == writer && here > number && is_anew {
                    return Ok(None);
                }
                if is_anew && self.waiting[0].begins_after(times)? {
                    // Nothing comes before it but where a clock was set back.
                    return self.look_within(writer, number, times).await;
                }
                if !is_anew && (session != writer || here > number) {
                    break;
                }
                self.waiting.pop_front();
            }
            if is_anew {
                return Ok(None);
            }
            is_anew = true;
            self.begin((Timestamp(times.0), Timestamp::MAX)).await?;
        }
    }
}

fn name_of(block: &[u8]) -> Result<(u64, u64)> {
    let view = View::of_sealed(block)?;
    Ok((view.header().writer.get(), view.header().number.get()))
}
