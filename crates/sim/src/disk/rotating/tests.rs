use super::*;
use crate::disk::{Mechanism, presets};

const COMMANDS: Now = Now { nanos: 0, slowness: 1.0 };

/// Runs a disk alone: submits at given times, gives when each command was done.
fn run(cache: Option<u64>, slowness: f64, commands: &[(u64, Op, u64, u64)]) -> Vec<u64> {
    let spec = presets::sata7200();
    let Mechanism::Rotating(rotating) = &spec.mechanism else { unreachable!() };
    let mut disk = Rotating::new(rotating, spec.size.0, cache);
    let mut done = vec![0; commands.len()];
    let mut coming: VecDeque<(usize, _)> = commands.iter().copied().enumerate().collect();
    let mut moves: Vec<(u64, u64)> = Vec::new();
    let mut actions = Vec::new();
    loop {
        let next_move = moves.iter().min_by_key(|(_, at)| *at).copied();
        let submit = match (coming.front(), next_move) {
            (Some((_, (at, ..))), Some((_, end))) => *at <= end,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return done,
        };
        if submit {
            let (id, (nanos, op, offset, length)) = coming.pop_front().unwrap();
            disk.submit(Now { nanos, slowness }, Request { id: id as u64, op, offset, length }, &mut actions);
        } else {
            let (number, nanos) = next_move.unwrap();
            moves.retain(|(other, _)| *other != number);
            disk.moved(Now { nanos, slowness }, number, &mut actions);
        }
        for action in actions.drain(..) {
            match action {
                Action::Done(id, at) => done[id as usize] = at,
                Action::Move(number, at) => moves.push((number, at)),
            }
        }
    }
}

const MIB: u64 = 1 << 20;
const FAR: u64 = 900_000 * MIB;
const TURN: u64 = 8_333_333;

#[test]
fn the_nearest_command_goes_first_and_the_oldest_in_the_end() {
    // One read keeps the head at the outside while a far and a near one come in.
    let done = run(None, 1.0, &[(0, Op::Read, 0, MIB), (1, Op::Read, FAR, 4096), (2, Op::Read, 3 * MIB, 4096)]);
    assert!(done[0] < done[2] && done[2] < done[1], "{done:?}");
    // A stream that always has a next command does not hold the far one for ever.
    let mut commands = vec![(0, Op::Read, FAR, 4096)];
    commands.extend((0..200).map(|i| (1 + i, Op::Read, i * MIB, MIB)));
    let done = run(None, 1.0, &commands);
    assert!(done[0] < 1_000_000_000, "{} ns", done[0]);
}

#[test]
fn a_read_again_comes_from_memory_and_a_write_in_between_makes_it_forget() {
    let again = |between: &[(u64, Op, u64, u64)]| {
        let mut commands = vec![(0, Op::Read, FAR, 64 << 10), (100_000_000, Op::Read, 0, 4096)];
        commands.extend(between);
        commands.push((400_000_000, Op::Read, FAR, 64 << 10));
        run(None, 1.0, &commands).pop().unwrap() - 400_000_000
    };
    assert!(again(&[]) < 1_000_000);
    assert!(again(&[(200_000_000, Op::Write, FAR, 4096)]) > 1_000_000);
}

#[test]
fn a_read_of_what_is_in_the_write_cache_waits_for_no_head() {
    let done = run(Some(16 * MIB), 1.0, &[(0, Op::Write, FAR, MIB), (4_000_000, Op::Read, FAR, 4096)]);
    assert!(done[1] < 5_000_000, "{done:?}");
}

#[test]
fn writes_wait_when_the_cache_is_full_and_large_ones_stream_through() {
    let mut commands: Vec<_> = (0..40).map(|i| (i, Op::Write, i * MIB, MIB)).collect();
    commands.push((300_000_000, Op::Flush, 0, 0));
    let done = run(Some(16 * MIB), 1.0, &commands);
    let media = 40.0 * MIB as f64 / 120e6 * 1e9;
    assert!((done[15] as f64) < media / 5.0 * 2.0, "the first 16 go at the speed of the interface: {done:?}");
    assert!(done[39] as f64 > media * 0.55 && done[39] < done[40]);
    assert!((media..media * 1.1).contains(&(done[40] as f64)), "{} instead of {media}", done[40]);
    let large = run(Some(16 * MIB), 1.0, &[(0, Op::Write, 0, 64 * MIB)]);
    assert!(large[0] as f64 > 64.0 * MIB as f64 / 120e6 * 1e9);
}

#[test]
fn a_flush_waits_for_writes_before_it_and_not_for_ever_for_those_after_it() {
    let mut commands = vec![(0, Op::Write, FAR, 4096), (1_000_000, Op::Flush, 0, 0)];
    commands.extend((0..3000).map(|i| (1_000_000 + i * 1_000_000, Op::Write, i * 997 % 3000 * MIB, 4096)));
    let done = run(Some(16 * MIB), 1.0, &commands);
    assert!(done[0] < 2_000_000 && done[1] > 5_000_000, "{} {}", done[0], done[1]);
    assert!(done[1] < 3_000_000_000, "{}", done[1]);
    assert!(done[2..].iter().all(|at| *at > 0));
}

#[test]
fn a_flush_does_not_wait_for_a_stream_that_never_ends() {
    for at in [FAR, FAR / 2, FAR / 9 * 8, 1000 * MIB] {
        let mut commands = vec![(200_000_000, Op::Write, MIB, 4096), (210_000_000, Op::Flush, 0, 0)];
        // Faster than the platters take it, so that the cache always has more of it where the head is.
        commands.extend((0..2000).map(|i| (i * 3_000_000, Op::Write, at + i * MIB / 2, MIB / 2)));
        commands.sort_by_key(|(at, ..)| *at);
        let flush = commands.iter().position(|(_, op, ..)| *op == Op::Flush).unwrap();
        let done = run(Some(16 * MIB), 1.0, &commands);
        assert!(done[flush] < 2_000_000_000, "{} ns beside a stream at {at}", done[flush]);
    }
}

#[test]
fn what_the_head_just_missed_costs_a_turn() {
    let done = run(None, 1.0, &[(0, Op::Write, 0, 4096), (TURN * 4, Op::Write, 4096, 4096)]);
    let second = run(None, 1.0, &[(0, Op::Write, 0, 4096), (done[0], Op::Write, 4096, 4096)])[1] - done[0];
    assert!((TURN - 10_000..TURN + 100_000).contains(&second), "{second} ns");
}

#[test]
fn a_slow_disk_takes_that_many_times_as_long() {
    let commands: Vec<_> = (0..20).map(|i| (0, Op::Read, i * 10_007 * MIB, MIB)).collect();
    let last = |slowness| *run(None, slowness, &commands).iter().max().unwrap() as f64;
    let factor = last(100.0) / last(1.0);
    assert!((70.0..130.0).contains(&factor), "{factor}");
}

#[test]
fn power_takes_commands_and_caches_and_keeps_the_count_of_work() {
    let spec = presets::sata7200();
    let Mechanism::Rotating(rotating) = &spec.mechanism else { unreachable!() };
    let mut disk = Rotating::new(rotating, spec.size.0, Some(16 * MIB));
    let mut actions = Vec::new();
    disk.submit(COMMANDS, Request { id: 0, op: Op::Write, offset: FAR, length: MIB }, &mut actions);
    disk.submit(COMMANDS, Request { id: 1, op: Op::Flush, offset: 0, length: 0 }, &mut actions);
    let Some(Action::Move(number, at)) = actions.iter().find(|action| matches!(action, Action::Move(..))) else {
        panic!("{actions:?}")
    };
    let work = disk.work();
    assert_eq!(work.seeks, 1);
    disk.lose_power();
    let mut after = Vec::new();
    disk.moved(Now { nanos: *at, slowness: 1.0 }, *number, &mut after);
    assert_eq!((after, disk.work()), (Vec::new(), work), "the end of the old move means nothing now");
}
