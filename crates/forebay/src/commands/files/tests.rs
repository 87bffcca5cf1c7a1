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

#[test]
fn only_what_is_said_to_be_missing_is_not_there() {
    assert_eq!(if_there(Ok(7)), Ok(Some(7)));
    assert_eq!(if_there::<u32>(Err(Error::missing("there is no /x"))), Ok(None));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Missing) {
        // Whether a file is there, and nobody else may read it, is not known then.
        let error = Error::new(kind, "it is not known");
        assert_eq!(if_there::<u32>(Err(error.clone())), Err(error));
    }
}

#[test]
fn what_is_put_has_a_name_of_its_own_until_it_is_whole_and_no_other_name_is_taken_for_one() {
    let longest = format!("/a/{}", "n".repeat(255));
    for (name, directory) in [("/x", "/"), ("/a/b/x", "/a/b"), (longest.as_str(), "/a")] {
        let drafts = [draft(name), draft(name)];
        assert_ne!(drafts[0], drafts[1]);
        for draft in drafts {
            let own = draft.strip_prefix(directory).unwrap().trim_start_matches('/');
            assert!(is_draft(own), "{draft}");
            assert_eq!((directory_of(name), own.len()), (directory, DRAFT.len() + DIGITS));
        }
    }
    for name in [".forebay.put.", ".forebay.put.notes", ".forebay.put.0123456789ABCDEF", ".forebay.7.0123456789abcdef"]
    {
        assert!(!is_draft(name), "{name}");
    }
    assert!(!is_draft(".forebay.put.0123456789abcdef0") && is_draft(".forebay.put.0123456789abcdef"));
}
