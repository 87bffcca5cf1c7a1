use super::plan::Stretch;
use super::{Limits, follow, run};
use crate::fake::{Fake, Told, Writer, sequences, small, tell};
use crate::{Ring, Target};
use forebay_env::pipe::{Outlet, pipe};
use forebay_model::gap::{Cause, Gap};
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary, RingSpec};
use forebay_model::{Bytes, Result, Timestamp};
use std::rc::Rc;
use std::time::Duration;

/// A ring of `capacity` with two keys: four bytes, and the one behind them.
fn ring(capacity: Bytes) -> (Fake, Rc<Ring>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let mut spec = small("/a", capacity);
    spec.keys = vec!["value=u32le@0".into(), "kind=u8@4".into()];
    let ring = fake.create(&target, spec).unwrap();
    (fake, ring)
}

/// Records elements of these sizes, 1 ms apart; element `n` has `value` `n % 50` and `kind` `n / 1000`.
fn record(fake: &Fake, ring: &Rc<Ring>, sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(fake, ring);
    let first = ring.status().next_sequence;
    let mut elements = Vec::new();
    fake.run(async {
        for (i, size) in sizes.into_iter().enumerate() {
            let number = first + i as u64;
            let mut element = vec![number as u8; size];
            let head = [&(number as u32 % 50).to_le_bytes()[..], &[(number / 1000) as u8]].concat();
            let known = size.min(5);
            element[..known].copy_from_slice(&head[..known]);
            writer.element(&element).await.unwrap();
            elements.push(element);
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
        writer.durable().await.unwrap();
    });
    elements
}

fn elements(told: &[Told]) -> Vec<(u64, Vec<u8>)> {
    told.iter().filter_map(|t| if let Told::Element(n, bytes) = t { Some((*n, bytes.clone())) } else { None }).collect()
}

#[test]
fn ranges_of_time_and_sequence_and_a_limit_are_kept_to() {
    let (fake, ring) = ring(Bytes::mib(8));
    record(&fake, &ring, std::iter::repeat_n(700, 3000));
    let start = ring.status().oldest.unwrap().0;
    let ms = |n: i64| Timestamp(start + n * 1_000_000);
    let ask = |text: &str| sequences(&fake.ask(&ring, text).0);
    assert_eq!(ask("all"), (0..3000).collect::<Vec<_>>());
    assert_eq!(ask("seq >= 1000 and seq < 1010"), (1000..1010).collect::<Vec<_>>());
    assert_eq!(ask("seq = 2999"), [2999]);
    assert_eq!(ask("seq > 2999"), [0u64; 0]);
    let timed = ask(&format!("time >= {} and time < {}", ms(500), ms(600)));
    assert!(timed.len() > 50 && timed.windows(2).all(|w| w[1] == w[0] + 1), "{timed:?}");
    let (told, summary) = fake.try_ask(&ring, "seq >= 10", 7).unwrap();
    assert_eq!((sequences(&told), summary.elements), ((10..17).collect::<Vec<_>>(), 7));
    assert_eq!(ask("not seq < 2998"), [2998, 2999]);
}

#[test]
fn elements_of_all_sizes_are_found_by_key_as_by_looking_at_everything() {
    let (fake, ring) = ring(Bytes::mib(24));
    let sizes: Vec<usize> = (0..2500)
        .map(|_| match fake.below(60) {
            0 => 100_000 + fake.below(400_000) as usize,
            1..4 => 8_000 + fake.below(40_000) as usize,
            4 => fake.below(5) as usize,
            _ => 5 + fake.below(300) as usize,
        })
        .collect();
    let recorded = record(&fake, &ring, sizes);
    let (told, summary) = fake.ask(&ring, "all");
    assert!(summary.segments > 20, "sealed segments, those just sealed, and the open one");
    let kept = elements(&told);
    assert_eq!(kept.last().unwrap().0, 2499);
    for (sequence, bytes) in &kept {
        assert!(*bytes == recorded[*sequence as usize], "element {sequence} differs");
    }
    let value = |bytes: &[u8]| bytes.get(..4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
    type Wanted<'a> = &'a dyn Fn(&[u8]) -> bool;
    let asked: [(&str, Wanted<'_>); 8] = [
        ("value=7", &|b| value(b) == Some(7)),
        ("value=77", &|_| false),
        ("value=7 or value=8", &|b| matches!(value(b), Some(7 | 8))),
        ("value=7 and kind=1", &|b| value(b) == Some(7) && b.get(4) == Some(&1)),
        ("value=7 and not kind=1", &|b| value(b) == Some(7) && b.get(4) != Some(&1)),
        ("not value=7", &|b| value(b) != Some(7)),
        ("value > 40 and value <= 42", &|b| value(b).is_some_and(|v| v > 40 && v <= 42)),
        ("value in (1, 3, 99) and kind != 2", &|b| matches!(value(b), Some(1 | 3)) && b.get(4) != Some(&2)),
    ];
    for (text, wanted) in asked {
        let found = elements(&fake.ask(&ring, text).0);
        let expected: Vec<_> = kept.iter().filter(|(_, bytes)| wanted(bytes)).cloned().collect();
        let numbers = |list: &[(u64, Vec<u8>)]| list.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(numbers(&found), numbers(&expected), "{text}");
        assert!(found == expected, "{text}: bytes differ");
    }
}

#[test]
fn gaps_are_told_in_their_places_also_where_no_element_matches() {
    let (fake, ring) = ring(Bytes::mib(8));
    let mut writer = Writer::new(&fake, &ring);
    let told = fake.run(async {
        let mut gaps = Vec::new();
        for number in 0..3000u32 {
            let element = [&number.to_le_bytes()[..], &[0; 600]].concat();
            writer.element(&element).await.unwrap();
            if number % 500 == 250 {
                let now = fake.now();
                let gap = Gap { cause: Cause::Kernel, count: Some(u64::from(number)), first: now, last: now };
                writer.gap(&gap).await.unwrap();
                gaps.push(gap);
            }
        }
        writer.durable().await.unwrap();
        gaps
    });
    let all = fake.ask(&ring, "all").0;
    let places: Vec<_> = all.iter().enumerate().filter(|(_, t)| matches!(t, Told::Gap(_))).map(|(i, _)| i).collect();
    assert_eq!(places, [251, 752, 1253, 1754, 2255, 2756]);
    let rare = fake.ask(&ring, "value=1400").0;
    let gaps: Vec<Told> = told.into_iter().map(Told::Gap).collect();
    assert_eq!(rare.len(), 7);
    assert_eq!(sequences(&rare), [1400]);
    assert_eq!((&rare[..3], &rare[4..]), (&gaps[..3], &gaps[3..]));
}

#[test]
fn a_reader_that_follows_is_told_each_gap_once() {
    let (fake, ring) = ring(Bytes::mib(4));
    record(&fake, &ring, std::iter::repeat_n(900, 10));
    let (mut outlet, task) = start(&fake, &ring, "value=49", true, 64 << 20);
    let mut writer = Writer::new(&fake, &ring);
    let gap = |number: u64| Gap { cause: Cause::Kernel, count: Some(number), first: fake.now(), last: fake.now() };
    fake.run(async {
        for number in 0..2000u32 {
            if fake.below(40) == 0 {
                writer.gap(&gap(number.into())).await.unwrap();
            }
            writer.element(&[&1u32.to_le_bytes()[..], &[0; 900]].concat()).await.unwrap();
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
        writer.gap(&gap(5000)).await.unwrap();
        writer.element(&[&49u32.to_le_bytes()[..], &[0; 900]].concat()).await.unwrap();
        writer.durable().await.unwrap();
    });
    let mut told = Vec::new();
    fake.run(async {
        while sequences(&told).is_empty() {
            tell(&outlet.receive().await.expect("it goes on"), &mut told);
        }
    });
    drop((outlet, task));
    // What another reader finds that asks for everything afterwards.
    let gaps = |told: &[Told]| told.iter().filter(|t| matches!(t, Told::Gap(_))).cloned().collect::<Vec<_>>();
    let all = gaps(&fake.ask(&ring, "all").0);
    assert!(all.len() > 20, "{} gaps", all.len());
    assert_eq!(gaps(&told), all);
    assert_eq!(gaps(&fake.ask(&ring, "value=49").0), all);
}

#[test]
fn what_was_overwritten_before_the_query_is_told_as_expired() {
    let (fake, ring) = ring(Bytes::mib(2));
    record(&fake, &ring, std::iter::repeat_n(900, 5000));
    let (told, summary) = fake.ask(&ring, "all");
    let Told::Expired(0, end) = told[0] else { panic!("{:?} first", told[0]) };
    assert_eq!(sequences(&told), (end..5000).collect::<Vec<_>>());
    assert_eq!(summary.expired, end);
    // Only what was asked for is told.
    assert!(fake.ask(&ring, "seq >= 4990").0.iter().all(|t| !matches!(t, Told::Expired(..))));
    assert_eq!(fake.ask(&ring, "seq < 10").0, [Told::Expired(0, 10)], "all of it is gone");
    let early = format!("time < {}", Timestamp(ring.status().oldest.unwrap().0 - 1));
    assert_eq!(fake.ask(&ring, &early).0, [Told::Expired(0, end)], "nobody knows which of these they were");
    assert_eq!(fake.ask(&ring, "seq < 10 and seq > 20").0, []);
    assert_eq!(fake.ask(&ring, "seq > 6000").0, []);
}

type Answer = (Outlet<Batch>, forebay_env::Task<Result<QuerySummary>>);

fn start(fake: &Fake, ring: &Rc<Ring>, text: &str, follow: bool, room: usize) -> Answer {
    let query = Query::parse(text, &ring.keys, fake.now()).unwrap();
    let (inlet, outlet) = pipe::<Batch>(room);
    let ring = ring.clone();
    let limits = Limits { follow, elements: u64::MAX, gaps_only: false, blocks: false, numbered: false };
    (outlet, fake.env().spawner.spawn(async move { run(ring, query, limits, &inlet).await }))
}

/// The blocks of which a query tells, each with the sequences of its elements that came.
fn by_blocks(fake: &Fake, ring: &Rc<Ring>, text: &str) -> Vec<((u64, u64, u64), Vec<u64>)> {
    let query = Query::parse(text, &ring.keys, fake.now()).unwrap();
    let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false, blocks: false, numbered: true };
    let (ring, end) = (ring.clone(), ring.status().readable_sequence);
    fake.run(async {
        let (inlet, mut outlet) = pipe::<Batch>(4 << 20);
        let task = fake.env().spawner.spawn(async move { run(ring, query, limits, &inlet).await });
        let mut blocks: Vec<((u64, u64, u64), Vec<u64>)> = Vec::new();
        while let Some(batch) = outlet.receive().await {
            for item in batch.items {
                match item {
                    Item::Block { writer, number, first, durable } => {
                        assert_eq!(durable, end, "all of it is");
                        blocks.push(((writer, number, first), Vec::new()));
                    }
                    Item::Element { sequence, last: true, .. } => blocks.last_mut().unwrap().1.push(sequence),
                    Item::Element { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        task.await.unwrap();
        blocks
    })
}

#[test]
fn who_asks_for_numbers_is_told_of_which_block_each_element_is_and_of_no_other_ones() {
    let (fake, ring) = ring(Bytes::mib(16));
    record(&fake, &ring, std::iter::repeat_n(700, 3000));
    record(&fake, &ring, std::iter::repeat_n(700, 2000));
    let all = by_blocks(&fake, &ring, "all");
    let told: Vec<u64> = all.iter().flat_map(|(_, elements)| elements.iter().copied()).collect();
    assert_eq!(told, (0..5000).collect::<Vec<_>>());
    let sessions: std::collections::BTreeSet<u64> = all.iter().map(|((writer, ..), _)| *writer).collect();
    assert_eq!(sessions.len(), 2);
    for pair in all.windows(2) {
        let ((writer, number, _), (next_writer, next, first)) = (pair[0].0, pair[1].0);
        assert_eq!(next, if writer == next_writer { number + 1 } else { 1 });
        assert!(pair[1].1.is_empty() || pair[1].1[0] == first);
    }
    let some = by_blocks(&fake, &ring, "seq >= 1000 and seq < 3100 and value = 7");
    assert_eq!(some.iter().map(|(_, elements)| elements.len()).sum::<usize>(), 42);
    for (block, elements) in &some {
        let whole = all.iter().find(|(other, _)| other == block).expect("it is there");
        assert!(!elements.is_empty() && elements.iter().all(|element| whole.1.contains(element)), "{block:?}");
    }
}

#[test]
fn a_reader_that_is_overtaken_is_told_what_expired_and_goes_on_behind_it() {
    let (fake, ring) = ring(Bytes::mib(4));
    record(&fake, &ring, std::iter::repeat_n(900, 3500));
    // Nobody takes what it returns while the writer goes round.
    let (mut outlet, task) = start(&fake, &ring, "all", false, 1);
    fake.wait(Duration::from_secs(1));
    record(&fake, &ring, std::iter::repeat_n(900, 8000));
    let told = fake.run(async {
        let mut told = Vec::new();
        while let Some(batch) = outlet.receive().await {
            tell(&batch, &mut told);
        }
        task.await.unwrap();
        told
    });
    let mut next = 0;
    let mut expired = 0;
    for one in &told {
        match one {
            Told::Element(sequence, _) => {
                assert_eq!(*sequence, next, "nothing is left out without a word");
                next += 1;
            }
            Told::Expired(from, to) => {
                assert_eq!(*from, next);
                (next, expired) = (*to, expired + to - from);
            }
            Told::Gap(gap) => panic!("{gap} where nothing is damaged"),
        }
    }
    assert!(next >= 3500 && expired > 2000, "up to {next}, of which {expired} had expired");
}

#[test]
fn a_reader_of_some_that_is_overtaken_by_several_segments_is_told_all_that_expired() {
    for follow in [false, true] {
        for text in ["value < 50", "after @0", "seq >= 0 and kind < 200", "value = 7"] {
            let (fake, ring) = ring(Bytes::mib(4));
            record(&fake, &ring, std::iter::repeat_n(900, 3500));
            let (mut outlet, task) = start(&fake, &ring, text, follow, 1);
            fake.wait(Duration::from_secs(1));
            record(&fake, &ring, std::iter::repeat_n(900, 8000));
            let wanted = |number: &u64| text != "value = 7" || number % 50 == 7;
            let last = (0..11_500).rfind(wanted).unwrap();
            let told = fake.run(async {
                let mut told = Vec::new();
                while sequences(&told).last() != Some(&last)
                    && let Some(batch) = outlet.receive().await
                {
                    tell(&batch, &mut told);
                }
                told
            });
            drop((outlet, task));
            let mut next = 0;
            for one in &told {
                match one {
                    Told::Element(sequence, _) => {
                        let left_out = (next..*sequence).filter(wanted).count();
                        assert_eq!(left_out, 0, "{text}: between {next} and {sequence}");
                        next = sequence + 1;
                    }
                    Told::Expired(from, to) => {
                        assert!(*from >= next, "{text}: {from}..{to} was given up to {next}");
                        assert_eq!((next..*from).filter(wanted).count(), 0, "{text}: between {next} and {from}");
                        next = *to;
                    }
                    Told::Gap(gap) => panic!("{gap} where nothing is damaged"),
                }
            }
            // One that does not follow may have had all that there was before.
            assert!(next > if follow { last } else { 3450 }, "{text}: up to {next}");
        }
    }
}

#[test]
fn a_reader_that_follows_gets_what_comes_until_it_goes() {
    let (fake, ring) = ring(Bytes::mib(4));
    record(&fake, &ring, std::iter::repeat_n(900, 100));
    let (mut all, everything) = start(&fake, &ring, "all", true, 4 << 20);
    let (mut some, few) = start(&fake, &ring, "value=7", true, 4 << 20);
    // Through several segments, most of a lap.
    record(&fake, &ring, std::iter::repeat_n(900, 3000));
    let take = |outlet: &mut Outlet<Batch>, last: u64| {
        let mut told = Vec::new();
        fake.run(async {
            while sequences(&told).last() != Some(&last) {
                tell(&outlet.receive().await.expect("it goes on"), &mut told);
            }
        });
        sequences(&told)
    };
    assert_eq!(take(&mut all, 3099), (0..3100).collect::<Vec<_>>());
    assert_eq!(take(&mut some, 3057), (0..3100).filter(|n| n % 50 == 7).collect::<Vec<_>>());
    record(&fake, &ring, [900; 10]);
    assert_eq!(take(&mut all, 3109), (3100..3110).collect::<Vec<_>>());
    assert_eq!(take(&mut some, 3107), [3107]);
    drop((all, some));
    record(&fake, &ring, [900; 60]);
    assert!(fake.run(everything).is_ok() && fake.run(few).is_ok(), "they end when nobody takes their answer");
}

#[test]
fn what_is_damaged_is_told_and_all_else_returned() {
    let (fake, ring) = ring(Bytes::mib(4));
    record(&fake, &ring, std::iter::repeat_n(900, 3000));
    let at = ring.core().with_ring(ring.id, |r| r.slot_at(&ring.core().layout(), 3));
    // In the fourth segment a block, and in the fifth the trailer.
    fake.disk.flip(at + Bytes::kib(100));
    fake.disk.flip(at + ring.status().spec.segment * 2 - Bytes(4000));
    let (told, _) = fake.ask(&ring, "all");
    let gaps: Vec<_> = told.iter().filter_map(|t| if let Told::Gap(gap) = t { Some(*gap) } else { None }).collect();
    let [Gap { cause: Cause::Damaged, count: Some(lost), .. }] = gaps[..] else { panic!("{gaps:?}") };
    let found = sequences(&told);
    assert_eq!(found.len() as u64 + lost, 3000);
    // By key as well, though the index of the fifth segment is gone.
    let by_key = sequences(&fake.ask(&ring, "value=7").0);
    assert_eq!(by_key, found.into_iter().filter(|n| n % 50 == 7).collect::<Vec<_>>());
}

#[test]
fn blocks_that_lie_over_several_reads_are_returned_whole() {
    // Groups of 16 MiB, and as large segments as go into them.
    let fake = Fake::new(Bytes::gib(1), false);
    let target = fake.target();
    let spec = RingSpec { block: Bytes::mib(4), segment: Bytes::ZERO, ..small("/a", Bytes::mib(64)) };
    let ring = fake.create(&target, spec).unwrap();
    // One small block puts those behind it across the borders of what is read at once.
    record(&fake, &ring, [500]);
    record(&fake, &ring, std::iter::repeat_n(16_000, 1200));
    let sealed = ring.core().with_ring(ring.id, |r| r.slots.iter().flatten().count()) - 1;
    assert!(sealed >= 1, "{sealed} are sealed");
    fake.run(target.close()).unwrap();
    drop((ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    let (told, summary) = fake.ask(&ring, "all");
    assert!(told.iter().all(|t| matches!(t, Told::Element(..))), "nothing is missing");
    assert_eq!((sequences(&told), summary.elements), ((0..1201).collect::<Vec<_>>(), 1201));
}

#[test]
fn a_reader_of_what_is_damaged_ends_when_the_ring_is_deleted_meanwhile() {
    let fake = Fake::new(Bytes::gib(1), false);
    let target = fake.target();
    let ring = fake.create(&target, RingSpec { segment: Bytes::ZERO, ..small("/a", Bytes::mib(64)) }).unwrap();
    // Less than is read at once, and several batches.
    let recorded = record(&fake, &ring, std::iter::repeat_n(1000, 3800)).len() as u64;
    let at = ring.core().with_ring(ring.id, |r| r.slot_at(&ring.core().layout(), 0));
    fake.disk.flip(at + Bytes::kib(3592));
    let (mut outlet, task) = start(&fake, &ring, "all", false, 1);
    let mut told = Vec::new();
    fake.run(async { tell(&outlet.receive().await.expect("there are several"), &mut told) });
    fake.run(target.delete_ring("/a")).unwrap();
    let summary = fake.run(async {
        while let Some(batch) = outlet.receive().await {
            tell(&batch, &mut told);
        }
        task.await.unwrap()
    });
    assert!(summary.expired > 0 && told.iter().all(|t| !matches!(t, Told::Gap(_))), "{} expired", summary.expired);
    assert_eq!(sequences(&told).len() as u64 + summary.expired, recorded);
}

#[test]
fn a_reader_that_follows_waits_for_blocks_of_a_sealed_segment_in_which_no_element_ends() {
    let (fake, ring) = ring(Bytes::mib(4));
    // Nearly a segment.
    record(&fake, &ring, std::iter::repeat_n(900, 220));
    let (mut outlet, task) = start(&fake, &ring, "all", true, 4 << 20);
    fake.wait(Duration::from_secs(1));
    // Of the element that goes on in the next segment one block is written, and the others are on their way.
    fake.disk.hold_writes_after(1);
    let mut writer = Writer::new(&fake, &ring);
    let large: Vec<u8> = (0..150_000u32).map(|n| n as u8).collect();
    let element = large.clone();
    let written = fake.env().spawner.spawn(async move {
        writer.element(&element).await.unwrap();
        writer.element(&[1; 900]).await.unwrap();
        writer.durable().await.unwrap();
    });
    fake.wait(Duration::from_secs(1));
    let first = ring.core().with_ring(ring.id, |r| r.slots[0].unwrap());
    assert_eq!(first.end, 220, "nothing ends in what came into it since");
    assert!(ring.recent_tables(first.sequence).is_some(), "it is sealed");
    assert!(ring.first_unwritten(first.sequence).is_some(), "and not all of it is there");
    fake.disk.let_writes_go();
    let mut told = Vec::new();
    fake.run(async {
        written.await;
        while sequences(&told).last() != Some(&221) {
            tell(&outlet.receive().await.expect("it goes on"), &mut told);
        }
    });
    drop((outlet, task));
    assert_eq!(sequences(&told), (0..222).collect::<Vec<_>>());
    assert!(told.contains(&Told::Element(220, large)) && told.len() == 222, "whole, and no gap");
}

#[test]
fn an_element_that_goes_on_is_followed_step_by_step_up_to_what_is_read_anyway() {
    let ends = [0, 100, 200, 300, 400, 1000];
    let parts: Vec<Stretch> = (0..5)
        .map(|i| Stretch {
            offset: ends[i],
            length: ends[i + 1] - ends[i],
            after: ends[i],
            begins: Some(7),
            ends: Some(7),
            blocks: Some((i as u32, i as u32 + 1)),
            torn_off: false,
            continues: true,
            times: (0, 0),
        })
        .collect();
    let read = |from, far, planned| follow(&parts, from, far, planned).map(|s| (s.offset, s.length));
    assert_eq!(read(0, 50, None), Some((0, 100)), "one step at least");
    assert_eq!(read(100, 250, None), Some((100, 200)), "whole steps");
    assert_eq!(read(100, 250, Some(200)), Some((100, 100)));
    assert_eq!(read(400, 50, None), Some((400, 600)));
    assert_eq!(read(1000, 50, None), None, "the segment ends");
}
