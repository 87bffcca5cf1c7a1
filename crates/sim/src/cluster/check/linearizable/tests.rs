use super::*;
use crate::seeds;

fn write(value: u64, asked: u64, answered: u64) -> Operation {
    Operation { writes: true, value, asked, answered: Some(answered) }
}

fn read(value: u64, asked: u64, answered: u64) -> Operation {
    Operation { writes: false, value, asked, answered: Some(answered) }
}

fn unanswered(value: u64, asked: u64) -> Operation {
    Operation { writes: true, value, asked, answered: None }
}

#[test]
fn histories_that_could_have_been_done_one_after_the_other_are_let_pass() {
    let good: [&[Operation]; 8] = [
        &[],
        &[read(FIRST, 1, 2), write(7, 3, 4), read(7, 5, 6)],
        // Whoever reads while it is written sees the old or the new one.
        &[write(7, 1, 10), read(FIRST, 2, 3), read(7, 4, 5), read(7, 11, 12)],
        // Two at the same time, in either order.
        &[write(7, 1, 10), write(8, 2, 9), read(8, 11, 12)],
        &[write(7, 1, 10), write(8, 2, 9), read(8, 3, 4), read(7, 11, 12)],
        // What was never answered happens late, or not at all.
        &[unanswered(7, 1), read(FIRST, 2, 3), write(8, 4, 5), read(8, 6, 7), read(7, 8, 9)],
        &[unanswered(7, 1), write(8, 2, 3), read(8, 100, 101)],
        &[write(7, 1, 2), Operation { answered: None, ..read(FIRST, 3, 0) }],
    ];
    for history in good {
        assert_eq!(check(history), Ok(()), "{history:?}");
    }
}

#[test]
fn histories_that_no_order_explains_are_found() {
    let bad: [&[Operation]; 8] = [
        // Stale.
        &[write(7, 1, 2), read(FIRST, 3, 4)],
        &[write(7, 1, 2), write(8, 3, 4), read(7, 5, 6)],
        // Back and forth: each of them alone may have seen what it saw.
        &[write(7, 1, 10), read(7, 2, 3), read(FIRST, 4, 5)],
        &[write(7, 1, 20), write(8, 2, 19), read(7, 3, 4), read(8, 5, 6), read(7, 7, 8)],
        // What was seen once does not vanish, answered or not.
        &[unanswered(7, 1), read(7, 2, 3), read(FIRST, 4, 5)],
        &[unanswered(7, 1), read(7, 2, 3), write(8, 4, 5), read(7, 6, 7)],
        // From nowhere, and from the future.
        &[read(9, 1, 2)],
        &[read(7, 1, 2), write(7, 3, 4)],
    ];
    for history in bad {
        assert!(check(history).is_err(), "{history:?}");
    }
}

/// Whether some order of all of them explains it, tried one after the other.
fn is_explained(history: &[Operation], now: u64, left: &mut Vec<usize>) -> bool {
    let answered = |at: usize| history[at].answered.unwrap_or(u64::MAX);
    if left.iter().all(|at| history[*at].answered.is_none()) {
        return true;
    }
    let end = left.iter().map(|at| answered(*at)).min().unwrap_or(u64::MAX);
    for nth in 0..left.len() {
        let one = history[left[nth]];
        if one.asked > end || !one.writes && (one.value != now || one.answered.is_none()) {
            continue;
        }
        let at = left.remove(nth);
        let explained = is_explained(history, if one.writes { one.value } else { now }, left);
        left.insert(nth, at);
        if explained {
            return true;
        }
    }
    false
}

#[test]
fn what_is_found_is_what_trying_all_orders_finds() {
    let (good, bad) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    seeds::each(6000, |seed| {
        let random = crate::world::World::new(seed).random();
        let below = |bound: usize| random.below(bound as u64) as usize;
        let count = 2 + below(5);
        // Moments are asked and answered in any order, each of them once.
        let mut moments: Vec<u64> = (1..=2 * count as u64).collect();
        let mut take = || moments.remove(below(moments.len().min(5)));
        let mut history = Vec::new();
        for number in 1..=count {
            let (one, other) = (take(), take());
            let (asked, answered) = (one.min(other), one.max(other));
            let writes = below(2) == 0;
            let value = if writes { number } else { below(count + 1) } as u64;
            let answered = (!writes || below(4) > 0).then_some(answered);
            history.push(Operation { writes, value, asked, answered });
        }
        let all = &mut (0..count).collect();
        let (explained, found) = (is_explained(&history, FIRST, all), check(&history));
        assert_eq!(explained, found.is_ok(), "{history:?}: {found:?}");
        if explained { good.set(good.get() + 1) } else { bad.set(bad.get() + 1) }
    });
    assert!(!seeds::are_the_suites() || good.get() > 500 && bad.get() > 500, "{good:?} and {bad:?}");
}
