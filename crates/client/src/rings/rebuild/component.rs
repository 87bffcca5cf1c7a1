//! What one part of a ring had whose target is away or lost.

use super::super::merge::Asked;
use super::super::replaced;
use super::super::way::PAUSE;
use super::blocks::{Blocks, Unread};
use super::maker::{MOST_TRIES, Maker};
use super::{before_parity, read};
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::block::View;
use forebay_model::ring::Item;
use forebay_model::{Cause, Error, Gap, Result, Timestamp};

/// Gives what one part of the ring had, of which nothing comes any more, from behind what was given of it.
pub(in super::super) async fn component(
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
        maker.blocks[component as usize].count_as_away();
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
        let mut reached = status.oldest.unwrap_or(whole.first).max(whole.first);
        while let Some(mut block) = stream.next().await? {
            let unread = std::mem::take(&mut block.unread);
            let view = View::of_sealed(&block.packed)?;
            tell_unread(asked, &mut maker, unread, reached, Timestamp(view.header().min_time.get()));
            reached = reached.max(Timestamp(view.header().max_time.get()));
            for (_, gap) in view.gaps().filter(|(_, gap)| gap.last >= whole.first && gap.first <= whole.last) {
                maker.batch.items.push(Item::Gap(gap));
            }
            let Some((table, xor)) = read(asked, &view)? else { continue };
            let Some(row) = table.rows.iter().find(|row| row.component == component).copied() else { continue };
            let is_again = last.is_some_and(|(writer, number)| writer == row.writer && row.number <= number);
            if is_again || !maker.concerns(&row) || row.times.1 < from.0 {
                continue;
            }
            last = Some((row.writer, row.number));
            // It may have been made before its target went away, also if a later table says first that it was absent.
            let is_mine =
                if row.absent { asked.claims.borrow_mut().claim(&row) } else { !asked.claims.borrow().stands(&row) };
            if !is_mine {
                continue;
            }
            let block = maker.remake(&table, &row, xor).await;
            if !maker.give(&row, block).await {
                return Ok(());
            }
        }
        tell_unread(asked, &mut maker, stream.unread(), reached, newest);
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

/// Tells what of the parity could not be read, between these times: nobody knows whether it was of what is made.
fn tell_unread(asked: &Asked, maker: &mut Maker<'_>, unread: Unread, from: Timestamp, to: Timestamp) {
    if let Some(damaged) = unread.damaged {
        asked.tell_gap(damaged, &mut maker.batch);
    }
    if unread.is_overrun && from < to {
        let last = Timestamp(to.0 - 1);
        asked.tell_gap(Gap { cause: Cause::TargetAway, count: None, first: from, last }, &mut maker.batch);
    }
}

/// Gives what the target had that is lost and had not given, of a ring that is followed and whose part lies elsewhere by now. It
/// is over when the parity has a block that is in the new place: whoever records began there after all that was on the lost one.
/// An error means that something may be missing.
pub(in super::super) async fn left_behind(
    asked: &Asked,
    component: u32,
    given: Option<(Timestamp, u64)>,
    inlet: &Inlet<Result<Part>>,
) -> Result<()> {
    let parity = asked.spread.targets as usize;
    let (first, to) = asked.times();
    let from = given.map_or(first, |(time, _)| time.max(first));
    let mut maker = Maker::new(asked, inlet)?;
    maker.given = given;
    let whole = asked.gap_until_now(from.max(asked.gap_from(Timestamp::MIN).first));
    let status = replaced::status(&asked.ways[parity]).await?;
    // What the parity has run over.
    if let Some(oldest) = status.oldest.filter(|oldest| *oldest > whole.first) {
        maker.tell(Gap { last: Timestamp(oldest.0 - 1), ..whole }).await;
    }
    let (mut stream, mut there) = (Blocks::of_whoever(asked, parity), Blocks::of_whoever(asked, component as usize));
    let (mut last, mut reached): (Option<(u64, u64)>, Timestamp) = (None, from.max(status.oldest.unwrap_or(from)));
    for _ in 0..MOST_TRIES {
        stream.begin((reached, to)).await?;
        while let Some(mut block) = stream.next().await? {
            let unread = std::mem::take(&mut block.unread);
            let view = View::of_sealed(&block.packed)?;
            tell_unread(asked, &mut maker, unread, reached, Timestamp(view.header().min_time.get()));
            let Some((table, xor)) = read(asked, &view)? else { continue };
            if last.is_none() || reached < Timestamp(table.times().0) {
                view.gaps().for_each(|(_, gap)| asked.tell_gap(gap, &mut maker.batch));
                reached = reached.max(Timestamp(table.times().0));
            }
            let Some(row) = table.rows.iter().find(|row| row.component == component).copied() else { continue };
            let is_again = last.is_some_and(|(writer, number)| writer == row.writer && row.number <= number);
            if is_again || !maker.concerns(&row) || row.times.1 < from.0 {
                continue;
            }
            last = Some((row.writer, row.number));
            if let Ok(Some(_)) = there.find((&row).into()).await {
                maker.send().await;
                return Ok(());
            }
            let is_mine = asked.claims.borrow_mut().claim(&row);
            if is_mine && !maker.give_again(&table, &row, xor).await {
                return Ok(());
            }
        }
        asked.ways[parity].nodes().env().clock.sleep(PAUSE).await;
    }
    // Nobody records there.
    maker.send().await;
    Ok(())
}
