use super::{Load, record};
use crate::disk::presets;
use forebay_model::ring::Spread;
use forebay_model::{Bytes, Rate};
use std::time::Duration;

fn load(targets: u32, parity: bool) -> Load {
    Load {
        targets: 5,
        spread: Spread { targets, parity },
        capacity: Bytes::mib(192),
        element: Bytes::kib(100),
        link: Rate(5_000_000),
        client_link: Rate(60_000_000),
        span: Duration::from_secs(2),
        disk: presets::ssd().scaled(400),
        seed: 1,
    }
}

#[test]
fn a_ring_over_several_targets_takes_what_one_takes_times_their_number_with_parity_too() {
    let of_limit = |load: Load| {
        let recorded = record(&load).unwrap();
        recorded.written.0 as f64 / recorded.limit.0 as f64
    };
    for (targets, parity) in [(1, false), (2, false), (4, false), (4, true)] {
        let share = of_limit(load(targets, parity));
        assert!(share > 0.6 && share < 1.1, "{share} of the limit over {targets} targets, parity {parity}");
    }
}
