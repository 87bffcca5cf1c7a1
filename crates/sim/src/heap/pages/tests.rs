use super::Load;
use crate::disk::presets;
use crate::heap::load::Work;
use crate::heap::measure::{Outcome, Setup, simulated};
use forebay_model::heap::HeapSettings;
use forebay_target::heap::HeapOptions;
use std::rc::Rc;

fn pages(threshold: u32, gather: bool) -> Outcome {
    let setup = Setup {
        settings: HeapSettings { threshold, ..HeapSettings::default() },
        options: HeapOptions { gather, ..HeapOptions::default() },
    };
    let work = Work::Pages(Load { keys: 60_000, per_commit: 15_000 });
    simulated(1, presets::sata7200(), setup, work, Rc::new(|_, _| ())).unwrap()
}

#[test]
fn sorting_records_and_leaving_slots_free_for_a_while_spares_most_writes() {
    let (eager, ours) = (pages(1, false), pages(HeapSettings::default().threshold, true));
    let told = format!("{eager:?}, {ours:?}");
    println!("{told}");
    assert_eq!(eager.given, ours.given, "it is the same load");
    assert!(ours.device.writes * 100 <= eager.device.writes * 15, "{told}");
    assert!(ours.span * 2 <= eager.span, "{told}");
}
