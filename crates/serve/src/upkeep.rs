//! What a server does for files by itself: how, and what it has done since it began.

use forebay_client::files::keep::Kept;
use forebay_client::files::scrub::Scrubbing;
use forebay_manager::Settings;
use forebay_model::{Rate, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// How a server looks after files.
#[derive(Debug, Clone, Copy)]
pub struct UpkeepOptions {
    /// How often and how fast it scrubs them.
    pub scrubbing: Scrubbing,
    /// When the fullest target is used by so many hundredths more than the emptiest, components are moved; 0: never.
    pub balance_above: u8,
    /// So fast at most each of them.
    pub balance_rate: Rate,
}

impl Default for UpkeepOptions {
    fn default() -> UpkeepOptions {
        let Settings { balance_above, .. } = Settings::default();
        UpkeepOptions { scrubbing: Scrubbing::default(), balance_above, balance_rate: Rate::mb(32) }
    }
}

/// What a server has done for files since it began.
#[derive(Debug, Default)]
pub struct Done {
    scrubbed_files: AtomicU64,
    scrubbed_bytes: AtomicU64,
    repaired_bytes: AtomicU64,
    lost_bytes: AtomicU64,
    rebuilt_components: AtomicU64,
    moved_components: AtomicU64,
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were read and compared to their end.
    pub scrubbed_files: u64,
    /// Bytes of components that were compared.
    pub scrubbed_bytes: u64,
    /// Bytes that were damaged or did not agree, and are right now.
    pub repaired_bytes: u64,
    /// Bytes of files that were found to be lost, each time that they were.
    pub lost_bytes: u64,
    /// Components that were made anew.
    pub rebuilt_components: u64,
    /// Components that were moved to other targets.
    pub moved_components: u64,
}

impl Done {
    /// Something was done for a file.
    pub fn note(&self, kept: &Result<Kept>) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.fetch_add(more, Ordering::Relaxed);
        };
        let lost = |lost: &[std::ops::Range<u64>]| lost.iter().map(|range| range.end - range.start).sum();
        match kept {
            Ok(Kept::Scrubbed(scrubbed)) => {
                add(&self.scrubbed_files, 1);
                add(&self.scrubbed_bytes, scrubbed.compared.0);
                add(&self.repaired_bytes, scrubbed.repaired.0);
                add(&self.lost_bytes, lost(&scrubbed.lost));
            }
            Ok(Kept::Mended(mended)) => {
                add(&self.repaired_bytes, mended.repaired.0);
                add(&self.lost_bytes, lost(&mended.lost));
            }
            Ok(Kept::Rebuilt(rebuilt)) => add(&self.rebuilt_components, u64::from(rebuilt.components)),
            Ok(Kept::Moved(moved)) => add(&self.moved_components, u64::from(moved.components)),
            Err(_) => {}
        }
    }

    /// What it is by now.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            scrubbed_files: of(&self.scrubbed_files),
            scrubbed_bytes: of(&self.scrubbed_bytes),
            repaired_bytes: of(&self.repaired_bytes),
            lost_bytes: of(&self.lost_bytes),
            rebuilt_components: of(&self.rebuilt_components),
            moved_components: of(&self.moved_components),
        }
    }
}
