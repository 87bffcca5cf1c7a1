//! One input, whose name is in `FOREBAY_FUZZ`, for libFuzzer, which has doors of its own: this is exempt from the lint about them.

#![no_main]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_fuzz::{ALL, Input};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static CHOSEN: LazyLock<Input> = LazyLock::new(|| {
    let name = std::env::var("FOREBAY_FUZZ").unwrap_or_default();
    let found = ALL.into_iter().find(|(one, _)| *one == name);
    found.unwrap_or_else(|| panic!("FOREBAY_FUZZ names none of {:?}", ALL.map(|(name, _)| name)))
});

fuzz_target!(|bytes: &[u8]| (CHOSEN.1)(bytes));
