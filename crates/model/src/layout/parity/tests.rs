use super::{add, of, replace};
use crate::key::chance::Chance;

fn units(chance: &mut Chance) -> Vec<Vec<u8>> {
    let longest = 1 + chance.below(5000) as usize;
    let count = 2 + chance.below(11) as usize;
    // Of a stripe in which a file ends the first units are whole.
    let ends = chance.below(count as u64) as usize;
    let length = |n: usize| match n.cmp(&ends) {
        std::cmp::Ordering::Less => longest,
        std::cmp::Ordering::Equal if n > 0 => longest / 2,
        std::cmp::Ordering::Equal => longest,
        std::cmp::Ordering::Greater => 0,
    };
    (0..count).map(|n| (0..length(n)).map(|_| chance.below(256) as u8).collect()).collect()
}

#[test]
fn any_unit_that_is_lost_is_what_the_others_and_the_parity_say() {
    let mut chance = Chance::for_test("lost units");
    for round in 0..50 {
        let units = units(&mut chance);
        let mut parity = vec![7; units[0].len()];
        of(units.iter().map(|unit| &unit[..]), &mut parity);
        for (at, byte) in parity.iter().enumerate() {
            let plain = units.iter().filter_map(|unit| unit.get(at)).fold(0, |sum, byte| sum ^ byte);
            assert_eq!(*byte, plain, "round {round}");
        }
        for lost in 0..units.len() {
            let others = (0..units.len()).filter(|n| *n != lost).map(|n| &units[n][..]);
            let mut found = vec![0; parity.len()];
            of(others.chain([&parity[..]]), &mut found);
            assert_eq!(found[..units[lost].len()], units[lost], "round {round}");
            assert!(found[units[lost].len()..].iter().all(|byte| *byte == 0), "behind its end is nothing");
        }
    }
}

#[test]
fn parity_in_which_a_unit_was_replaced_is_that_of_what_is_there() {
    let mut chance = Chance::for_test("replaced units");
    for round in 0..50 {
        let mut units = units(&mut chance);
        let mut parity = vec![0; units[0].len()];
        of(units.iter().map(|unit| &unit[..]), &mut parity);
        let one = chance.below(units.len() as u64) as usize;
        let from = chance.below(units[one].len() as u64 + 1) as usize;
        let new: Vec<u8> = units[one][from..].iter().map(|byte| byte.wrapping_mul(3) ^ 0x55).collect();
        let end = from + new.len();
        replace(&mut parity[from..end], &units[one][from..], &new);
        units[one][from..].copy_from_slice(&new);
        let mut anew = vec![0; parity.len()];
        of(units.iter().map(|unit| &unit[..]), &mut anew);
        assert_eq!(parity, anew, "round {round}");
    }
}

#[test]
#[should_panic(expected = "2 bytes and 1 of parity")]
fn what_is_longer_than_the_parity_is_not_cut_off() {
    add(&mut [0], &[1, 2]);
}
