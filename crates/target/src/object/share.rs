//! Blocks at home that belong to several objects: how many more than one, in rows of their own.
//!
//! A block without such a row belongs to one object, or to none. A snapshot makes sharers; whoever lets a block go, by
//! writing elsewhere or removing, ends one; the last lets it be free. Nothing that is shared is overwritten in place.
//!
//! Pure, as [`super::apply`]: the rows must be in memory ([`Meta::sharing`]).

use super::apply::Meta;
use super::record::Change;
use super::rows::{Key, PIECE_BLOCKS, Part, Piece, Row, Shared};
use super::space::Run;
use forebay_model::ObjectId;

/// Where the rows lie that tell who shares blocks of this run, and where one begins if one is cut at its end: each tells
/// of [`PIECE_BLOCKS`] at most.
pub(super) fn around(run: Run) -> (Key, Key) {
    (lowest_with(run.at), Key::shared(run.end()))
}

/// The lowest key that the row may have which tells who shares a block.
fn lowest_with(block: u64) -> Key {
    Key::shared(block.saturating_sub(u64::from(PIECE_BLOCKS) - 1))
}

impl Meta {
    /// The ranges of keys whose rows tell who shares what `changes` let go. What the changes themselves look at
    /// ([`super::apply::needs`]) must be in memory.
    pub fn sharing(&self, changes: &[Change]) -> Vec<(Key, Key)> {
        let mut ranges = Vec::new();
        let mut add = |id: ObjectId, from: u64, to: u64| {
            let runs = self.pieces(id, from, to).map(|(_, piece)| Run { at: piece.at, blocks: piece.blocks() });
            ranges.extend(runs.map(around));
        };
        for change in changes {
            match change {
                Change::Remove { id } => add(*id, 0, u64::MAX),
                Change::Snapshot { of, .. } => add(*of, 0, u64::MAX),
                Change::Write(write) => {
                    write.dropped.iter().for_each(|(from, to)| add(write.id, *from, *to));
                    write.pieces.iter().for_each(|(at, piece)| add(write.id, *at, at + piece.blocks()));
                    write.inline.iter().for_each(|_| add(write.id, 0, 1));
                }
                Change::Move { id, pieces } => {
                    pieces.iter().for_each(|(at, piece)| add(*id, *at, at + piece.blocks()));
                }
                _ => {}
            }
        }
        ranges
    }

    /// Whether a block at home is shared.
    pub fn is_shared(&self, at: u64) -> bool {
        !self.sharers(Run { at, blocks: 1 }).is_empty()
    }

    /// What is shared of a run: each part of it with how many more than one it belongs to.
    fn sharers(&self, run: Run) -> Vec<(Run, u32)> {
        let (low, high) = (lowest_with(run.at), Key::shared(run.end() - 1));
        let part = |(key, row): (&Key, &Row)| match (key.part, row) {
            (Part::Shared(at), Row::Shared(Shared { blocks, more })) => {
                let (from, to) = (at.max(run.at), (at + u64::from(*blocks)).min(run.end()));
                (from < to).then(|| (Run { at: from, blocks: to - from }, *more))
            }
            _ => None,
        };
        self.tree.reaching(low, Key::shared(run.at), high).filter_map(part).collect()
    }

    /// Ends the row at block `at` of the device, so that one begins there and one ends there.
    fn cut_at(&mut self, at: u64) {
        let over = self.tree.range(lowest_with(at), Key::shared(at)).find_map(|(key, row)| match (key.part, row) {
            (Part::Shared(begin), Row::Shared(shared)) if begin < at && at < begin + u64::from(shared.blocks) => {
                Some((begin, *shared))
            }
            _ => None,
        });
        let Some((begin, Shared { blocks, more })) = over else { return };
        let before = (at - begin) as u32;
        self.tree.put(Key::shared(begin), Row::Shared(Shared { blocks: before, more }));
        self.tree.put(Key::shared(at), Row::Shared(Shared { blocks: blocks - before, more }));
    }

    /// The blocks of a piece belong to one object more.
    pub(super) fn share(&mut self, piece: &Piece) {
        let run = Run { at: piece.at, blocks: piece.blocks() };
        self.cut_at(run.at);
        self.cut_at(run.end());
        let mut next = run.at;
        for (part, more) in self.sharers(run) {
            self.share_alone(next, part.at);
            self.tree.put(Key::shared(part.at), Row::Shared(Shared { blocks: part.blocks as u32, more: more + 1 }));
            next = part.end();
        }
        self.share_alone(next, run.end());
    }

    /// The blocks of a run belong to `more` objects more than one, whatever was said of them.
    pub(super) fn set_sharers(&mut self, run: Run, more: u32) {
        self.cut_at(run.at);
        self.cut_at(run.end());
        for (part, _) in self.sharers(run) {
            self.tree.take(&Key::shared(part.at));
        }
        if more == 0 {
            return;
        }
        for at in (run.at..run.end()).step_by(PIECE_BLOCKS as usize) {
            let blocks = (run.end() - at).min(u64::from(PIECE_BLOCKS)) as u32;
            self.tree.put(Key::shared(at), Row::Shared(Shared { blocks, more }));
        }
    }

    fn share_alone(&mut self, from: u64, to: u64) {
        if from < to {
            self.tree.put(Key::shared(from), Row::Shared(Shared { blocks: (to - from) as u32, more: 1 }));
        }
    }

    /// The blocks of a run belong to one object less; those that belong to none now.
    pub(super) fn unshare(&mut self, run: Run) -> Vec<Run> {
        self.cut_at(run.at);
        self.cut_at(run.end());
        let (mut free, mut next) = (Vec::new(), run.at);
        let mut alone = |from: u64, to: u64| {
            if from < to {
                free.push(Run { at: from, blocks: to - from });
            }
        };
        for (part, more) in self.sharers(run) {
            self.unshared += 1;
            alone(next, part.at);
            if more > 1 {
                let shared = Shared { blocks: part.blocks as u32, more: more - 1 };
                self.tree.put(Key::shared(part.at), Row::Shared(shared));
            } else {
                self.tree.take(&Key::shared(part.at));
            }
            next = part.end();
        }
        alone(next, run.end());
        free
    }
}
