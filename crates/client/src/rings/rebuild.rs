//! What a target does not have, or does not give, made of what the other ones of its stripe have.
//!
//! The tables in the parity say which blocks there were. Blocks are asked for by their times and known by session and number;
//! what cannot be made is told with its times, and with its count where a table has it.

use super::answer::PartAnswer;
use super::merge::Asked;
use super::source::Source;
use super::stripe::{self, PART_ABSENT, PART_TABLE, Row, Table};
use super::way::{PAUSE, Way};
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::block::{Header, View};
use forebay_model::key::{KeySet, KeyValue};
use forebay_model::ring::{Batch, Item, QuerySummary, RingStatus};
use forebay_model::{Error, Gap, Kind, Result, Timestamp};
use forebay_wire::ring::RingQuery;
use std::collections::{BTreeSet, VecDeque};

/// So often is looked for a block that may not be durable yet.
const MOST_TRIES: u32 = 20;

/// Whether an error says that what a target had is gone.
pub(super) fn is_of_a_lost_target(error: &Error) -> bool {
    matches!(error.kind, Kind::Missing | Kind::Device | Kind::Damaged)
}

/// Blocks of one part of a ring as they were packed, in the order in which they lie there.
struct Blocks {
    way: Way,
    now: Timestamp,
    answer: Option<PartAnswer>,
    waiting: VecDeque<Lying>,
    is_away: bool,
    /// Whether it lies elsewhere since its target was lost: most of what is looked for is not there.
    is_replaced: bool,
}

/// A block as it was packed, and the number of its first element where it lies.
struct Lying {
    packed: Vec<u8>,
    first: u64,
}

impl Blocks {
    fn new(asked: &Asked, component: usize) -> Blocks {
        let is_away = asked.statuses[component].is_none();
        let way = asked.ways[component].apart();
        let is_replaced = asked.replaced.contains(&(component as u32));
        Blocks { way, now: asked.query.now, answer: None, waiting: VecDeque::new(), is_away, is_replaced }
    }

    async fn begin(&mut self, times: (Timestamp, Timestamp)) -> Result<()> {
        self.waiting.clear();
        // With it ends its connection, over which the next one would be asked.
        self.answer = None;
        let text = match times {
            (Timestamp::MIN, Timestamp::MAX) => String::new(),
            (from, Timestamp::MAX) => format!("after {from}"),
            (Timestamp::MIN, to) => format!("before {}", Timestamp(to.0 + 1)),
            (from, to) => format!("time in {from}..{to}"),
        };
        let query = RingQuery { text, now: self.now, follow: false, limit: None, gaps_only: false, blocks: true };
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
                        if let Item::Element { length, .. } = item {
                            let mut block = payload[at..at + length as usize].to_vec();
                            at += length as usize;
                            let view = View::parse(&block)?;
                            view.verify()?;
                            let first = view.header().first_sequence.get();
                            Header::clear_stamp(&mut block);
                            self.waiting.push_back(Lying { packed: block, first });
                        }
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

    /// The block of a row, if it is there when it was looked for so often.
    async fn find_in_time(&mut self, row: &Row, mut tries: u32) -> Result<Option<Lying>> {
        loop {
            let found = self.find(row.writer, row.number, row.times).await?;
            tries -= 1;
            if found.is_some() || tries == 0 {
                return Ok(found);
            }
            self.way.nodes().env().clock.sleep(PAUSE).await;
        }
    }

    /// The block of this session and number, if it is there. An error means that the target is away.
    async fn find(&mut self, writer: u64, number: u64, times: (i64, i64)) -> Result<Option<Lying>> {
        if self.is_away {
            return Err(Error::disconnected("the target is away"));
        }
        let found = match self.is_replaced {
            true => self.look_within(writer, number, times).await,
            false => self.look_for(writer, number, times).await,
        };
        self.is_away = found.is_err();
        found
    }

    /// Looks among the blocks of these times alone.
    async fn look_within(&mut self, writer: u64, number: u64, times: (i64, i64)) -> Result<Option<Lying>> {
        self.begin((Timestamp(times.0), Timestamp(times.1))).await?;
        while self.fill().await? {
            let lying = self.waiting.pop_front();
            if let Some(lying) = lying.filter(|lying| name_of(&lying.packed).is_ok_and(|name| name == (writer, number)))
            {
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

/// What makes blocks anew for one query.
struct Maker<'a> {
    asked: &'a Asked,
    inlet: &'a Inlet<Result<Part>>,
    blocks: Vec<Blocks>,
    keys: KeySet,
    values: Vec<KeyValue>,
    batch: Batch,
    /// What is passed over: elements before this time, and so many of it.
    given: Option<(Timestamp, u64)>,
    /// Sessions of parts that lie elsewhere by now, of which something is there: what comes later of them is there, too.
    known: BTreeSet<(u32, u64)>,
}

impl<'a> Maker<'a> {
    fn new(asked: &'a Asked, inlet: &'a Inlet<Result<Part>>) -> Result<Maker<'a>> {
        let keys = asked.spec.key_set()?;
        let blocks = (0..asked.ways.len()).map(|component| Blocks::new(asked, component)).collect();
        let values = vec![KeyValue::MISSING; keys.len()];
        Ok(Maker { asked, inlet, blocks, keys, values, batch: Batch::default(), given: None, known: BTreeSet::new() })
    }

    /// The block of a row, from all others of its stripe; nothing if one of them is not there.
    async fn remake(&mut self, table: &Table, row: &Row, xor: &[u8]) -> Option<Vec<u8>> {
        let mut others = Vec::with_capacity(table.rows.len());
        for other in table.rows.iter().filter(|other| other.component != row.component) {
            let blocks = self.blocks.get_mut(other.component as usize)?;
            // While what is recorded is followed, one may be durable and another one not yet.
            let tries = if self.asked.query.follow { MOST_TRIES } else { 1 };
            others.push(blocks.find_in_time(other, tries).await.ok()??.packed);
        }
        stripe::remake(row, xor, others.iter().map(Vec::as_slice)).ok()
    }

    /// Gives what the query asks for of a row, or says that it is missing. False if nobody wants more.
    async fn give(&mut self, row: &Row, block: Option<Vec<u8>>) -> bool {
        let Maker { asked, keys, values, batch, given, .. } = self;
        let viewed = block.as_deref().map(View::of_sealed);
        let Some(Ok(view)) = viewed else { return self.tell(row.gap()).await };
        let bytes = view.bytes();
        let mut gaps = view.gaps().peekable();
        for entry in view.entries().flatten() {
            while let Some((_, told)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                asked.tell_gap(told, batch);
            }
            if asked.query.gaps_only {
                continue;
            }
            keys.extract(&bytes[entry.payload.clone()], &bytes[entry.caller_keys.clone()], values);
            if !asked.parsed.matches(0, entry.time, values) {
                continue;
            }
            if let Some((last, count)) = given
                && (entry.time < *last || entry.time == *last && *count > 0)
            {
                *count -= u64::from(entry.time == *last);
                continue;
            }
            batch.payload.extend_from_slice(&bytes[entry.payload.clone()]);
            batch.payload.extend_from_slice(&bytes[entry.caller_keys.clone()]);
            batch.items.push(Item::Element {
                sequence: 0,
                time: entry.time,
                length: entry.payload.len() as u32,
                caller: entry.caller_keys.len() as u16,
                cut: entry.cut,
                first: true,
                last: true,
            });
        }
        gaps.for_each(|(_, told)| asked.tell_gap(told, batch));
        self.send().await
    }

    /// Tells that something is missing, if it was asked for. False if nobody wants more.
    async fn tell(&mut self, gap: Gap) -> bool {
        self.asked.tell_gap(gap, &mut self.batch);
        self.send().await
    }

    /// Sends what there is. False if nobody wants more.
    async fn send(&mut self) -> bool {
        if self.batch.items.is_empty() {
            return self.inlet.is_open();
        }
        let batch = std::mem::take(&mut self.batch);
        self.inlet.send(Ok(Part::Batch(batch)), 1).await
    }

    fn concerns(&self, row: &Row) -> bool {
        let (from, to) = self.asked.times();
        row.times.0 <= to.0 && row.times.1 >= from.0
    }
}

/// Of which of these times the parity has nothing, and others have something.
fn before_parity(asked: &Asked, whole: Gap) -> Option<Gap> {
    let oldest = |status: &Option<RingStatus>| status.as_ref().and_then(|status| status.oldest);
    let parity = oldest(&asked.statuses[asked.spread.targets as usize]).unwrap_or(Timestamp::MAX);
    let is_all = asked.statuses.iter().filter_map(oldest).min() >= Some(parity);
    let last = Timestamp(parity.0.saturating_sub(1)).min(whole.last);
    (parity > whole.first && !is_all).then_some(Gap { last, ..whole })
}

/// Gives what one part of the ring had, of which nothing comes any more, from behind what was given of it.
pub(super) async fn component(
    asked: &Asked,
    component: u32,
    given: Option<(Timestamp, u64)>,
    inlet: &Inlet<Result<Part>>,
) {
    let from = given.map_or(Timestamp::MIN, |(time, _)| time);
    let parity = asked.spread.targets as usize;
    let outcome = async {
        let mut maker = Maker::new(asked, inlet)?;
        maker.given = given;
        maker.blocks[component as usize].is_away = true;
        // What the parity has run over, and the others have not.
        let whole = asked.gap_from(from);
        let status = asked.statuses[parity].as_ref();
        let status = status.ok_or_else(|| Error::disconnected("the target that has the parity is away"))?;
        let newest = status.newest.unwrap_or(Timestamp::MIN);
        maker.batch.items.extend(before_parity(asked, whole).map(Item::Gap));
        let mut stream = Blocks::new(asked, parity);
        let times = asked.times();
        stream.begin((times.0.max(from), times.1)).await?;
        let mut last: Option<(u64, u64)> = None;
        while stream.fill().await? {
            let Some(block) = stream.waiting.pop_front() else { break };
            let view = View::of_sealed(&block.packed)?;
            for (_, gap) in view.gaps().filter(|(_, gap)| gap.last >= whole.first && gap.first <= whole.last) {
                maker.batch.items.push(Item::Gap(gap));
            }
            let Some((table, xor)) = read(&view)? else { continue };
            let Some(row) = table.rows.iter().find(|row| row.component == component).copied() else { continue };
            let is_again = last.is_some_and(|(writer, number)| writer == row.writer && row.number <= number);
            if is_again || !maker.concerns(&row) {
                continue;
            }
            last = Some((row.writer, row.number));
            if row.absent && !asked.remade.borrow_mut().insert((component, row.writer, row.number)) {
                continue;
            }
            let block = maker.remake(&table, &row, xor).await;
            if !maker.give(&row, block).await {
                return Ok(());
            }
        }
        // What came after what the parity has.
        let others = asked.statuses[..parity].iter().flatten().filter_map(|status| status.newest).max();
        if let Some(last) = others.filter(|last| *last > newest && newest < whole.last) {
            let first = Timestamp(newest.0.saturating_add(1)).max(whole.first);
            if first <= last {
                maker.batch.items.push(Item::Gap(Gap { first, last: last.min(whole.last).max(first), ..whole }));
            }
        }
        maker.send().await;
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    if outcome.is_err() {
        asked.tell_away(from, inlet).await;
    }
}

/// Table and parity of a block of parity, if it has such.
fn read<'a>(view: &View<'a>) -> Result<Option<(Table, &'a [u8])>> {
    let mut entries = view.entries();
    let (Some(table), Some(xor)) = (entries.next().transpose()?, entries.next().transpose()?) else { return Ok(None) };
    let bytes = view.bytes();
    Ok(Some((Table::read(&bytes[table.payload])?, &bytes[xor.payload])))
}

/// Gives what may not be where it belongs, of targets that answer: they were away when it was recorded.
pub(super) async fn absent(asked: &Asked, inlet: &Inlet<Result<Part>>) {
    let parity = asked.spread.targets as usize;
    let (_, to) = asked.times();
    // Tables that say of no block that it is absent tell of those that lay on a target that is lost, too.
    let part = match asked.replaced.iter().any(|component| (*component as usize) < parity) {
        true => format!("(part = {PART_TABLE} or part = {PART_ABSENT})"),
        false => format!("part = {PART_ABSENT}"),
    };
    let text = match to {
        Timestamp::MAX => part,
        to => format!("{part} and before {}", Timestamp(to.0 + 1)),
    };
    let query = RingQuery { text, limit: None, gaps_only: false, blocks: false, ..asked.query.clone() };
    let mut tables = Source::new(asked.ways[parity].apart(), query, asked.end_of(asked.spread.targets));
    let told = match (asked.statuses[parity].is_some(), Maker::new(asked, inlet)) {
        (true, Ok(mut maker)) => {
            if asked.replaced.contains(&asked.spread.targets) {
                // What the one that is lost alone knew of is nowhere.
                maker.batch.items.extend(before_parity(asked, asked.gap_from(Timestamp::MIN)).map(Item::Gap));
            }
            let told = absent_in(asked, &mut maker, &mut tables).await;
            maker.send().await;
            told
        }
        _ => Err(Error::disconnected("the target that has the parity is away")),
    };
    if told.is_err() {
        // Nobody knows whether there was anything.
        asked.tell_away(Timestamp::MIN, inlet).await;
    }
    inlet.send(Ok(Part::End(QuerySummary::default())), 1).await;
}

async fn absent_in(asked: &Asked, maker: &mut Maker<'_>, tables: &mut Source) -> Result<()> {
    while let Part::Batch(Batch { items, payload }) = tables.next().await? {
        let mut at = 0;
        for item in items {
            let Item::Element { length, caller, .. } = item else { continue };
            let bytes = &payload[at..at + length as usize];
            at += length as usize + usize::from(caller);
            let table = Table::read(bytes)?;
            let may_lack = |row: &&Row| row.absent || asked.replaced.contains(&row.component);
            for row in table.rows.iter().filter(may_lack) {
                let is_asked = maker.concerns(row) && !asked.away.borrow().contains(&row.component);
                if is_asked && !absent_block(asked, maker, &table, row).await? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Gives a block that may not be where it belongs, if it is not, or came there too late to be in what its target answers. False
/// if nobody wants more.
async fn absent_block(asked: &Asked, maker: &mut Maker<'_>, table: &Table, row: &Row) -> Result<bool> {
    if !row.absent && maker.known.contains(&(row.component, row.writer)) {
        return Ok(true);
    }
    // What is recorded now comes to both in its time.
    let is_live = asked.query.follow && !row.absent && row.times.1 >= asked.query.now.0;
    let tries = if is_live { MOST_TRIES } else { 1 };
    let there = maker.blocks[row.component as usize].find_in_time(row, tries).await;
    if let Ok(Some(_)) = &there {
        maker.known.insert((row.component, row.writer));
    }
    let is_given = match &there {
        Ok(Some(there)) => there.first < asked.end_of(row.component),
        Ok(None) => false,
        // Who asks that target for its part met the same, and makes again all that it had.
        Err(_) => !asked.query.follow && asked.away.borrow().contains(&row.component),
    };
    if is_given || !asked.remade.borrow_mut().insert((row.component, row.writer, row.number)) {
        return Ok(true);
    }
    match there {
        Ok(Some(late)) => return Ok(maker.give(row, Some(late.packed)).await),
        // It may have been given.
        Err(_) if !asked.query.follow => return Ok(maker.tell(Gap { count: None, ..row.gap() }).await),
        _ => {}
    }
    let parity = &mut maker.blocks[asked.spread.targets as usize];
    let found = parity.find(table.writer, table.number, table.times()).await;
    // Who follows a ring goes on, and is told what this row was of.
    parity.is_away &= !asked.query.follow;
    let block = match found.or_else(|error| if asked.query.follow { Ok(None) } else { Err(error) })? {
        Some(found) => match read(&View::of_sealed(&found.packed)?)? {
            Some((table, xor)) => maker.remake(&table, row, xor).await,
            None => None,
        },
        None => None,
    };
    Ok(maker.give(row, block).await)
}
