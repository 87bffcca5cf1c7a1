use super::*;

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_is_no_whole_copy() {
    let stop = Stop::new().unwrap();
    let (offset, end) = (Bytes(10), Bytes(20 << 20));
    for (length, is_whole) in [(end, true), (Bytes(9 << 20), false), (Bytes(8 << 20), false), (Bytes::ZERO, false)] {
        // As of a file that has this length from now on.
        let read = |at: Bytes, wanted: Bytes| {
            let there = length.saturating_sub(at).min(wanted);
            Ok(if there == Bytes::ZERO { Vec::new() } else { vec![Slice::from(vec![7; there.0 as usize])] })
        };
        let mut taken = 0;
        let take = |bytes: &[u8]| {
            taken += bytes.len() as u64;
            Ok(())
        };
        let copied = copy_out((read, "/file"), (offset, end), &stop, take, &mut |_| ());
        assert_eq!(taken, length.saturating_sub(offset).0);
        match copied {
            Ok(done) => assert!(is_whole && done == (end - offset).0),
            Err(error) => assert!(!is_whole && error.message.contains("/file became shorter"), "{error}"),
        }
    }
}
