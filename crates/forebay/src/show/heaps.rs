//! Heaps as tables and sentences.

use super::human;
use forebay_client::heaps::{CommitInfo, HeapInfo, HeapMode, HeapSettings, RecordId};
use forebay_model::Bytes;

/// What a heap is set to, as a part of a sentence.
pub fn settings(settings: &HeapSettings) -> String {
    let keep = match settings.keep {
        keep if keep.is_zero() => String::new(),
        keep => format!("; commits can be read after the next, each for {}", human::span(keep)),
    };
    match settings.mode {
        HeapMode::Worm => "written once, and every commit can be read".to_string(),
        HeapMode::ReadWrite => {
            format!("slots are used again from {} free ones on{keep}", human::count(settings.threshold.into()))
        }
    }
}

fn root(root: Option<RecordId>) -> String {
    root.map_or_else(|| "none".to_string(), |root| root.to_string())
}

/// A table of commits.
pub fn commits(commits: &[CommitInfo]) -> Vec<String> {
    let mut table = human::table(&["commit", "time", "root"], &[0]);
    for commit in commits {
        table.add_row([human::count(commit.commit), human::clock(commit.time), root(commit.root)]);
    }
    human::lines(&table)
}

/// Everything about a heap, a line each, and a table of its classes.
pub fn details(heap: &HeapInfo) -> Vec<String> {
    let activity = &heap.activity;
    let mut lines = vec![
        format!("{}  commit {}, {}", heap.name, heap.last.commit, human::clock(heap.last.time)),
        format!("  root     {}", root(heap.last.root)),
        format!("  set to   {}", settings(&heap.settings)),
        format!("  history  from commit {} on, in {}", heap.oldest, human::some(heap.archive_slots, "slot")),
        format!("  space    {} of {} used", heap.used, heap.space),
        format!(
            "  written  {} with {} in {}; {} fill up slots and pages",
            human::some(activity.writes, "write"),
            human::some(activity.records, "record"),
            activity.written,
            activity.padding
        ),
        format!(
            "  spared   {} freed before they were written, {} from memory",
            human::some(activity.dropped, "record"),
            human::some(activity.hits + activity.hot_reads, "read")
        ),
    ];
    lines.extend(heap.complaints.iter().map(|complaint| format!("  damage   {complaint}")));
    let mut table =
        human::table(&["slot", "slots", "used", "kept", "free", "put", "recycled", "freed"], &[0, 1, 2, 3, 4, 5, 6, 7]);
    for class in heap.classes.iter().filter(|class| class.allocators > 0) {
        let free = class.slots.saturating_sub(class.used + class.kept);
        let counts = [class.slots, class.used, class.kept, free, class.taken, class.recycled, class.freed];
        table.add_row(std::iter::once(Bytes(u64::from(class.slot)).to_string()).chain(counts.map(human::count)));
    }
    if heap.classes.iter().any(|class| class.allocators > 0) {
        lines.push(String::new());
        lines.extend(human::lines(&table));
    }
    lines
}
