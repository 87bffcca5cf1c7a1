use super::*;

fn row(component: u32, number: u64) -> Row {
    Row { component, absent: true, writer: 1, number, length: 64, crc: 0, elements: 3, times: (10, 20) }
}

#[test]
fn a_block_is_claimed_once_and_given_by_one_of_two() {
    let mut claims = Claims::default();
    let (first, second) = (row(0, 1), row(0, 2));
    assert!(claims.claim(&first) && !claims.claim(&first) && claims.claim(&second));
    assert!(claims.give(&first) && !claims.yields((0, 1, 1)), "its target passes over it");
    assert!(claims.yields((0, 1, 2)), "its target gives it");
    assert!(!claims.stands(&second) && !claims.give(&second));
    assert!(claims.yields((0, 1, 3)) && claims.yields((1, 1, 1)) && claims.yields((0, 2, 1)), "nobody claimed these");
    assert!(claims.claim(&second), "it is looked for again");
}

#[test]
fn what_was_given_is_forgotten_when_there_is_too_much_of_it() {
    let mut claims = Claims::default();
    for number in (0..MOST as u64 + 2).rev() {
        let row = row(0, number);
        assert!(claims.claim(&row));
        assert!(number == MOST as u64 || claims.give(&row));
    }
    let of = |number: u64| row(0, MOST as u64 + 1 - number);
    assert!(!claims.stands(&of(0)) && claims.stands(&of(1)), "what is still to be given is kept");
    assert!(!claims.stands(&of(2)) && claims.stands(&of(3)) && claims.stands(&of(MOST as u64 + 1)));
}

#[test]
fn what_was_told_as_missing_is_forgotten_when_there_is_too_much_of_it() {
    let mut claims = Claims::default();
    for number in 0..MOST as u64 + 2 {
        let row = row(0, number);
        assert!(claims.claim(&row) && claims.tell(&row));
    }
    assert!(!claims.stands(&row(0, 0)) && !claims.stands(&row(0, 1)) && claims.stands(&row(0, 2)));
    assert!(claims.yields((0, 1, 2)), "if it turns up at its target, that gives it");
}

#[test]
fn what_was_dropped_takes_no_place() {
    let mut claims = Claims::default();
    assert!(claims.claim(&row(0, 1)) && claims.give(&row(0, 1)));
    for _ in 0..3 * MOST {
        assert!(claims.claim(&row(0, 2)));
        claims.drop(&row(0, 2));
    }
    assert!(claims.stands(&row(0, 1)) && claims.order.len() == 1);
}
