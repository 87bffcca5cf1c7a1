use super::*;

fn row(component: u32, number: u64, times: (i64, i64)) -> Row {
    Row { component, absent: true, writer: 1, number, length: 64, crc: 0, elements: 3, times }
}

#[test]
fn a_block_is_claimed_once_and_given_by_one_of_two() {
    let mut claims = Claims::default();
    let (first, second) = (row(0, 1, (10, 20)), row(0, 2, (20, 30)));
    assert!(claims.claim(&first) && !claims.claim(&first) && claims.claim(&second));
    assert!(claims.give(&first) && claims.is_given(&first) && !claims.is_given(&second));
    claims.drop(&second);
    assert!(!claims.stands(&second) && !claims.give(&second), "its target gives it");
    assert!(claims.claim(&second), "it is looked for again");
}

#[test]
fn claimed_blocks_are_found_by_the_times_of_what_comes_of_their_part() {
    let mut claims = Claims::default();
    let rows = [row(0, 1, (10, 20)), row(0, 2, (20, 30)), row(0, 3, (50, 60)), row(1, 1, (10, 60))];
    assert!(rows.iter().all(|row| claims.claim(row)));
    let touched = |times: &[i64]| claims.touched(0, times).iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(touched(&[]), []);
    assert_eq!(touched(&[9, 31, 49, 61]), [], "none of these times is in one of them");
    assert_eq!(touched(&[5, 20]), [1, 2]);
    assert_eq!(touched(&[55]), [3]);
}

#[test]
fn what_was_given_is_forgotten_when_there_is_too_much_of_it() {
    let mut claims = Claims::default();
    for number in 0..MOST as u64 + 2 {
        let row = row(0, number, (number as i64, number as i64));
        assert!(claims.claim(&row));
        assert!(number == 1 || claims.give(&row));
    }
    let of = |number: u64| row(0, number, (number as i64, number as i64));
    assert!(!claims.stands(&of(0)) && claims.stands(&of(1)), "what is still to be given is kept");
}

#[test]
fn what_was_told_as_missing_is_forgotten_when_there_is_too_much_of_it() {
    let mut claims = Claims::default();
    for number in 0..MOST as u64 + 2 {
        let row = row(0, number, (number as i64, number as i64));
        assert!(claims.claim(&row) && claims.tell(&row));
        assert!(!claims.is_given(&row), "if it turns up at its target, that gives it");
    }
    let of = |number: u64| row(0, number, (number as i64, number as i64));
    assert!(!claims.stands(&of(0)) && !claims.stands(&of(1)) && claims.stands(&of(2)));
}
