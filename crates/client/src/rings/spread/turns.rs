//! Which target has which block: in turn, as the next one of a stripe where there is parity, and what goes to that of the parity then.
//!
//! Always: of targets that are away, a stripe has a block of one at most. An element of several blocks goes to one target, and what is left of
//! it is lost where its beginning is.

use super::super::stripe::{self, Row, Table};
use super::lane::Lane;
use super::unsettled::{Member, Parity, Stripe};
use super::{Conductor, tell};
use crate::outbox::Shared;
use crate::peer::Block;
use forebay_env::{Buffer, Slab};
use forebay_model::Gap;
use forebay_model::block::{Header, View};
use forebay_model::layout::parity;
use std::sync::Arc;

impl Conductor {
    /// Whether the next block can be handed to somebody.
    pub(super) fn has_room_for_next(&mut self, front: &Shared) -> bool {
        let data = self.spread.targets as usize;
        if front.lock().kept.is_empty() || self.lanes[..data].iter().all(|lane| lane.up().is_none()) {
            return false;
        }
        // What is recorded while the parity moves would be without.
        if self.lanes.get(data).is_some_and(|parity| parity.is_leaving(self.now())) {
            return false;
        }
        match (&self.slab, self.chain) {
            (Some(slab), _) => slab.available() > 0 || self.stripes.back().is_some_and(|stripe| stripe.is_open),
            (None, Some((lane, writer))) => writer.is_none() || self.lanes[lane].has_room(),
            (None, None) => self.lanes[..data].iter().any(Lane::has_room),
        }
    }

    /// Hands a block to the target that has its turn.
    pub(super) fn take(&mut self, mut block: Block) {
        let (data, now) = (self.spread.targets as usize, self.now());
        let view = View::of_sealed(&block.buffer).expect("the recorder packed it");
        let gaps = view.gaps().map(|(_, gap)| gap).collect();
        let (within, goes_on) = (view.header().starts_within(), view.header().continues());
        let chain = self.chain.take().filter(|_| within);
        let at = match (chain, self.slab.is_some()) {
            (Some((lane, _)), _) => lane,
            (None, true) => self.next_of_stripe().unwrap_or(self.turn),
            (None, false) => {
                let mut in_turn = (0..data).map(|step| (self.turn + step) % data);
                in_turn.find(|lane| self.lanes[*lane].has_room()).unwrap_or(self.turn)
            }
        };
        self.turn = (at + 1) % data;
        let lane = &self.lanes[at];
        // What goes on where the beginning is gone is gone.
        let is_lost = chain.is_some_and(|(_, writer)| writer != Some(lane.writer));
        let is_up = lane.up().is_some();
        if goes_on {
            self.chain = Some((at, (is_up && !is_lost).then_some(lane.writer)));
        }
        Header::set_writer(&mut block.buffer, lane.writer, lane.next);
        let row = Row::of(at as u32, &block.buffer).expect("the recorder packed it");
        let number = std::mem::replace(&mut block.number, lane.next);
        let block = Arc::new(block);
        let is_sent = is_up && !is_lost;
        if is_sent || self.slab.is_some() {
            self.lanes[at].hand_over(block.clone());
        }
        let member = Member {
            row,
            sent: is_sent.then_some(now),
            is_durable: false,
            number,
            gaps,
            block: self.slab.is_some().then_some(block),
            is_lost: self.slab.is_none() && !is_sent,
        };
        match self.stripes.back_mut().filter(|stripe| stripe.is_open) {
            Some(stripe) => {
                stripe.members.push(member);
                stripe.last = number;
            }
            None => {
                let buffer = self.slab.as_ref().and_then(Slab::try_take);
                let (is_open, parity) = match buffer {
                    Some(buffer) => (true, Parity::Reserved(buffer)),
                    None => (false, Parity::None),
                };
                self.stripes.push_back(Stripe { members: vec![member], last: number, is_open, parity });
            }
        }
        self.close_full();
    }

    /// The target that has its turn in the open stripe, or in the next one: of those that are away, a stripe has one at most, whose
    /// block its parity makes good. Nothing if there is none left.
    fn next_of_stripe(&self) -> Option<usize> {
        let data = self.spread.targets as usize;
        let members = self.stripes.back().filter(|stripe| stripe.is_open).map_or(&[][..], |stripe| &stripe.members[..]);
        let may_lack = self.lanes[data].up().is_some() && !members.iter().any(|member| self.is_gone(member));
        let in_turn = (0..data).map(|step| (self.turn + step) % data);
        let mut others = in_turn.filter(|at| members.iter().all(|member| member.row.component as usize != *at));
        others.find(|at| (may_lack || self.lanes[*at].up().is_some()) && !self.lanes[*at].is_leaving(self.now()))
    }

    /// Closes the open stripe if no target is left that the next block of it could go to.
    pub(super) fn close_full(&mut self) {
        if self.stripes.back().is_some_and(|stripe| stripe.is_open) && self.next_of_stripe().is_none() {
            self.close_stripe();
        }
    }

    /// Whether the target of a block is away, or was since it had it, and it is not known to be durable there.
    fn is_gone(&self, member: &Member) -> bool {
        let lane = &self.lanes[member.row.component as usize];
        !member.is_durable && (lane.up().is_none() || lane.writer != member.row.writer)
    }

    /// Whether somebody waits for a stripe that has not all of its blocks.
    pub(super) fn is_wanted(&self, wanted: u64, closing: bool) -> bool {
        let Some(stripe) = self.stripes.back().filter(|stripe| stripe.is_open) else { return false };
        let accepted =
            stripe.members.iter().filter_map(|member| member.block.as_ref()).map(|block| block.accepted).min();
        let is_old = accepted.is_some_and(|accepted| self.now().since(accepted) >= self.flush_interval / 2);
        closing || wanted >= stripe.members[0].number || is_old
    }

    /// Computes the parity of the open stripe, and hands it over.
    pub(super) fn close_stripe(&mut self) {
        let Some(mut stripe) = self.stripes.pop_back_if(|stripe| stripe.is_open) else { return };
        stripe.is_open = false;
        let mut has_absent = false;
        for member in &mut stripe.members {
            member.row.absent = self.is_gone(member);
            // Of several that went away since they had theirs, the parity makes the first one's good; it is without the others.
            member.is_lost |= member.row.absent && std::mem::replace(&mut has_absent, true);
        }
        self.xor.clear();
        self.xor.resize(stripe.longest(), 0);
        for member in &mut stripe.members {
            if let Some(block) = member.block.take().filter(|_| !member.is_lost) {
                parity::add(&mut self.xor, &block.buffer);
            }
        }
        if let Parity::Reserved(buffer) = std::mem::replace(&mut stripe.parity, Parity::None) {
            let (xor, gap) = (std::mem::take(&mut self.xor), self.untold);
            stripe.parity = self.send_parity(&stripe.members, &xor, gap, buffer);
            self.xor = xor;
        }
        if self.spread.parity && matches!(stripe.parity, Parity::None) {
            tell(&mut self.untold, stripe.uncovered());
        }
        stripe.lose_what_is_nowhere(&self.lanes);
        self.stripes.push_back(stripe);
    }

    /// Hands the parity of these over, if its target is there.
    pub(super) fn send_parity(&mut self, members: &[Member], xor: &[u8], gap: Option<Gap>, buffer: Buffer) -> Parity {
        let (now, data) = (self.now(), self.spread.targets as usize);
        let lane = &mut self.lanes[data];
        if lane.up().is_none() {
            return Parity::None;
        }
        let (writer, number) = (lane.writer, lane.next);
        let rows = members.iter().filter(|member| !member.is_lost).map(|member| member.row).collect();
        let table = Table { writer, number, rows };
        let Ok(buffer) = stripe::pack(&table, xor, gap, buffer) else { return Parity::None };
        if gap.is_some() {
            self.untold = None;
        }
        let block = Arc::new(Block { buffer, number, accepted: now });
        lane.hand_over(block.clone());
        Parity::Sent { sent: now, is_durable: false, table, block, told: gap }
    }
}
