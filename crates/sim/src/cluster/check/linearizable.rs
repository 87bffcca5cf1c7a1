//! What several clients wrote to a file and read of it looks as if it had been done one after the other, each at some moment
//! between when it was asked and when it was answered.
//!
//! A file is many registers, one for each of its cells, and a history of registers is linearizable if that of each one is
//! (Herlihy and Wing, 1990). Each write has a value of its own, so it is known which write a read saw; then it is enough to
//! look at two values at a time (Gibbons and Korach, 1997): what was done with one is done with nothing else between. A write
//! without an answer may happen at any time after it was asked, or never.

use std::collections::BTreeMap;

/// What a register is before anything is written.
pub(in crate::cluster) const FIRST: u64 = 0;

/// One operation on one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) struct Operation {
    /// Whether it writes.
    pub(in crate::cluster) writes: bool,
    /// What it wrote, which nobody else does, or what it read.
    pub(in crate::cluster) value: u64,
    /// When it was asked.
    pub(in crate::cluster) asked: u64,
    /// When it was answered. A write that never was, or with an error, may be done or not; a read like that says nothing.
    pub(in crate::cluster) answered: Option<u64>,
}

/// All that was done with one value. Something of it has happened by the first answer, and something happens only after the
/// last question: between these it is what the register has, if the answer is the earlier of them.
#[derive(Debug, Clone, Copy)]
struct Span {
    value: u64,
    first_answer: u64,
    last_question: u64,
}

impl Span {
    /// Whether there is a time during which nothing else may be written.
    fn lasts(&self) -> bool {
        self.first_answer < self.last_question
    }

    /// Whether both cannot be: `self` lasts over a time in which the other begins to last, or surely happens.
    fn excludes(&self, other: &Span) -> bool {
        self.lasts() && self.first_answer < other.last_question && other.first_answer < self.last_question
    }
}

/// Whether there is an order of these operations on one register in which each read gives what was written last.
pub(in crate::cluster) fn check(history: &[Operation]) -> Result<(), String> {
    let mut spans = BTreeMap::from([(FIRST, Span { value: FIRST, first_answer: 0, last_question: 0 })]);
    let mut begun = BTreeMap::new();
    for write in history.iter().filter(|one| one.writes) {
        let Operation { value, asked, answered, .. } = *write;
        let of_its_own = Span { value, first_answer: answered.unwrap_or(u64::MAX), last_question: asked };
        if spans.insert(value, of_its_own).is_some() {
            return Err(format!("{value} was written twice, so nobody knows which of them was read"));
        }
        begun.insert(value, asked);
    }
    for read in history.iter().filter(|one| !one.writes) {
        let Some(answered) = read.answered else { continue };
        let Some(span) = spans.get_mut(&read.value) else {
            return Err(format!("{read:?} is of what nobody wrote"));
        };
        if begun.get(&read.value).is_some_and(|asked| answered < *asked) {
            return Err(format!("{read:?} was answered before that was written"));
        }
        span.first_answer = span.first_answer.min(answered);
        span.last_question = span.last_question.max(read.asked);
    }
    // What nobody saw and nobody answered need not have happened.
    let happened: Vec<Span> = spans.into_values().filter(|span| span.first_answer < u64::MAX).collect();
    for one in happened.iter().filter(|one| one.lasts()) {
        if let Some(other) = happened.iter().find(|other| other.value != one.value && one.excludes(other)) {
            let of = |value| history.iter().filter(move |known| known.value == value).collect::<Vec<_>>();
            let (ones, others) = (of(one.value), of(other.value));
            return Err(format!("no order has what was done with one value, {ones:?}, and with another, {others:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
