use super::*;
use crate::disk::presets;

fn load(targets: u32, clients: u32, raid: Raid) -> Load {
    Load {
        targets,
        clients,
        raid,
        width: 10,
        unit: Bytes::kib(64),
        size: Bytes::mib(48),
        request: Bytes::mib(1),
        link: LinkSpec::gigabit().rate,
        credit: Bytes::kib(192),
        intake: Bytes::kib(192),
        network: NetworkSpec::jumbo(),
        disk: presets::ssd().scaled(200),
        seed: 1,
    }
}

/// Six components of files are on each target, so that its port takes five segments of each that writes.
#[test]
fn many_clients_fill_their_links_at_once_and_nothing_is_dropped() {
    let streamed = stream(&load(20, 12, Raid::Five));
    let (writing, reading) = streamed.network;
    assert_eq!((writing.drops, reading.drops), (0, 0));
    let written = streamed.written.0 as f64 / streamed.write_limit.0 as f64;
    let read = streamed.read.0 as f64 / streamed.read_limit.0 as f64;
    assert!(written >= 0.85 && read >= 0.94, "{written:.3} and {read:.3} of what links allow");
}

#[test]
fn one_client_fills_its_link_from_any_number_of_targets_and_nothing_is_dropped() {
    for targets in [3, 10, 13, 30] {
        let streamed = stream(&Load { width: targets, ..load(targets, 1, Raid::Zero) });
        let share = streamed.read.0 as f64 / streamed.read_limit.0 as f64;
        assert!(share >= 0.90, "{targets} targets: {share:.3} of the link; {:?}", streamed.network.1);
        assert_eq!(streamed.network.1.drops, 0, "{targets} targets");
    }
}

/// Files over all targets visit ten of them first, and have their parity on another one with each stripe.
#[test]
fn files_over_more_targets_than_they_visit_first_fill_links_as_well() {
    let streamed = stream(&Load { width: 0, size: Bytes::mib(96), ..load(20, 6, Raid::Five) });
    assert_eq!((streamed.striping.groups(), streamed.striping.width()), (2, 10));
    let written = streamed.written.0 as f64 / streamed.write_limit.0 as f64;
    let read = streamed.read.0 as f64 / streamed.read_limit.0 as f64;
    assert!(written >= 0.90 && read >= 0.96, "{written:.3} and {read:.3} of what links allow");
}
