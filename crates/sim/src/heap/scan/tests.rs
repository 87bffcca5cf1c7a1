use super::{Load, simulated};
use crate::disk::presets;
use crate::heap::measure::Setup;
use forebay_model::Kind;
use forebay_model::heap::HeapSettings;
use forebay_target::heap::HeapOptions;
use std::rc::Rc;

const LOAD: Load = Load { keys: 4000, record: None, rounds: 4, run: 64, per_commit: 1000 };

fn setup() -> Setup {
    Setup { settings: HeapSettings::default(), options: HeapOptions::default() }
}

#[test]
fn a_scan_reads_all_records_before_and_after_they_were_replaced() {
    let outcome = simulated(1, presets::sata7200(), setup(), LOAD, Rc::new(|_, _| ())).unwrap();
    println!("{outcome:?}");
    assert_eq!(outcome.status.classes.iter().map(|class| class.used).sum::<u64>(), LOAD.keys);
    let rates = [outcome.fresh, outcome.aged, outcome.fresh_by_key, outcome.aged_by_key];
    assert!(rates.iter().all(|rate| rate.0 > 0), "{outcome:?}");
}

#[test]
fn a_scan_of_nothing_is_refused() {
    for load in [
        Load { keys: 0, ..LOAD },
        Load { run: 0, ..LOAD },
        Load { per_commit: 0, ..LOAD },
        Load { record: Some(usize::MAX), ..LOAD },
        Load { rounds: u64::MAX, ..LOAD },
    ] {
        let error = simulated(1, presets::ssd().scaled(100), setup(), load, Rc::new(|_, _| ())).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
    }
}
