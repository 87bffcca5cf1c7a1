use super::*;

#[test]
fn a_payload_has_a_buffer_of_its_length_and_small_ones_have_none() {
    let mut payloads = Payloads::new(Bytes::mib(64));
    for length in [256 << 10, (512 << 10) - 4096, 512 << 10, (512 << 10) + 1, 1 << 20] {
        let buffer = payloads.take(length).expect("there is room");
        assert_eq!(buffer.len(), length);
        assert!(buffer.capacity() <= 2 * length, "{} bytes for {length}", buffer.capacity());
    }
    for length in [0, 4096, (256 << 10) - 1, (1 << 20) + 1] {
        assert!(payloads.take(length).is_none(), "{length}");
    }
}

#[test]
fn no_more_is_taken_than_the_bound_and_what_is_free_is_taken_again() {
    let mut payloads = Payloads::new(SLAB * 2);
    let all: Vec<Buffer> = std::iter::from_fn(|| payloads.take(1 << 20)).collect();
    assert_eq!(all.len() as u64, (SLAB * 2).0 >> 20);
    // The other size has no room left.
    assert!(payloads.take(512 << 10).is_none());
    drop(all);
    let again: Vec<Buffer> = std::iter::from_fn(|| payloads.take(1 << 20)).collect();
    assert_eq!(again.len() as u64, (SLAB * 2).0 >> 20);
}

#[test]
fn what_is_idle_beyond_what_is_kept_is_given_back() {
    let mut payloads = Payloads::new(IDLE * 2);
    let mut all: Vec<Buffer> = std::iter::from_fn(|| payloads.take(1 << 20)).collect();
    let held = all.pop();
    drop(all);
    payloads.trim();
    // One slab is in use.
    assert_eq!(SLAB * payloads.slabs[1].len() as u64, IDLE + SLAB);
    drop(held);
    payloads.trim();
    assert_eq!(SLAB * payloads.slabs[1].len() as u64, IDLE);
    assert!(payloads.take(1 << 20).is_some());
}
