//! What one part of a ring had whose target is away or lost.

use super::super::given::{Depth, Last};
use super::super::merge::Asked;
use super::super::replaced;
use super::super::stripe::{Row, Table};
use super::super::way::PAUSE;
use super::blocks::{Blocks, Unread};
use super::maker::{MOST_TRIES, Maker};
use super::{before_parity, before_parity_of, read};
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::block::View;
use forebay_model::ring::{Item, RingStatus};
use forebay_model::{Cause, Error, Gap, Moment, Result, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// So often it is looked whether a block that is told of is where its part lies by now: what is made of the others meanwhile is given once
/// all the same.
const LOOK: Duration = Duration::from_secs(1);

/// Gives what one part of the ring had, of which nothing comes any more, from behind what was given of it.
pub(in super::super) async fn component(asked: &Asked, component: u32, inlet: &Inlet<Result<Part>>) {
    let last = asked.last_of(component);
    let from = last.map_or(Timestamp::MIN, |last| last.time);
    let parity = asked.spread.targets as usize;
    let outcome = async {
        let mut maker = Maker::new(asked, inlet)?;
        maker.blocks[component as usize].count_as_away();
        // What the parity has run over, and the others have not.
        let whole = asked.gap_from(Timestamp::MIN);
        let status = asked.statuses[parity].as_ref();
        let status = status.ok_or_else(|| Error::disconnected("the target that has the parity is away"))?;
        let newest = status.newest.unwrap_or(Timestamp::MIN);
        if last.is_none() {
            maker.batch.items.extend(before_parity(asked, whole).map(Item::Gap));
        }
        let mut stream = Blocks::new(asked, parity);
        let mut rows = Rows::begin(asked, component, status, &mut stream).await?;
        let mut reached = Reached::Beginning(from.max(status.oldest.unwrap_or(whole.first)).max(whole.first));
        while let Some(mut block) = stream.next().await? {
            let unread = std::mem::take(&mut block.unread);
            let view = View::of_sealed(&block.packed)?;
            reached.tell(asked, &mut maker, unread, Timestamp(view.header().min_time.get()));
            reached = Reached::Block(Timestamp(view.header().max_time.get()));
            rows.tell_gaps(asked, &mut maker, &view, block.first);
            let Some((table, xor)) = read(asked, &view)? else { continue };
            let Some(row) = rows.next(asked, &mut maker, &table, block.first) else { continue };
            // It may have been made before its target went away, also if a later table says first that it was absent.
            let is_mine = asked.claims.borrow_mut().claim(&row);
            if is_mine && !maker.give_again(&table, &row, xor).await {
                return Ok(());
            }
        }
        reached.tell(asked, &mut maker, stream.unread(), newest);
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

/// The blocks of a part, as tables of the parity tell of them in the order of recording.
struct Rows {
    component: u32,
    /// The last element that was given, and the number at the parity of what tells of its block, if that has such.
    last: Option<Last>,
    behind: Option<u64>,
    /// Whether the parity may have had something before the first that it has.
    is_overrun: bool,
    /// Of each session, the number of the last block that was told of.
    told: BTreeMap<u64, u64>,
}

impl Rows {
    /// Begins where the parity tells of the last block of which something was given; if it does not, with what it has first.
    async fn begin(asked: &Asked, component: u32, parity: &RingStatus, stream: &mut Blocks) -> Result<Rows> {
        let (last, mut behind) = (asked.last_of(component), None);
        if let Some(last) = last {
            stream.begin((last.time, last.time)).await?;
            while let Some(block) = stream.next().await? {
                let view = View::of_sealed(&block.packed)?;
                let Some((table, _)) = read(asked, &view)? else { continue };
                let is_it =
                    |row: &Row| (row.component, row.writer, row.number) == (component, last.writer, last.number);
                if table.rows.iter().any(is_it) {
                    behind = Some(block.first);
                    break;
                }
            }
        }
        // What may not be where it belongs and was not seen to is given, too.
        let seen_to = if asked.query.follow { u64::MAX } else { asked.seen_to.get() };
        stream.begin_at(asked.times(), behind.unwrap_or(0).min(seen_to)).await?;
        let is_overrun = parity.first_sequence > 0 || asked.replaced.contains(&asked.spread.targets);
        Ok(Rows { component, last, behind, is_overrun, told: BTreeMap::new() })
    }

    /// Tells the gaps of a block of parity with this number, if it is behind what was given.
    fn tell_gaps(&self, asked: &Asked, maker: &mut Maker<'_>, view: &View<'_>, number: u64) {
        if self.behind.is_none_or(|behind| number > behind) {
            view.gaps().for_each(|(_, gap)| asked.tell_gap(gap, &mut maker.batch));
        }
    }

    /// The block of the part in the table with this number, if something of it is to be given.
    fn next(&mut self, asked: &Asked, maker: &mut Maker<'_>, table: &Table, number: u64) -> Option<Row> {
        let row = table.rows.iter().find(|row| row.component == self.component).copied()?;
        let told = self.told.get(&row.writer).copied();
        if told.is_some_and(|told| row.number <= told) || !maker.concerns(&row) {
            return None;
        }
        // Before what it gave last, its target passed over what was not asked for. What it lacks all the same a later table tells.
        let may_lack = row.absent || asked.replaced.contains(&self.component);
        if !may_lack && self.behind.is_some_and(|behind| number < behind) {
            return None;
        }
        let is_first = self.told.is_empty();
        self.told.insert(row.writer, row.number);
        let given = asked.given(&row);
        if let Some(last) = self.last.filter(|_| is_first && self.is_overrun && self.behind.is_none())
            && given == Depth::NOTHING
            && (row.writer, row.number) != (last.writer, last.number + 1)
        {
            let (first, last) = (last.time.0.min(row.times.0), last.time.0.max(row.times.0));
            let (first, last) = (Timestamp(first), Timestamp(last));
            asked.tell_gap(Gap { cause: Cause::TargetAway, count: None, first, last }, &mut maker.batch);
        }
        (given != Depth::ALL).then_some(row)
    }
}

/// How far the parity was read.
enum Reached {
    /// What it has first is still to come, from then on.
    Beginning(Timestamp),
    /// The latest time of the last block.
    Block(Timestamp),
}

impl Reached {
    /// Tells what of the parity could not be read up to a time: nobody knows whether it was of what is made.
    fn tell(&self, asked: &Asked, maker: &mut Maker<'_>, unread: Unread, to: Timestamp) {
        if let Some(damaged) = unread.damaged {
            asked.tell_gap(damaged, &mut maker.batch);
        }
        let (Reached::Beginning(from) | Reached::Block(from)) = *self;
        let times = match self {
            _ if from < to => Some((from, Timestamp(to.0 - 1))),
            // A clock was set back in it: it may be of any time.
            Reached::Block(_) => Some((asked.gap_from(Timestamp::MIN).first, from)),
            Reached::Beginning(_) => None,
        };
        if let Some((first, last)) = times.filter(|_| unread.is_overrun) {
            asked.tell_gap(Gap { cause: Cause::TargetAway, count: None, first, last }, &mut maker.batch);
        }
    }
}

/// Gives what the target had that is lost and had not given, of a ring that is followed and whose part lies elsewhere by now. It
/// is over when the parity has a block that is in the new place: whoever records began there after all that was on the lost one.
/// An error means that something may be missing.
pub(in super::super) async fn left_behind(asked: &Asked, component: u32, inlet: &Inlet<Result<Part>>) -> Result<()> {
    let parity = asked.spread.targets as usize;
    let mut maker = Maker::new(asked, inlet)?;
    let whole = asked.gap_until_now(asked.gap_from(Timestamp::MIN).first);
    let status = replaced::status(&asked.ways[parity]).await?;
    if asked.last_of(component).is_none() {
        let mut oldest = Vec::new();
        for way in &asked.ways[..parity] {
            oldest.push(replaced::status(way).await.ok().and_then(|status| status.oldest));
        }
        oldest.push(status.oldest);
        if let Some(unknown) = before_parity_of(&oldest, whole) {
            maker.tell(unknown).await;
        }
    }
    let (mut stream, mut there) = (Blocks::of_whoever(asked, parity), Blocks::of_whoever(asked, component as usize));
    let mut rows = Rows::begin(asked, component, &status, &mut stream).await?;
    let from = asked.last_of(component).map_or(whole.first, |last| last.time.max(whole.first));
    let mut reached = Reached::Beginning(from.max(status.oldest.unwrap_or(from)));
    // Of which session a block was looked for in the new place last, and when.
    let (clock, mut looked) = (asked.ways[parity].nodes().env().clock.clone(), None);
    // The number of the last block of parity, and which one it was.
    let mut last: Option<(u64, (u64, u64))> = None;
    for _ in 0..MOST_TRIES {
        let mut again = last;
        while let Some(mut block) = stream.next().await? {
            let unread = std::mem::take(&mut block.unread);
            let view = View::of_sealed(&block.packed)?;
            let (number, name) = (block.first, (view.header().writer.get(), view.header().number.get()));
            if again.is_some_and(|(last, _)| number < last) {
                continue;
            }
            if let Some(again) = again.take() {
                if again != (number, name) {
                    // What was not durable was lost in a crash, and others have its numbers: all is looked through again.
                    stream.begin(asked.times()).await?;
                }
                continue;
            }
            last = Some((number, name));
            reached.tell(asked, &mut maker, unread, Timestamp(view.header().min_time.get()));
            reached = Reached::Block(Timestamp(view.header().max_time.get()));
            rows.tell_gaps(asked, &mut maker, &view, number);
            let Some((table, xor)) = read(asked, &view)? else { continue };
            let Some(row) = rows.next(asked, &mut maker, &table, number) else { continue };
            let is_soon = |(writer, at): (u64, Moment)| writer == row.writer && clock.now() < at + LOOK;
            if !row.absent && !looked.is_some_and(is_soon) {
                match there.find((&row).into()).await {
                    Ok(Some(_)) => {
                        maker.send().await;
                        return Ok(());
                    }
                    Ok(None) => {}
                    // It may be back the next time.
                    Err(_) => there = Blocks::of_whoever(asked, component as usize),
                }
                looked = Some((row.writer, clock.now()));
            }
            let is_mine = asked.claims.borrow_mut().claim(&row);
            if is_mine && !maker.give_again(&table, &row, xor).await {
                return Ok(());
            }
        }
        clock.sleep(PAUSE).await;
        stream.begin_at(asked.times(), last.map_or(0, |(number, _)| number)).await?;
    }
    // Nobody records there.
    maker.send().await;
    Ok(())
}
