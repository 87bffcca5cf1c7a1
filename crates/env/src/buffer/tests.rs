// Tests of what threads share need threads.
#![allow(clippy::disallowed_methods)]

use super::mapping::HUGE;
use super::*;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn slab(count: usize) -> Slab {
    Slab::new(Bytes::kib(8), count).unwrap()
}

#[test]
fn buffers_are_aligned_apart_and_of_full_length() {
    let slab = slab(5);
    let mut all: Vec<Buffer> = (0..5).map(|_| slab.try_take().unwrap()).collect();
    assert!(slab.try_take().is_none());
    assert_eq!(slab.available(), 0);
    for (index, buffer) in all.iter_mut().enumerate() {
        assert_eq!(buffer.len(), 8192);
        assert!((buffer.address() as usize).is_multiple_of(ALIGN));
        buffer.fill(index as u8);
    }
    for (index, buffer) in all.iter().enumerate() {
        assert!(buffer.iter().all(|b| *b == index as u8), "another buffer has written into this one");
    }
    let (base, length) = slab.region();
    for buffer in &all {
        let offset = buffer.address() as usize - base as usize;
        assert!(offset.is_multiple_of(8192) && offset < length);
    }
    drop(all);
    assert_eq!(slab.available(), 5);
}

#[test]
fn the_length_is_what_was_set_and_whole_again_for_the_next() {
    let slab = slab(1);
    let mut buffer = slab.try_take().unwrap();
    buffer.set_len(100);
    assert_eq!((buffer.len(), buffer.capacity()), (100, 8192));
    buffer.set_len(8192);
    buffer.set_len(0);
    assert!(buffer.is_empty());
    drop(buffer);
    assert_eq!(slab.try_take().unwrap().len(), 8192);
}

#[test]
#[should_panic(expected = "8193 bytes in a buffer of 8192")]
fn a_length_beyond_the_capacity_is_a_bug() {
    slab(1).try_take().unwrap().set_len(8193);
}

#[test]
fn a_buffer_alone_is_zeroed_and_as_long_as_asked() {
    let buffer = Buffer::alone(Bytes(5000)).unwrap();
    assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
    assert!(buffer.iter().all(|b| *b == 0));
}

#[test]
fn more_memory_than_there_is_addresses_for_is_refused() {
    let huge = Bytes(1 << 62);
    assert_eq!(Slab::new(huge, 8).err().unwrap().kind, forebay_model::Kind::Usage);
    assert_eq!(Slab::new(huge, 1).err().unwrap().kind, forebay_model::Kind::Busy);
}

#[test]
fn memory_lives_as_long_as_a_buffer_of_it() {
    let slab = slab(2);
    let mut buffer = slab.try_take().unwrap();
    assert!(!slab.is_last_handle());
    drop(slab);
    // Now the buffer's own handle is the last.
    buffer.fill(9);
    assert!(buffer.iter().all(|b| *b == 9) && buffer.slab().is_last_handle());
}

#[test]
fn a_task_that_waits_is_woken_once_however_often_it_was_polled() {
    let slab = slab(1);
    let held = slab.try_take().unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut taking = pin!(slab.take());
    for _ in 0..10 {
        assert!(taking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(held);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(matches!(taking.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(_)));
}

#[test]
fn a_large_slab_begins_where_a_huge_page_may_and_all_of_it_can_be_written() {
    for count in [3, 4, 9] {
        let slab = Slab::new(Bytes::kib(512), count).unwrap();
        let (base, length) = slab.region();
        assert!(count < 4 || (base as usize).is_multiple_of(HUGE), "{count} buffers at {base:?}");
        assert_eq!(length, count << 19);
        let mut all: Vec<Buffer> = (0..count).map(|_| slab.try_take().unwrap()).collect();
        for (buffer, byte) in all.iter_mut().zip(1..) {
            buffer.fill(byte);
        }
        assert!(all.iter().zip(1..).all(|(buffer, byte)| buffer.iter().all(|b| *b == byte)));
    }
}

#[test]
fn parts_show_the_bytes_of_a_buffer_that_stays_taken_as_long_as_one_is_there() {
    let slab = slab(1);
    let mut buffer = slab.try_take().unwrap();
    buffer[..ALIGN].fill(1);
    buffer[ALIGN..].fill(2);
    let whole = Arc::new(buffer);
    let parts = [Buffer::part_of(whole.clone(), 0..ALIGN), Buffer::part_of(whole.clone(), ALIGN..ALIGN + 512)];
    let mut one_of_a_part = Buffer::part_of(whole.clone(), ALIGN..2 * ALIGN);
    one_of_a_part.set_len(10);
    drop(whole);
    assert!(parts[0].iter().all(|b| *b == 1) && parts[0].len() == ALIGN && !parts[0].is_own());
    assert!(parts[1].iter().all(|b| *b == 2) && (parts[1].len(), parts[1].capacity()) == (512, 512));
    assert_eq!((&one_of_a_part[..], one_of_a_part.capacity()), (&[2; 10][..], ALIGN));
    assert_eq!(parts[1].address() as usize - slab.region().0 as usize, ALIGN);
    drop(parts);
    assert_eq!(slab.available(), 0);
    drop(one_of_a_part);
    assert_eq!(slab.available(), 1);
}

#[test]
#[should_panic(expected = "nobody writes into a part of a buffer that others see")]
fn a_part_is_not_written_into() {
    let whole = Arc::new(slab(1).try_take().unwrap());
    Buffer::part_of(whole, 0..ALIGN).fill(1);
}

#[test]
#[should_panic(expected = "bytes 512 to 4096 of a buffer of 8192")]
fn a_part_begins_where_a_device_can() {
    Buffer::part_of(Arc::new(slab(1).try_take().unwrap()), 512..ALIGN);
}
