//! What is not where it belongs, of targets that answer: they were away when it was recorded, or were lost and lie elsewhere.

use super::super::given::Depth;
use super::super::merge::Asked;
use super::super::source::Source;
use super::super::stripe::{PART_ABSENT, PART_TABLE, Row, Table};
use super::late::{Late, Told};
use super::maker::{MOST_TRIES, Maker};
use super::overrun::{self, Beginnings};
use super::{before_parity, read};
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::block::View;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Cause, Error, Gap, Result, Timestamp};
use forebay_wire::ring::RingQuery;
use std::rc::Rc;

/// Gives what may not be where it belongs. While what is recorded is followed, it goes on wherever the parity lies.
pub(in super::super) async fn absent(asked: &Asked, inlet: &Inlet<Result<Part>>) {
    match told(asked, inlet).await {
        // Who follows a ring would not hear of what comes later.
        Err(error) if asked.query.follow => {
            inlet.send(Err(error), 1).await;
        }
        // Nobody knows whether there was anything.
        Err(_) => asked.tell_away(Timestamp::MIN, inlet).await,
        Ok(()) => {}
    }
    inlet.send(Ok(Part::End(QuerySummary::default())), 1).await;
}

async fn told(asked: &Asked, inlet: &Inlet<Result<Part>>) -> Result<()> {
    let parity = asked.spread.targets as usize;
    if asked.statuses[parity].is_none() && !asked.query.follow {
        return Err(Error::disconnected("the target that has the parity is away"));
    }
    let mut maker = Maker::new(asked, inlet)?;
    if asked.replaced.contains(&asked.spread.targets) {
        // What the one that is lost alone knew of is nowhere.
        maker.batch.items.extend(before_parity(asked, asked.gap_from(Timestamp::MIN)).map(Item::Gap));
    }
    let mut beginnings = Beginnings::look(asked).await;
    let mut end = asked.end_of(asked.spread.targets);
    loop {
        let way = asked.ways[parity].apart();
        let mut tables = Source::new(way, query(asked), end, asked.heard[parity].clone());
        let told = absent_in(asked, &mut maker, &mut tables, &beginnings).await;
        maker.send().await;
        if told.is_ok() || !asked.query.follow || !tables.is_elsewhere() {
            return told;
        }
        // What the lost one had and had not told, nobody knows.
        let from = tables.last().map_or(asked.gap_from(Timestamp::MIN).first, |last| last.time);
        maker.tell(asked.gap_until_now(from)).await;
        (end, beginnings) = (u64::MAX, Beginnings::default());
    }
}

/// What is asked of the parity.
fn query(asked: &Asked) -> RingQuery {
    // Tables that say of no block that it is absent tell of those that lay on a target that is lost, too.
    let part = match is_data_replaced(asked) {
        true => format!("(part = {PART_TABLE} or part = {PART_ABSENT})"),
        false => format!("part = {PART_ABSENT}"),
    };
    let text = match asked.times().1 {
        Timestamp::MAX => part,
        to => format!("{part} and before {}", Timestamp(to.0 + 1)),
    };
    RingQuery { text, limit: None, gaps_only: false, blocks: false, numbered: false, ..asked.query.clone() }
}

fn is_data_replaced(asked: &Asked) -> bool {
    asked.replaced.iter().any(|component| *component < asked.spread.targets)
}

async fn absent_in(asked: &Asked, maker: &mut Maker<'_>, tables: &mut Source, beginnings: &Beginnings) -> Result<()> {
    let (mut before, mut sequence) = (asked.gap_from(Timestamp::MIN).first, 0);
    let mut late = Late::of(asked.spread.targets);
    loop {
        let Batch { items, payload } = match tables.next().await {
            Ok(Part::Batch(batch)) => batch,
            Ok(Part::End(_)) => break,
            Err(error) => {
                give(asked, maker, &mut late, (sequence, true)).await?;
                return Err(error);
            }
        };
        let mut at = 0;
        for item in items {
            let (length, caller, time) = match item {
                Item::Element { sequence: here, length, caller, time, .. } => {
                    sequence = here;
                    (length, caller, time)
                }
                Item::Gap(gap) => {
                    note(asked, &mut late, gap, sequence);
                    continue;
                }
                Item::Expired { from, to } => {
                    if !give(asked, maker, &mut late, (sequence, true)).await? {
                        return Ok(());
                    }
                    overrun::tell(asked, maker, beginnings, from..to, before).await;
                    continue;
                }
                Item::Block { .. } => continue,
            };
            let bytes = &payload[at..at + length as usize];
            at += length as usize + usize::from(caller);
            before = before.max(time);
            let table = Rc::new(Table::read(bytes, asked.spread.targets)?);
            let may_lack = |row: &&Row| row.absent || asked.replaced.contains(&row.component);
            for row in table.rows.iter().filter(may_lack).filter(|row| maker.concerns(row)) {
                late.block(&table, *row, sequence);
            }
            // Who follows a ring is told at once: whoever puts answers together holds what came.
            if !give(asked, maker, &mut late, (sequence, asked.query.follow)).await? {
                return Ok(());
            }
        }
        if !maker.send().await {
            return Ok(());
        }
    }
    if give(asked, maker, &mut late, (sequence, true)).await? {
        asked.seen_to.set(u64::MAX);
    }
    Ok(())
}

/// Gives of what was told up to this number at the parity all, or what nothing earlier can be told of any more. False if nobody wants
/// more.
async fn give(asked: &Asked, maker: &mut Maker<'_>, late: &mut Late, (sequence, all): (u64, bool)) -> Result<bool> {
    loop {
        asked.seen_to.set(late.first().unwrap_or(sequence));
        match late.next(all) {
            Some(Told::Block(table, row)) => {
                let is_away = asked.away.borrow().contains(&row.component);
                if !is_away && !absent_block(asked, maker, &table, &row).await? {
                    return Ok(false);
                }
            }
            Some(Told::Gap(gap)) => asked.tell_gap(gap, &mut maker.batch),
            None => return Ok(true),
        }
    }
}

/// Takes note of a gap of the parity: what nobody covered meanwhile, or tables that cannot be read.
fn note(asked: &Asked, late: &mut Late, gap: Gap, sequence: u64) {
    let counts = gap.cause == Cause::Damaged || gap.cause == Cause::TargetAway && is_data_replaced(asked);
    if counts {
        late.gap(Gap { count: None, ..gap }, sequence);
    }
}

/// Gives a block that may not be where it belongs, if it is not, or came there too late to be in what its target answers. False
/// if nobody wants more.
async fn absent_block(asked: &Asked, maker: &mut Maker<'_>, table: &Table, row: &Row) -> Result<bool> {
    let follow = asked.query.follow;
    if !row.absent && maker.known.contains(&(row.component, row.writer)) {
        return Ok(true);
    }
    if asked.given(row) == Depth::ALL {
        return Ok(true);
    }
    // Who follows a ring claims it before looking: it may come to its target meanwhile.
    if follow && !asked.claims.borrow_mut().claim(row) {
        return Ok(true);
    }
    // What is recorded now comes to both in its time.
    let is_live = follow && !row.absent && row.times.1 >= asked.query.now.0;
    let tries = if is_live { MOST_TRIES } else { 1 };
    let there = maker.sparse[row.component as usize].find_in_time(row.into(), tries).await;
    if let Ok(Some(_)) = &there {
        maker.known.insert((row.component, row.writer));
    }
    let is_given = match &there {
        Ok(Some(there)) => there.first < asked.end_of(row.component),
        Ok(None) => false,
        // Who asks that target for its part met the same, and makes again all that it had.
        Err(_) => !follow && asked.away.borrow().contains(&row.component),
    };
    if is_given {
        if follow {
            asked.claims.borrow_mut().drop(row);
        }
        return Ok(true);
    }
    if !follow && !asked.claims.borrow_mut().claim(row) {
        return Ok(true);
    }
    match there {
        Ok(Some(late)) => return Ok(maker.give_claimed(row, Some(late.packed)).await),
        // It may be given yet.
        Err(_) if !follow => {
            asked.claims.borrow_mut().tell(row);
            return Ok(maker.tell(Gap { count: None, ..row.gap() }).await);
        }
        Ok(None) | Err(_) => {}
    }
    let parity = &mut maker.blocks[asked.spread.targets as usize];
    // Who follows a ring goes on, and is told what this row was of.
    let tries = if follow { MOST_TRIES } else { 1 };
    let found = parity.find_in_time(table.into(), tries).await;
    let found = found.or_else(|error| if follow { Ok(None) } else { Err(error) })?;
    if let Some(found) = &found
        && let Some((table, xor)) = read(asked, &View::of_sealed(&found.packed)?)?
    {
        return Ok(maker.give_again(&table, row, xor).await);
    }
    Ok(maker.give_claimed(row, None).await)
}
