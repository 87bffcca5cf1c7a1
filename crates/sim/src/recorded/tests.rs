use super::{Load, record};
use crate::disk::presets;
use forebay_model::ring::Spread;
use forebay_model::{Bytes, Rate};
use std::time::Duration;

fn load(targets: u32, parity: bool) -> Load {
    Load {
        targets: 5,
        clients: 1,
        spread: Spread { targets, parity },
        capacity: Bytes::mib(256),
        guarantee: None,
        element: Bytes::kib(100),
        link: Rate(5_000_000),
        client_link: Rate(60_000_000),
        span: Duration::from_secs(20),
        disk: presets::ssd().scaled(400),
        seed: 1,
    }
}

#[test]
fn a_ring_over_several_targets_takes_what_one_takes_times_their_number_with_parity_too() {
    for (targets, parity, clients) in [(1, false, 1), (2, false, 1), (4, false, 1), (4, true, 1), (2, false, 2)] {
        let recorded = record(&Load { clients, ..load(targets, parity) }).unwrap();
        let share = |had: Rate, limit: Rate| had.0 as f64 / limit.0 as f64;
        let written = share(recorded.written, recorded.write_limit);
        let read = share(recorded.read, recorded.read_limit);
        let what =
            format!("{written} written and {read} read of the limit: {targets}, parity {parity}, {clients} clients");
        println!("{what}");
        assert!(written > 0.6 && written < 1.1 && read > 0.3 && read < 1.1, "{what}");
    }
}
