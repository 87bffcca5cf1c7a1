use super::{Load, run};
use crate::disk::presets;
use forebay_model::Bytes;
use forebay_model::object::Durability;

fn sixty(object: Bytes, piece: Bytes, durability: Durability) {
    let load = Load { disk: presets::sata7200(), streams: 60, object, piece, durability };
    let outcome = run(1, &load).expect("the disk is healthy and large enough");
    println!("{object} in pieces of {piece}: {outcome:?}");
    assert!(outcome.mean_run >= Bytes::mib(4), "{outcome:?}");
    assert!(outcome.most_buffered <= Bytes::mib(32), "{outcome:?}");
}

#[test]
fn of_sixty_streams_that_write_at_once_each_lies_in_long_runs() {
    for (object, piece) in [(Bytes::mib(12), Bytes::kib(64)), (Bytes::mib(8), Bytes::kib(20))] {
        sixty(object, piece, Durability::Buffered);
    }
}

#[test]
fn of_sixty_streams_that_write_durably_at_once_each_lies_in_long_runs() {
    for piece in [Bytes::mib(1), Bytes::kib(320)] {
        sixty(Bytes::mib(20), piece, Durability::Durable);
    }
}
