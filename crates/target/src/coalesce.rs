//! The one way in which what is scattered goes to the device: sorted by where it goes, what is near in one run, several
//! runs at a time.
//!
//! Write-behind and the taking home of logs come here through [`crate::object`], the write cache of heaps through
//! [`crate::heap`]; each has dropped what is superseded before, says itself what is near enough, and lays out its runs.

use forebay_env::Spawner;
use forebay_model::Result;
use std::collections::VecDeque;
use std::ops::Range;

/// What goes to the device in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run<T> {
    /// Where it goes.
    pub at: Range<u64>,
    /// Whose it is, by where each begins.
    pub pieces: Vec<T>,
}

/// Sorts pieces by where they go, and puts those into one run that `joins` says go on where it ends, or that overlap it.
pub(crate) fn runs<T>(
    mut pieces: Vec<(Range<u64>, T)>,
    joins: impl Fn(&Run<T>, &Range<u64>, &T) -> bool,
) -> Vec<Run<T>> {
    pieces.sort_unstable_by_key(|(at, _)| at.start);
    let mut runs: Vec<Run<T>> = Vec::new();
    for (at, piece) in pieces {
        match runs.last_mut() {
            Some(run) if at.start < run.at.end || joins(run, &at, &piece) => {
                run.at.end = run.at.end.max(at.end);
                run.pieces.push(piece);
            }
            _ => runs.push(Run { at, pieces: vec![piece] }),
        }
    }
    runs
}

/// Begins with these writes in their order, so many under way at once, and waits for all of them. After one has failed
/// no other is begun; it is the first error.
pub(crate) async fn write_all<F: Future<Output = Result<()>> + 'static>(
    spawner: &Spawner,
    under_way: usize,
    writes: impl Iterator<Item = F>,
) -> Result<()> {
    let mut writing = VecDeque::with_capacity(under_way);
    let mut result = Ok(());
    for write in writes {
        if writing.len() == under_way
            && let Some(first) = writing.pop_front()
        {
            result = first.await;
            if result.is_err() {
                break;
            }
        }
        writing.push_back(spawner.spawn(write));
    }
    for write in writing {
        let ended = write.await;
        result = result.and(ended);
    }
    result
}

#[cfg(test)]
mod tests;
