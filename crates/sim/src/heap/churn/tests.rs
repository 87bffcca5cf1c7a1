use super::{Load, size};
use crate::disk::presets;
use crate::heap::load::Work;
use crate::heap::measure::{Outcome, Setup, simulated};
use crate::world::World;
use forebay_model::heap::HeapSettings;
use forebay_model::{Bytes, Kind, Result};
use forebay_target::heap::HeapOptions;
use std::cell::RefCell;
use std::rc::Rc;

const LOAD: Load = Load { keys: 2000, record: None, rounds: 3, per_commit: 500 };

fn churn(load: Load) -> Result<Outcome> {
    let setup = Setup { settings: HeapSettings::default(), options: HeapOptions::default() };
    let told = Rc::new(RefCell::new(Vec::new()));
    let tell = {
        let told = told.clone();
        Rc::new(move |done, total| told.borrow_mut().push((done, total)))
    };
    let outcome = simulated(1, presets::ssd().scaled(100), setup, Work::Churn(load), tell)?;
    assert!(told.borrow().is_sorted() && told.borrow().iter().all(|(done, total)| done <= total));
    Ok(outcome)
}

#[test]
fn what_is_measured_is_the_replacing_and_not_the_filling() {
    let outcome = churn(LOAD).unwrap();
    let given = outcome.given;
    assert_eq!((given.puts, given.frees, given.commits, given.gets), (6000, 6000, 12, 0));
    assert_eq!(outcome.status.classes.iter().map(|class| class.used).sum::<u64>(), 2000);
    assert!(outcome.device.bytes_written > Bytes::ZERO && outcome.device.flushes >= 24, "{outcome:?}");
}

#[test]
fn records_have_the_size_that_was_asked_for_or_a_kilobyte_and_a_half_on_average() {
    let random = World::new(5).random();
    let sizes: Vec<usize> = (0..20_000).map(|_| size(&*random, None)).collect();
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!((1400..1600).contains(&mean), "{mean}");
    assert!(sizes.iter().all(|size| (64..=8182).contains(size)));
    let outcome = churn(Load { record: Some(20_000), keys: 50, ..LOAD }).unwrap();
    assert_eq!(outcome.given.put_bytes, Bytes(150 * 20_000));
}

#[test]
fn a_load_of_nothing_and_records_of_nothing_are_refused() {
    for load in [
        Load { keys: 0, ..LOAD },
        Load { rounds: 0, ..LOAD },
        Load { per_commit: 0, ..LOAD },
        Load { record: Some(0), ..LOAD },
        Load { record: Some(usize::MAX), ..LOAD },
        Load { keys: u64::MAX, ..LOAD },
    ] {
        assert_eq!(churn(load).unwrap_err().kind, Kind::Usage, "{load:?}");
    }
}
