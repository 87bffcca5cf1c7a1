//! Heaps as tables and sentences.

use super::human;
use forebay_client::heaps::HeapInfo;
use forebay_model::Bytes;

/// Everything about a heap, a line each, and a table of its classes.
pub fn details(heap: &HeapInfo) -> Vec<String> {
    let activity = &heap.activity;
    let root = heap.root.map_or_else(|| "none".to_string(), |root| root.to_string());
    let mut lines = vec![
        format!("{}  commit {}", heap.name, heap.commit),
        format!("  root     {root}"),
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
            human::some(activity.hits, "read")
        ),
    ];
    lines.extend(heap.complaints.iter().map(|complaint| format!("  damage   {complaint}")));
    let mut table =
        human::table(&["slot", "slots", "used", "free", "put", "recycled", "freed"], &[0, 1, 2, 3, 4, 5, 6]);
    for class in heap.classes.iter().filter(|class| class.allocators > 0) {
        let free = class.slots.saturating_sub(class.used);
        let counts = [class.slots, class.used, free, class.taken, class.recycled, class.freed];
        table.add_row(std::iter::once(Bytes(u64::from(class.slot)).to_string()).chain(counts.map(human::count)));
    }
    if heap.classes.iter().any(|class| class.allocators > 0) {
        lines.push(String::new());
        lines.extend(human::lines(&table));
    }
    lines
}
