use super::{Gather, Gathered, SMALL, TOGETHER};
use crate::file::components::Slice;
use crate::file::room::{Held, Room};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

fn held(room: &Rc<Room>, bytes: u64) -> Held {
    let mut hold = pin!(room.hold(bytes));
    match hold.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(held) => held,
        Poll::Pending => panic!("there is room"),
    }
}

/// All of a run of pieces of these lengths, and its bytes.
fn run(lengths: &[usize]) -> (Gathered, Vec<u8>) {
    let room = Room::of(u64::MAX);
    let piece = |nth: usize| vec![nth as u8 + 1; lengths[nth]];
    let give = |nth: usize| (Slice::from(piece(nth)), held(&room, lengths[nth] as u64));
    let (bytes, room) = give(0);
    let mut gather = Gather::new(7, bytes, room);
    for nth in 1..lengths.len() {
        let (bytes, room) = give(nth);
        gather.push(bytes, room);
    }
    (gather.take(u64::MAX), (0..lengths.len()).flat_map(piece).collect())
}

#[test]
fn what_is_gathered_keeps_not_much_more_memory_than_it_has_bytes_however_short_its_runs_are() {
    let runs: [&[usize]; 8] = [
        &[1],
        &[10, 10],
        &[100; 7],
        &[5, SMALL, 5],
        &[SMALL, 1, 1],
        &[SMALL - 1; 9],
        &[1000; 250],
        &[TOGETHER, SMALL - 1, TOGETHER],
    ];
    for lengths in runs {
        let (gathered, bytes) = run(lengths);
        // Whoever alone has a slice takes its memory over, with the room that it has.
        let slices: Vec<Vec<u8>> = gathered.bytes.into_slices().into_iter().map(Vec::from).collect();
        let memory: usize = slices.iter().map(Vec::capacity).sum();
        assert!(slices.concat() == bytes, "{lengths:?}");
        assert!(memory <= 2 * bytes.len(), "{memory} bytes for {}: {lengths:?}", bytes.len());
    }
}

#[test]
fn what_is_small_is_copied_together() {
    let (gathered, bytes) = run(&[1000; 250]);
    let slices = gathered.bytes.into_slices().len();
    assert!(slices <= bytes.len() / (TOGETHER - SMALL) + 1, "{slices} slices");
}

#[test]
fn the_last_of_a_run_has_all_the_room_that_is_left_of_it() {
    let room = Room::of(5000);
    let mut gather = Gather::new(0, Slice::from(vec![7; 20]), held(&room, 4096));
    let first = gather.take(5);
    assert!(room.fits(904) && !room.fits(905));
    drop(first);
    assert!(room.fits(909) && !room.fits(910));
    let last = gather.take(u64::MAX);
    drop(gather);
    assert!(room.fits(909) && !room.fits(910));
    drop(last);
    assert!(room.fits(5000));
}
