use super::{Load, Outcome, run};
use crate::disk::presets;
use forebay_model::heap::HeapSettings;
use forebay_target::heap::HeapOptions;

fn pages(threshold: u32, gather: bool) -> Outcome {
    let load = Load {
        disk: presets::sata7200(),
        settings: HeapSettings { threshold, ..HeapSettings::default() },
        options: HeapOptions { gather, ..HeapOptions::default() },
        keys: 60_000,
        per_commit: 15_000,
    };
    run(1, &load).unwrap()
}

#[test]
fn sorting_records_and_leaving_slots_free_for_a_while_spares_most_writes() {
    let (eager, ours) = (pages(1, false), pages(HeapSettings::default().threshold, true));
    let told = format!("{eager:?}, {ours:?}");
    println!("{told}");
    assert_eq!(eager.pages, ours.pages, "it is the same load");
    assert!(ours.device_writes * 100 <= eager.device_writes * 15, "{told}");
    assert!(ours.span * 2 <= eager.span, "{told}");
}
