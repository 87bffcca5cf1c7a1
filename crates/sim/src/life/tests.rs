use super::{Tally, live};
use crate::disk::presets;
use crate::seeds;
use std::cell::Cell;

#[test]
fn a_ring_survives_any_crash_with_everything_it_acknowledged() {
    let total = Cell::new(Tally::default());
    seeds::each(300, |seed| {
        let spec = match seed % 3 {
            0 => presets::ssd().scaled(4000),
            1 => presets::sata7200().scaled(16000),
            _ => presets::sata7200().scaled(16000).with_write_cache(None),
        };
        let mut tally = total.get();
        tally.add(&live(seed, spec, 5));
        total.set(tally);
    });
    let tally = total.get();
    if !seeds::is_replay() {
        // A search that hardly crashed, lapped or pinned has shown nothing.
        assert!(tally.crashes >= 1500 && tally.cut_tails > 10 && tally.laps > 10 && tally.pins > 10, "{tally:?}");
    }
}
