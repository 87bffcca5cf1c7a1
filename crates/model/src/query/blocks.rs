//! A set of blocks of one segment.

/// Some of the blocks `0..len` of a segment, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSet {
    len: usize,
    // Bits beyond `len` are zero.
    words: Vec<u64>,
}

impl BlockSet {
    /// None of `len` blocks.
    pub fn none(len: usize) -> BlockSet {
        BlockSet { len, words: vec![0; len.div_ceil(64)] }
    }

    /// All of `len` blocks.
    pub fn all(len: usize) -> BlockSet {
        let mut words = vec![u64::MAX; len.div_ceil(64)];
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last = (1 << (len % 64)) - 1;
        }
        BlockSet { len, words }
    }

    /// How many blocks there are to choose from.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no block is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many blocks are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether `block` is in the set; no block beyond the last one is.
    pub fn get(&self, block: usize) -> bool {
        self.words.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Puts `block`, which must be below [`BlockSet::len`], into the set.
    pub fn set(&mut self, block: usize) {
        assert!(block < self.len, "block {block} is not one of {}", self.len);
        self.words[block / 64] |= 1 << (block % 64);
    }

    /// Takes `block`, which must be below [`BlockSet::len`], out of the set.
    pub fn clear(&mut self, block: usize) {
        assert!(block < self.len, "block {block} is not one of {}", self.len);
        self.words[block / 64] &= !(1 << (block % 64));
    }

    /// Keeps only what is in `other`, a set of as many blocks, as well.
    pub fn and(&mut self, other: &BlockSet) {
        assert_eq!(self.len, other.len, "sets of different segments");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds what is in `other`, a set of as many blocks.
    pub fn or(&mut self, other: &BlockSet) {
        assert_eq!(self.len, other.len, "sets of different segments");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// The blocks in the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| i * 64 + rest.trailing_zeros() as usize)
        })
    }
}

impl FromIterator<bool> for BlockSet {
    fn from_iter<I: IntoIterator<Item = bool>>(blocks: I) -> BlockSet {
        let mut set = BlockSet::none(0);
        for chosen in blocks {
            if set.len.is_multiple_of(64) {
                set.words.push(0);
            }
            set.len += 1;
            if chosen {
                set.set(set.len - 1);
            }
        }
        set
    }
}
