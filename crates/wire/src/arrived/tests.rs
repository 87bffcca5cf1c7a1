use super::*;

fn arrived(memory: &Memory, most: usize, bytes: &[u8]) -> Arrived {
    let mut arrived = memory.room(most);
    match &mut arrived {
        Arrived::Plain(plain) => plain.extend_from_slice(bytes),
        Arrived::Kept(kept) => {
            for part in bytes.chunks(1000) {
                kept.next(part.len()).copy_from_slice(part);
                kept.came(part.len());
            }
        }
    }
    arrived
}

fn idle(memory: &Memory) -> usize {
    let idle = memory.lock();
    assert_eq!(idle.bytes, idle.pieces.iter().flatten().map(Vec::capacity).sum::<usize>());
    idle.bytes
}

#[test]
fn what_arrives_is_what_is_seen_whatever_the_memory_had_before() {
    let memory = Memory::default();
    for (most, length) in [(0, 0), (100, 100), (100_000, 100_000), (100_000, 7000), (1 << 22, 1 << 20), (5 << 20, 9)] {
        for byte in [1, 2] {
            let bytes = vec![byte; length];
            assert!(*arrived(&memory, most, &bytes) == bytes, "{most} {length}");
            assert!(arrived(&memory, most, &bytes).into_vec() == bytes, "{most} {length}");
            assert!(arrived(&memory, most, &bytes).into_bytes() == bytes, "{most} {length}");
        }
    }
}

#[test]
fn memory_comes_back_when_the_last_part_that_somebody_sees_is_gone() {
    let memory = Memory::default();
    let bytes = arrived(&memory, 1 << 20, &[7; 5000]).into_bytes();
    let part = bytes.slice(4000..);
    drop(bytes);
    assert_eq!(idle(&memory), 0);
    assert!(part == [7; 1000][..]);
    drop(part);
    assert_eq!(idle(&memory), 1 << 20);
    let again = memory.room((1 << 20) - 5);
    assert_eq!((idle(&memory), again.len()), (0, 0));
    drop(again);
    assert_eq!(idle(&memory), 1 << 20);
    // What is taken away as a vector does not.
    assert_eq!(memory.room(1 << 20).into_vec().capacity(), 1 << 20);
    assert_eq!(idle(&memory), 0);
}

#[test]
fn only_what_arrives_is_cleared_and_that_once() {
    let memory = Memory::default();
    for (length, written) in [(5000, 5000), (100, 5000), (9000, 9000)] {
        drop(arrived(&memory, 1 << 20, &vec![3; length]));
        let idle = memory.lock();
        assert!(idle.pieces[20].iter().map(Vec::len).eq([written]), "{length}: {:?}", idle.pieces[20]);
    }
}

#[test]
fn no_more_than_a_bound_is_kept() {
    let memory = Memory::default();
    let all: Vec<Arrived> = (0..40).map(|_| memory.room(1 << 20)).collect();
    drop(all);
    assert_eq!(idle(&memory), IDLE);
}
