//! What a record changes in the rows, the space and the logs: the same when a command is given and when opening reads
//! the record again.
//!
//! Pure: no waiting, no I/O. The leaves that a change touches must be in memory ([`needs`]).

use super::logs::Logs;
use super::record::{Change, Write};
use super::rows::{Crcs, Head, Key, Logged, PIECE_BLOCKS, Part, Piece, Row};
use super::space::{Run, Space};
use super::tree::Tree;
use forebay_model::{Error, ObjectId, Result, Timestamp};
use std::collections::BTreeMap;

/// Everything that is known of objects.
pub struct Meta {
    /// Rows.
    pub tree: Tree,
    /// Where their bytes lie.
    pub data: Space,
    /// Where the rows lie.
    pub tables: Space,
    /// Where records lie.
    pub logs: Logs,
    /// Blocks that volumes hold beside what the rows say: those of buffered writes.
    pub buffered: BTreeMap<u64, u64>,
    /// How many runs have been let go by one of several objects that shared them.
    pub unshared: u64,
}

/// The ranges of keys whose rows `change` may look at.
pub fn needs(change: &Change) -> Vec<(Key, Key)> {
    let head = |id: ObjectId| (Key::head(id), Key::head(id));
    let of_volume = |id: ObjectId| head(ObjectId::volume(id.volume));
    match change {
        Change::Opens(_) => Vec::new(),
        Change::Create { id, .. } => vec![head(*id), of_volume(*id)],
        Change::Quota { id, .. } => vec![head(*id)],
        Change::Remove { id } => vec![(Key::head(*id), Key::end_of(*id)), of_volume(*id)],
        Change::Attributes { id, set, .. } => {
            let at = |page, number| Key { id: *id, part: Part::Attribute { page, number } };
            set.iter().map(|(page, number, _)| (at(*page, *number), at(*page, *number))).chain([head(*id)]).collect()
        }
        Change::Snapshot { id, of, .. } => {
            vec![(Key::head(*of), Key::end_of(*of)), (Key::head(*id), Key::end_of(*id)), of_volume(*id)]
        }
        Change::Write(write) => {
            let runs = write.dropped.into_iter().chain(write.logged.iter().map(|(at, c)| (*at, at + c.0.len() as u64)));
            let runs = runs.chain(write.pieces.iter().map(|(at, piece)| (*at, at + piece.blocks())));
            let runs = runs.chain(write.inline.iter().map(|_| (0, 1)));
            let mut ranges: Vec<(Key, Key)> = runs.flat_map(|(from, to)| touching(write.id, from, to)).collect();
            ranges.extend([head(write.id), of_volume(write.id)]);
            ranges
        }
        Change::Copy { id, logged } => {
            let runs = logged.iter().flat_map(|(at, crcs)| touching(*id, *at, at + crcs.0.len() as u64));
            runs.chain([head(*id)]).collect()
        }
        Change::Move { id, pieces } => {
            let runs = pieces.iter().flat_map(|(at, piece)| touching(*id, *at, at + piece.blocks()));
            runs.chain([head(*id), of_volume(*id)]).collect()
        }
    }
}

/// Where the rows lie that tell of blocks `from..to` of an object, of the one before them, and of what follows them at
/// home: those of pieces, with the inline one before them if the first block is near, and those of logged blocks.
pub fn touching(id: ObjectId, from: u64, to: u64) -> [(Key, Key); 2] {
    let to = to.max(from + 1);
    let low = lowest_with(id, from.saturating_sub(1));
    [(low, Key::piece(id, to)), (Key::logged(id, from), Key::logged(id, to - 1))]
}

/// The lowest key that the row of a piece may have in which a block is; the inline one if that is the first block.
fn lowest_with(id: ObjectId, block: u64) -> Key {
    match block.saturating_sub(u64::from(PIECE_BLOCKS) - 1) {
        0 => Key::inline(id),
        first => Key::piece(id, first),
    }
}

impl Meta {
    /// What is known of an object.
    pub fn head(&self, id: ObjectId) -> Option<&Head> {
        match self.tree.get(&Key::head(id)) {
            Some(Row::Head(head)) => Some(head),
            _ => None,
        }
    }

    /// The pieces of an object that have some of the blocks `from..to`, with the first block of each, in order. Their
    /// rows must be in memory.
    pub(super) fn pieces(&self, id: ObjectId, from: u64, to: u64) -> impl DoubleEndedIterator<Item = (u64, &Piece)> {
        let [(_, high), _] = touching(id, from, to);
        // They do not overlap: of all that begin before, the last alone may reach so far.
        let near = self.tree.reaching(lowest_with(id, from), Key::piece(id, from), high);
        near.filter_map(move |(key, row)| match (key.part, row) {
            (Part::Piece(begins), Row::Piece(piece)) if begins < to && begins + piece.blocks() > from => {
                Some((begins, piece))
            }
            _ => None,
        })
    }

    /// Which of the blocks `first..end` of an object there are. Their rows must be in memory.
    pub fn present(&self, id: ObjectId, first: u64, end: u64) -> Vec<bool> {
        let mut present = vec![false; (end - first) as usize];
        if first == 0 && first < end {
            present[0] = self.is_inline(id);
        }
        for (begins, piece) in self.pieces(id, first, end) {
            let (from, to) = (begins.max(first), (begins + piece.blocks()).min(end));
            present[(from - first) as usize..(to - first) as usize].fill(true);
        }
        let [_, logged] = touching(id, first, end);
        for (key, _) in self.tree.range(logged.0, logged.1) {
            if let Part::Logged(block) = key.part {
                present[(block - first) as usize] = true;
            }
        }
        present
    }

    /// How many of the blocks `first..end` of an object there are not. Their rows must be in memory.
    pub fn absent(&self, id: ObjectId, first: u64, end: u64) -> u64 {
        let cut = |(begins, piece): (u64, &Piece)| (begins.max(first), (begins + piece.blocks()).min(end));
        let at_home: Vec<(u64, u64)> = self.pieces(id, first, end).map(cut).collect();
        let [_, logged] = touching(id, first, end);
        let in_logs = self.tree.range(logged.0, logged.1).filter_map(|(key, _)| logged_block(key));
        let inline = u64::from(first == 0 && first < end && self.is_inline(id));
        end - first - inline - occupied(&at_home, in_logs)
    }

    /// Makes a change. `data_at` is the device's block where the record's logged blocks begin. The runs that are free
    /// when the record is durable.
    pub fn apply(&mut self, change: &Change, data_at: &mut u64) -> Result<Vec<Run>> {
        let mut freed = Vec::new();
        match change {
            Change::Opens(groups) => self.logs.named(groups),
            Change::Create { id, head } => {
                self.tree.put(Key::head(*id), Row::Head(head.clone()));
                if id.is_user() {
                    self.change_volume(*id, |volume| volume.objects += 1);
                }
            }
            Change::Remove { id } => {
                let blocks = self.need_head(*id)?.blocks;
                self.drop_blocks(*id, 0, u64::MAX, &mut freed);
                let keys: Vec<Key> = self.tree.range(Key::head(*id), Key::end_of(*id)).map(|(key, _)| *key).collect();
                keys.iter().for_each(|key| drop(self.tree.take(key)));
                if id.is_user() {
                    self.change_volume(*id, |volume| {
                        volume.objects -= 1;
                        volume.blocks -= blocks;
                    });
                }
            }
            Change::Write(write) => self.write(write, data_at, &mut freed)?,
            Change::Move { id, pieces } => {
                self.need_head(*id)?;
                let mut more = 0;
                for (at, piece) in pieces {
                    more += piece.blocks() - self.drop_blocks(*id, *at, at + piece.blocks(), &mut freed);
                    self.put_piece(*id, *at, piece.clone());
                }
                if more > 0 {
                    self.change_head(*id, |head| head.blocks += more);
                    self.change_volume(*id, |volume| volume.blocks += more);
                }
                // Blocks that went home to where they were before stay taken.
                let stays = |run: &Run| !pieces.iter().any(|(_, p)| p.at <= run.at && run.end() <= p.at + p.blocks());
                freed.retain(stays);
            }
            Change::Copy { id, logged } => {
                for (first, crcs) in logged {
                    self.put_logged(*id, *first, crcs, data_at);
                }
            }
            Change::Attributes { id, time, set } => {
                for (page, number, value) in set {
                    let key = Key { id: *id, part: Part::Attribute { page: *page, number: *number } };
                    match value {
                        Some(value) => self.tree.put(key, Row::Attribute(value.clone())),
                        None => self.tree.take(&key),
                    };
                }
                self.need_head(*id)?;
                self.change_head(*id, |head| (head.changed, head.version) = (*time, head.version + 1));
            }
            Change::Snapshot { id, of, time } => self.snapshot(*id, *of, *time)?,
            Change::Quota { id, time, quota } => {
                self.need_head(*id)?;
                self.change_head(*id, |head| {
                    (head.changed, head.version) = (*time, head.version + 1);
                    head.volume.get_or_insert_default().quota = *quota;
                });
            }
        }
        Ok(freed)
    }

    fn snapshot(&mut self, id: ObjectId, of: ObjectId, time: Timestamp) -> Result<()> {
        let head = Head { created: time, changed: time, version: 1, ..self.need_head(of)?.clone() };
        let blocks = head.blocks;
        let rows: Vec<(Part, Row)> = self
            .tree
            .range(Key::head(of), Key::end_of(of))
            .filter(|(_, row)| matches!(row, Row::Attribute(_) | Row::Inline(_) | Row::Piece(_)))
            .map(|(key, row)| (key.part, row.clone()))
            .collect();
        for (part, row) in rows {
            if let Row::Piece(piece) = &row {
                self.share(piece);
            }
            self.tree.put(Key { id, part }, row);
        }
        self.tree.put(Key::head(id), Row::Head(head));
        self.change_volume(id, |volume| {
            volume.objects += 1;
            volume.blocks += blocks;
        });
        Ok(())
    }

    fn need_head(&self, id: ObjectId) -> Result<&Head> {
        self.head(id).ok_or_else(|| Error::damaged(format!("a record tells of {id}, which does not exist")))
    }

    fn change_volume(&mut self, id: ObjectId, change: impl FnOnce(&mut super::rows::Volume)) {
        self.change_head(ObjectId::volume(id.volume), |head| change(head.volume.get_or_insert_default()));
    }

    pub(super) fn change_head(&mut self, id: ObjectId, change: impl FnOnce(&mut Head)) {
        self.tree.alter(&Key::head(id), |row| {
            if let Row::Head(head) = row {
                change(head);
            }
        });
    }

    fn write(&mut self, write: &Write, data_at: &mut u64, freed: &mut Vec<Run>) -> Result<()> {
        let id = write.id;
        self.need_head(id)?;
        let (mut fewer, mut more) = (0, 0);
        if let Some((from, to)) = write.dropped {
            fewer += self.drop_blocks(id, from, to, freed);
        }
        for (first, piece) in &write.pieces {
            more += piece.blocks() - self.drop_blocks(id, *first, first + piece.blocks(), freed);
            self.put_piece(id, *first, piece.clone());
        }
        for (first, crcs) in &write.logged {
            let fresh = self.put_logged(id, *first, crcs, data_at);
            more += self.absent_at_home(id, &fresh) - u64::from(self.drop_inline(id, *first));
        }
        if let Some(bytes) = &write.inline {
            more += 1 - self.put_inline(id, bytes.clone(), freed);
        }
        self.change_head(id, |head| {
            head.size = write.size;
            head.blocks = head.blocks + more - fewer;
            if write.commands > 0 {
                (head.modified, head.changed, head.version) = (write.time, write.time, head.version + write.commands);
            }
        });
        if more != fewer {
            self.change_volume(id, |volume| volume.blocks = volume.blocks + more - fewer);
        }
        Ok(())
    }

    /// Blocks from `first` on are in a log from `data_at` on; those of them that were in no log.
    fn put_logged(&mut self, id: ObjectId, first: u64, crcs: &Crcs, data_at: &mut u64) -> Vec<u64> {
        let mut fresh = Vec::new();
        for (block, crc) in (first..).zip(&crcs.0) {
            let row = Row::Logged(Logged { at: *data_at, crc: *crc });
            match self.tree.put(Key::logged(id, block), row) {
                Some(Row::Logged(old)) => self.logs.dropped(self.logs.log_of(old.at)),
                _ => fresh.push(block),
            }
            self.logs.needed(self.logs.log_of(*data_at));
            *data_at += 1;
        }
        fresh
    }

    /// How many of `blocks` of an object, in order, are in no piece.
    fn absent_at_home(&self, id: ObjectId, blocks: &[u64]) -> u64 {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return 0 };
        let below = |end: u64| blocks.partition_point(|block| *block < end);
        let at_home = |(begins, piece): (u64, &Piece)| below(begins + piece.blocks()) - below(begins);
        (blocks.len() - self.pieces(id, *first, last + 1).map(at_home).sum::<usize>()) as u64
    }

    /// Puts a piece, as one with those beside it that it continues.
    fn put_piece(&mut self, id: ObjectId, mut first: u64, mut piece: Piece) {
        let joins =
            |a: &Piece, b: &Piece| a.at + a.blocks() == b.at && a.blocks() + b.blocks() <= u64::from(PIECE_BLOCKS);
        let before = first.checked_sub(1).and_then(|last| self.pieces(id, last, first).next());
        let begins = before.filter(|(_, before)| joins(before, &piece)).map(|(begins, _)| begins);
        if let Some(begins) = begins
            && let Some(Row::Piece(mut before)) = self.tree.take(&Key::piece(id, begins))
        {
            before.crcs.0.append(&mut piece.crcs.0);
            (first, piece) = (begins, before);
        }
        let behind = Key::piece(id, first + piece.blocks());
        if let Some(Row::Piece(other)) = self.tree.get(&behind)
            && joins(&piece, other)
            && let Some(Row::Piece(mut other)) = self.tree.take(&behind)
        {
            piece.crcs.0.append(&mut other.crcs.0);
        }
        self.tree.put(Key::piece(id, first), Row::Piece(piece));
    }

    /// Drops what lies in blocks `from..to` of an object, inline, at home and in logs; how many of them there were.
    pub(super) fn drop_blocks(&mut self, id: ObjectId, from: u64, to: u64, freed: &mut Vec<Run>) -> u64 {
        let inline = u64::from(self.drop_inline(id, from));
        let logged = self.drop_logged(id, from, to);
        let pieces = self.drop_pieces(id, from, to, freed);
        inline + occupied(&pieces, logged.into_iter())
    }

    /// The blocks that were in a log.
    fn drop_logged(&mut self, id: ObjectId, from: u64, to: u64) -> Vec<u64> {
        let [_, (low, high)] = touching(id, from, to);
        let blocks: Vec<u64> = self.tree.range(low, high).filter_map(|(key, _)| logged_block(key)).collect();
        for block in &blocks {
            if let Some(Row::Logged(logged)) = self.tree.take(&Key::logged(id, *block)) {
                self.logs.dropped(self.logs.log_of(logged.at));
            }
        }
        blocks
    }

    /// First block and end of what was in each piece.
    fn drop_pieces(&mut self, id: ObjectId, from: u64, to: u64, freed: &mut Vec<Run>) -> Vec<(u64, u64)> {
        let mut over: Vec<(u64, u64)> = self.pieces(id, from, to).map(|(first, _)| (first, first)).collect();
        for (first, end) in &mut over {
            let begins = *first;
            let Some(Row::Piece(piece)) = self.tree.take(&Key::piece(id, begins)) else { continue };
            let (cut, rest) = (from.max(begins) - begins, to.min(begins + piece.blocks()) - begins);
            if cut > 0 {
                self.tree.put(Key::piece(id, begins), Row::Piece(piece.part(0, cut)));
            }
            if rest < piece.blocks() {
                self.tree.put(Key::piece(id, begins + rest), Row::Piece(piece.part(rest, piece.blocks())));
            }
            freed.extend(self.unshare(Run { at: piece.at + cut, blocks: rest - cut }));
            (*first, *end) = (begins + cut, begins + rest);
        }
        over
    }
}

/// The block of which a row tells where it lies in a log.
fn logged_block(key: &Key) -> Option<u64> {
    match key.part {
        Part::Logged(block) => Some(block),
        _ => None,
    }
}

/// How many blocks there are at home, where first and end of each run of them are given in order, or in logs.
fn occupied(at_home: &[(u64, u64)], in_logs: impl Iterator<Item = u64>) -> u64 {
    let is_at_home = |block: u64| {
        let next = at_home.partition_point(|(first, _)| *first <= block);
        next > 0 && block < at_home[next - 1].1
    };
    let apart = in_logs.filter(|block| !is_at_home(*block)).count() as u64;
    apart + at_home.iter().map(|(first, end)| end - first).sum::<u64>()
}

#[cfg(test)]
mod tests;
