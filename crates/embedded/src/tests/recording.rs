//! What a program gives along with its elements: keys of its own, and times from a clock that may be set back.

use super::{element, enter, fresh, read, spec, time};
use forebay_client::{Cluster, Event};
use forebay_model::ring::{QuerySummary, RingSpec};
use forebay_model::{Bytes, Cause, Gap};

/// The elements that match, each with the keys it was given; what the query cost.
fn with_keys(cluster: &Cluster, text: &str) -> (Vec<(u64, Vec<u8>)>, QuerySummary) {
    let mut seen = Vec::new();
    let mut answer = cluster.query("/tagged", text).expect("a query");
    let summary = answer
        .for_each(|event| {
            let Event::Element { sequence, payload, caller, .. } = event else { panic!("{event:?} in {text}") };
            assert!(payload == element(sequence as u32, payload.len()), "element {sequence}");
            seen.push((sequence, caller.to_vec()));
            Ok(true)
        })
        .expect("an answer");
    (seen, summary)
}

#[test]
fn a_key_that_the_caller_gives_is_found_through_the_index_of_a_sealed_segment() {
    const COUNT: u32 = 5000;
    let dir = fresh();
    let cluster = enter(dir.path());
    let keys = vec!["id=u32le@0".into(), "tag=caller.u16".into(), "who=caller.bytes4".into()];
    let ring = cluster.create_ring(RingSpec { keys, ..spec("/tagged") }).expect("created");
    assert!(ring.spec.segment <= Bytes::mib(1), "most of its segments are sealed when all is recorded");
    // In no order, each number once, and nowhere in the element.
    let tag = |n: u32| (n * 7 % COUNT) as u16;
    let given = |n: u32| [&tag(n).to_le_bytes()[..], b"us-", &[b'a' + (n % 7) as u8]].concat();
    let mut recorder = cluster.recorder("/tagged").expect("recording");
    for n in 0..COUNT {
        recorder.element(time(n), &[&element(n, 1000)], &given(n)).expect("room");
    }
    recorder.close().expect("all durable");
    // From what it has in memory, and from what the next finds on disk.
    for round in 0..2 {
        let cluster = if round == 0 { cluster.clone() } else { enter(dir.path()) };
        for n in [1, 700, 1234] {
            let (seen, summary) = with_keys(&cluster, &format!("tag = {}", tag(n)));
            assert_eq!(seen, [(u64::from(n), given(n))]);
            // The tail has no index yet, and is read: a segment at most, of five or more.
            assert!(summary.read < Bytes::mib(2), "{summary:?}");
        }
        let (seen, _) = with_keys(&cluster, "tag in 100..109 and who = \"us-c\"");
        let wanted: Vec<_> = (0..COUNT).filter(|n| (100..110).contains(&tag(*n)) && n % 7 == 2).collect();
        assert!(!wanted.is_empty());
        assert_eq!(seen, wanted.iter().map(|n| (u64::from(*n), given(*n))).collect::<Vec<_>>());
        let (seen, summary) = with_keys(&cluster, &format!("tag = {COUNT}"));
        assert!(seen.is_empty() && summary.read < Bytes::mib(2), "{summary:?}");
        let (all, summary) = with_keys(&cluster, "tag >= 0");
        assert!(all.len() == COUNT as usize && summary.read > Bytes::mib(4), "{summary:?}");
        cluster.close().expect("closed");
    }
}

#[test]
fn a_clock_that_is_set_back_while_recording_loses_nothing_and_is_told_where_it_was() {
    let dir = fresh();
    // It is set back twice, the second time to before the beginning.
    let shown = |n: u32| match n {
        0..2000 => time(n + 20_000),
        2000..3000 => time(n + 10_000),
        _ => time(n),
    };
    {
        let cluster = enter(dir.path());
        cluster.create_ring(spec("/a")).expect("created");
        let mut recorder = cluster.recorder("/a").expect("recording");
        for n in 0..4000 {
            recorder.element(shown(n), &[&element(n, 1000)], &[]).expect("room");
        }
        let progress = recorder.close().expect("all durable");
        let at = Cause::ClockBack.index();
        assert_eq!((progress.losses.gaps[at], progress.losses.elements[at]), (2, 0), "nothing is missing");
        cluster.close().expect("closed");
    }
    let cluster = enter(dir.path());
    let mut events = Vec::new();
    cluster
        .query("/a", "")
        .expect("a query")
        .for_each(|event| {
            match event {
                Event::Element { sequence, time, .. } => {
                    assert_eq!(time, shown(sequence as u32), "the time that it was given");
                    events.push(Ok(sequence));
                }
                Event::Gap(gap) => events.push(Err(gap)),
                Event::Expired { .. } => panic!("there is room for all"),
            }
            Ok(true)
        })
        .expect("an answer");
    let back = |first, last| Err(Gap { cause: Cause::ClockBack, count: Some(0), first, last });
    let mut wanted: Vec<_> = (0..4000).map(Ok).collect();
    wanted.insert(3000, back(shown(3000), shown(2999)));
    wanted.insert(2000, back(shown(2000), shown(1999)));
    assert_eq!(events, wanted);
    // A range of time finds all of it, on whichever side of a jump it was recorded.
    for range in [500..600, 1990..2000, 2000..2010, 2995..3000, 3000..3005, 3500..4000] {
        let text = format!("time in {}..{}", shown(range.start), shown(range.end - 1));
        let found: Vec<u32> = read(&cluster, "/a", &text).elements.iter().map(|(_, n, _)| *n).collect();
        assert_eq!(found, range.collect::<Vec<_>>(), "{text}");
    }
}
