use super::{Failed, Slice, ZEROS_AT_ONCE, of_file, parts};
use forebay_model::{Error, Kind, Result};
use std::cell::{Cell, RefCell};

/// A file of one stripe: what a write that failed was to write is there once something else of the stripe is changed.
struct Stripe {
    bytes: RefCell<Vec<u8>>,
    begun: RefCell<Option<(usize, Vec<u8>)>>,
    fails: Cell<bool>,
    written: Cell<u64>,
    failed: Failed,
}

impl Stripe {
    fn new() -> Stripe {
        Stripe {
            bytes: RefCell::new(vec![0; 64]),
            begun: RefCell::default(),
            fails: Cell::new(false),
            written: Cell::new(0),
            failed: Failed::default(),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = || {
            if let Some((at, before)) = self.begun.take() {
                self.bytes.borrow_mut()[at..at + before.len()].copy_from_slice(&before);
            }
            if self.fails.get() {
                self.begun.replace(Some((at as usize, bytes.to_vec())));
                return Err(Error::disconnected("its node is gone"));
            }
            self.written.set(self.written.get() + 1);
            self.bytes.borrow_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        self.failed.noted(written())
    }

    fn zero(&self, at: u64, length: u64) -> Result<()> {
        let read = |at: u64, length: usize| {
            let bytes = self.bytes.borrow();
            Ok(vec![Slice::copy_from_slice(&bytes[at as usize..at as usize + length])])
        };
        self.failed.zero(parts(at, length, 1), read, |at, zeros| self.write(at, &zeros))
    }
}

#[test]
fn zeros_over_a_write_that_failed_stay_whatever_of_it_comes_later_and_before_that_are_written_where_there_are_none() {
    let stripe = Stripe::new();
    stripe.zero(0, 64).expect("there are only zeros");
    assert_eq!(stripe.written.get(), 0);
    stripe.write(8, &[1; 8]).expect("it is written");
    stripe.zero(0, 64).expect("zeros");
    assert_eq!((stripe.written.get(), &stripe.bytes.borrow()[..]), (2, &[0; 64][..]));
    stripe.fails.set(true);
    stripe.write(16, &[2; 8]).expect_err("it fails");
    stripe.fails.set(false);
    stripe.zero(16, 8).expect("zeros");
    stripe.write(40, &[3; 8]).expect("another part of the stripe is changed");
    assert_eq!(stripe.bytes.borrow()[16..24], [0; 8]);
}

#[test]
fn a_file_whose_stripe_somebody_else_has_or_that_was_removed_is_not_said_to_lack_space() {
    assert_eq!(of_file(Error::refused("a stripe was locked by somebody else")).kind, Kind::Disconnected);
    assert_eq!(of_file(Error::full("the volume is full")).kind, Kind::Full);
}

#[test]
fn zeros_over_many_units_are_written_in_parts_that_end_where_units_do() {
    let most = ZEROS_AT_ONCE as u64;
    for unit in [4096, 65_536, 98_304, 4 << 20] {
        let found: Vec<(u64, usize)> = parts(2713, 3 * most, unit).collect();
        let mut at = 2713;
        for (begins, length) in &found {
            let end = begins + *length as u64;
            assert!(
                *begins == at && *length <= ZEROS_AT_ONCE && (end.is_multiple_of(unit) || end == 2713 + 3 * most),
                "{found:?}"
            );
            at = end;
        }
        assert!(at == 2713 + 3 * most && found.len() <= 5, "{unit}: {found:?}");
    }
    // What is changed in several steps anyway is parted where that is least.
    assert_eq!(parts(2713, 2 * most, 16 << 20).count(), 2);
    assert_eq!(parts(5, 0, 1).count(), 0);
}
