//! What makes blocks again, and gives what a query asks for of them.

use super::super::given::Depth;
use super::super::merge::Asked;
use super::super::stripe::{self, Row, Table};
use super::blocks::Blocks;
use super::read;
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::block::View;
use forebay_model::key::{KeySet, KeyValue};
use forebay_model::ring::{Batch, Item};
use forebay_model::{Gap, Result, Timestamp};
use std::collections::BTreeSet;

/// So often is looked for a block that may not be durable yet.
pub(super) const MOST_TRIES: u32 = 20;

/// What makes blocks anew for one query.
pub(super) struct Maker<'a> {
    asked: &'a Asked,
    inlet: &'a Inlet<Result<Part>>,
    pub(super) blocks: Vec<Blocks>,
    /// The same, for what is mostly not there.
    pub(super) sparse: Vec<Blocks>,
    keys: KeySet,
    values: Vec<KeyValue>,
    pub(super) batch: Batch,
    /// Sessions of parts that lie elsewhere by now, of which something is there: what comes later of them is there, too.
    pub(super) known: BTreeSet<(u32, u64)>,
}

/// What came of a block that its table does not make.
enum Rest {
    /// A later table makes it.
    Made(Vec<u8>),
    /// Who recorded gave it up, and told that in the ring itself.
    GivenUp,
    /// There is no later table, or it does not make it either.
    Unknown,
}

impl<'a> Maker<'a> {
    pub(super) fn new(asked: &'a Asked, inlet: &'a Inlet<Result<Part>>) -> Result<Maker<'a>> {
        let keys = asked.spec.key_set()?;
        let blocks = (0..asked.ways.len()).map(|component| Blocks::new(asked, component)).collect();
        let sparse = (0..asked.ways.len()).map(|component| Blocks::sparse(asked, component)).collect();
        let (values, batch, known) = (vec![KeyValue::MISSING; keys.len()], Batch::default(), BTreeSet::new());
        Ok(Maker { asked, inlet, blocks, sparse, keys, values, batch, known })
    }

    /// The block of a row, from all others of its stripe; nothing if one of them is not there.
    pub(super) async fn remake(&mut self, table: &Table, row: &Row, xor: &[u8]) -> Option<Vec<u8>> {
        let mut others = Vec::with_capacity(table.rows.len());
        for other in table.rows.iter().filter(|other| other.component != row.component) {
            let blocks = self.blocks.get_mut(other.component as usize)?;
            // While what is recorded is followed, one may be durable and another one not yet.
            let tries = if self.asked.query.follow { MOST_TRIES } else { 1 };
            others.push(blocks.find_in_time(other.into(), tries).await.ok()??.packed);
        }
        stripe::remake(row, xor, others.iter().map(Vec::as_slice)).ok()
    }

    /// Makes a row of a stripe again and gives it, as long as the claim stands. False if nobody wants more.
    pub(super) async fn give_again(&mut self, table: &Table, row: &Row, xor: &[u8]) -> bool {
        let mut block = self.remake(table, row, xor).await;
        if block.is_none() {
            // If the parity cannot be asked, it is as if it had nothing more of that stripe.
            match self.rest_of(table, row).await.unwrap_or(Rest::Unknown) {
                Rest::Made(made) => block = Some(made),
                Rest::GivenUp => {
                    self.asked.claims.borrow_mut().drop(row);
                    return self.inlet.is_open();
                }
                Rest::Unknown => {}
            }
        }
        self.give_claimed(row, block).await
    }

    /// What tables say of a row that came later, when another block of its stripe turned out to be lost.
    async fn rest_of(&mut self, table: &Table, row: &Row) -> Result<Rest> {
        let (asked, parity) = (self.asked, self.asked.spread.targets as usize);
        let (first, last) = table.times();
        let mut rest = Rest::Unknown;
        self.sparse[parity].begin((Timestamp(first), Timestamp(last))).await?;
        while let Some(lying) = self.sparse[parity].next().await? {
            let Some((later, xor)) = read(asked, &View::of_sealed(&lying.packed)?)? else { continue };
            if !later.is_rest_of(table) {
                continue;
            }
            let Some(own) = later.rows.iter().find(|own| own.is_same(row)) else {
                rest = Rest::GivenUp;
                continue;
            };
            if let Some(made) = self.remake(&later, own, xor).await {
                return Ok(Rest::Made(made));
            }
        }
        Ok(rest)
    }

    /// Gives what was claimed, as long as the claim stands. False if nobody wants more.
    pub(super) async fn give_claimed(&mut self, row: &Row, block: Option<Vec<u8>>) -> bool {
        let stands = match block {
            Some(_) => self.asked.claims.borrow_mut().give(row),
            None => self.asked.claims.borrow_mut().tell(row),
        };
        !stands || self.give(row, block).await
    }

    /// Gives what the query asks for of a row and was not given by its target, or says that it is missing. False if nobody wants
    /// more.
    pub(super) async fn give(&mut self, row: &Row, block: Option<Vec<u8>>) -> bool {
        let Maker { asked, keys, values, batch, .. } = self;
        let viewed = block.as_deref().map(View::of_sealed);
        let Some(Ok(view)) = viewed else { return self.tell(row.gap()).await };
        let (bytes, first) = (view.bytes(), view.header().first_sequence.get());
        let Depth { elements: given, gaps: mut told } = asked.given(row);
        let mut tell = |gap, passed: u64, batch: &mut Batch| {
            // Those before the last element that was given were given as well, and some behind it.
            let is_given = passed < given || passed == given && told > 0 && asked.is_wanted(&gap);
            match is_given {
                true => told -= u64::from(passed == given),
                false => asked.tell_gap(gap, batch),
            }
        };
        let (mut gaps, mut passed) = (view.gaps().peekable(), 0);
        for entry in view.entries().flatten() {
            while let Some((_, gap)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                tell(gap, passed, batch);
            }
            if entry.torn {
                continue;
            }
            passed = entry.sequence.saturating_sub(first) + u64::from(entry.last);
            if asked.query.gaps_only || passed <= given {
                continue;
            }
            keys.extract(&bytes[entry.payload.clone()], &bytes[entry.caller_keys.clone()], values);
            if !asked.parsed.matches(0, entry.time, values) {
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
        gaps.for_each(|(_, gap)| tell(gap, passed, batch));
        self.send().await
    }

    /// Tells that something is missing, if it was asked for. False if nobody wants more.
    pub(super) async fn tell(&mut self, gap: Gap) -> bool {
        self.asked.tell_gap(gap, &mut self.batch);
        self.send().await
    }

    /// Sends what there is. False if nobody wants more.
    pub(super) async fn send(&mut self) -> bool {
        if self.batch.items.is_empty() {
            return self.inlet.is_open();
        }
        let batch = std::mem::take(&mut self.batch);
        self.inlet.send(Ok(Part::Batch(batch)), 1).await
    }

    pub(super) fn concerns(&self, row: &Row) -> bool {
        let (from, to) = self.asked.times();
        row.times.0 <= to.0 && row.times.1 >= from.0
    }
}
