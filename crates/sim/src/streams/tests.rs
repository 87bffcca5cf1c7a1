use super::{Load, run};
use crate::disk::presets;
use forebay_model::Bytes;

#[test]
fn of_sixty_streams_that_write_at_once_each_lies_in_long_runs() {
    for (object, piece) in [(Bytes::mib(12), Bytes::kib(64)), (Bytes::mib(8), Bytes::kib(20))] {
        let load = Load { disk: presets::sata7200(), streams: 60, object, piece };
        let outcome = run(1, &load).expect("the disk is healthy and large enough");
        println!("{object} in pieces of {piece}: {outcome:?}");
        assert!(outcome.mean_run >= Bytes::mib(4), "{outcome:?}");
        assert!(outcome.most_buffered <= Bytes::mib(32), "{outcome:?}");
    }
}
