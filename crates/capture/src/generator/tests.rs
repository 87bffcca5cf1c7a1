use super::{Content, GeneratorSource, PERIOD, PacketSizes, Sizes};
use crate::export::{Format, exporter};
use crate::source::{ClockDoor, Sink, Source, Summary};
use crate::testing::{Collector, EPOCH, Event, MachineClock, ManualClock, Shared, tshark};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Gap, Rate, Result, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

fn run(content: Content, rate: Option<Rate>, elements: u64, seed: u64) -> (Vec<Event>, Duration) {
    let clock = ManualClock::new();
    let mut source = GeneratorSource::new(content, rate, Some(elements), seed, clock.clone()).unwrap();
    let mut sink = Collector::new(clock.clone());
    let summary = source.run(&mut sink).unwrap();
    assert_eq!((summary.elements, summary.stopped), (elements, false));
    assert!(sink.longest <= Duration::from_millis(50), "{:?}", sink.longest);
    (sink.events, clock.wall().since(EPOCH))
}

fn payloads(events: &[Event]) -> Vec<&[u8]> {
    events.iter().map(|e| if let Event::Element(_, payload) = e { payload.as_slice() } else { &[] }).collect()
}

#[test]
fn a_rate_is_kept_and_times_are_those_of_the_schedule() {
    for size in [20, 1000, 64_000, 3_000_000] {
        let rate = Rate::mb(10);
        let elements = 20_000_000 / size;
        let (events, took) = run(Content::Pattern(Sizes::Fixed(Bytes(size))), Some(rate), elements, 1);
        let expected = rate.time_for(Bytes(elements * size));
        // The last piece goes out as soon as it is due.
        let slack = Duration::from_millis(10) + rate.time_for(Bytes(size.min(1 << 20)));
        assert!(took + slack >= expected && took <= expected + slack, "{size}: {took:?} for {expected:?}");
        for (i, event) in events.iter().enumerate() {
            let Event::Element(time, payload) = event else { panic!("a gap") };
            assert_eq!(payload.len() as u64, size);
            let due = EPOCH.after(rate.time_for(Bytes(i as u64 * size)));
            assert!((time.0 - due.0).abs() <= 1000, "{size}: element {i} bears {time} and was due at {due}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_stream_and_another_one_another() {
    for content in [
        Content::Pattern(Sizes::Uniform(Bytes(1), Bytes(3000))),
        Content::Pattern(Sizes::mixed()),
        Content::Packets(PacketSizes::Mix),
    ] {
        let stream = |seed| {
            let (events, _) = run(content.clone(), None, 300, seed);
            payloads(&events).concat()
        };
        assert!(stream(4) == stream(4), "{content:?}");
        assert!(stream(4) != stream(5), "{content:?}");
    }
}

#[test]
fn the_content_is_one_pattern_whatever_the_sizes() {
    let (events, _) = run(Content::Pattern(Sizes::Uniform(Bytes(1), Bytes(2_000_000))), None, 30, 9);
    let stream = payloads(&events).concat();
    assert!(stream.chunks_exact(PERIOD).all(|chunk| chunk == &stream[..PERIOD]));
    assert!(stream[..PERIOD].iter().any(|byte| *byte != stream[0]));
}

#[test]
fn a_mix_shares_the_bytes_among_its_sizes() {
    let Sizes::Weighted(weights) = Sizes::mixed() else { panic!("a mix has weights") };
    assert_eq!(weights.iter().map(|(size, _)| size.0).collect::<Vec<_>>(), [20, 1_000, 64_000, 1_000_000, 60_000_000]);
    for (size, weight) in &weights {
        let share = size.0 * u64::from(*weight);
        assert!((55_000_000..=60_000_000).contains(&share), "{size}: {share}");
    }
    // And they come as often as they should.
    let weights = vec![(Bytes(1), 6), (Bytes(2), 3), (Bytes(3), 1)];
    let (events, _) = run(Content::Pattern(Sizes::Weighted(weights)), None, 10_000, 2);
    let mut counts = [0; 4];
    payloads(&events).iter().for_each(|payload| counts[payload.len()] += 1);
    assert!((5700..6300).contains(&counts[1]) && (2700..3300).contains(&counts[2]) && (800..1200).contains(&counts[3]));
}

#[test]
fn packets_are_valid_and_few_flows_have_most_of_them() {
    for sizes in [PacketSizes::Mix, PacketSizes::Fixed(101), PacketSizes::Fixed(9014)] {
        let (events, _) = run(Content::Packets(sizes), None, 4000, 3);
        let output = Shared::default();
        let mut export = exporter(Format::Pcap(LinkType::ETHERNET), Box::new(output.clone()), "export").unwrap();
        for payload in payloads(&events) {
            export.element(0, EPOCH, &[payload], &[]).unwrap();
        }
        export.finish().unwrap();
        let check = ["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"].map(|o| format!("{o}:TRUE"));
        let options: Vec<&str> = check.iter().flat_map(|o| ["-o", o.as_str()]).collect();
        let fields = ["ip.checksum.status", "udp.checksum.status", "tcp.checksum.status", "ip.src", "_ws.malformed"];
        let mut arguments = options;
        arguments.extend(["-T", "fields"]);
        arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
        let out = tshark(&output.bytes(), &arguments);
        let mut flows: BTreeMap<&str, usize> = BTreeMap::new();
        let mut kinds = [0; 2];
        for row in out.lines() {
            let row: Vec<&str> = row.split('\t').collect();
            assert_eq!((row[0], row[4]), ("1", ""), "{row:?}");
            assert!(matches!((row[1], row[2]), ("1", "") | ("", "1")), "{row:?}");
            kinds[usize::from(row[1].is_empty())] += 1;
            *flows.entry(row[3]).or_default() += 1;
        }
        assert_eq!(kinds[0] + kinds[1], 4000);
        assert!(kinds.iter().all(|count| *count > 400), "{kinds:?}");
        let mut counts: Vec<usize> = flows.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts.len() > 300 && counts[..100].iter().sum::<usize>() > 2400, "{} flows", counts.len());
    }
}

#[test]
fn a_stop_in_the_middle_of_a_large_element_leaves_it_open() {
    let clock = ManualClock::new();
    let content = Content::Pattern(Sizes::Fixed(Bytes(60_000_000)));
    let mut source = GeneratorSource::new(content, Some(Rate::mb(60)), None, 1, clock.clone()).unwrap();
    let mut sink = Collector::new(clock);
    let mut ticks = 0;
    sink.on_tick = Box::new(move |_| {
        ticks += 1;
        ticks < 10
    });
    let summary = source.run(&mut sink).unwrap();
    assert!(summary.stopped && summary.elements == 0 && sink.open.is_some());
}

#[test]
fn settings_that_make_no_stream_are_refused() {
    let clock = ManualClock::new();
    let refused =
        |content, rate| GeneratorSource::new(content, rate, None, 0, clock.clone()).err().expect("no stream").message;
    let fixed = |size| Content::Pattern(Sizes::Fixed(Bytes(size)));
    assert!(refused(fixed(9), Some(Rate(0))).contains("0 B/s"));
    assert!(refused(fixed(0), None).contains("0 bytes"));
    assert!(refused(Content::Pattern(Sizes::Uniform(Bytes(9), Bytes(3))), None).contains("swap"));
    assert!(refused(Content::Pattern(Sizes::Weighted(vec![])), None).contains("weight"));
}

/// Takes everything and keeps nothing.
struct Nothing(u64);

impl Sink for Nothing {
    fn element(&mut self, _: Timestamp, parts: &[&[u8]], _: &[u8]) -> Result<()> {
        self.0 += parts[0].len() as u64;
        Ok(())
    }
    fn begin(&mut self, _: Timestamp, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn part(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
    fn gap(&mut self, _: Gap) -> Result<()> {
        Ok(())
    }
    fn tick(&mut self) -> Result<bool> {
        Ok(true)
    }
}

#[test]
fn an_element_costs_a_few_nanoseconds() {
    for content in [Content::Pattern(Sizes::Fixed(Bytes(64))), Content::Packets(PacketSizes::Fixed(64))] {
        for rate in [None, Some(Rate(1 << 50))] {
            const ELEMENTS: u64 = 2_000_000;
            let clock = MachineClock::new();
            let mut source = GeneratorSource::new(content.clone(), rate, Some(ELEMENTS), 0, clock.clone()).unwrap();
            // The best of some runs: others may use the machine as well.
            let cost = (0..5)
                .map(|_| {
                    let start = clock.now();
                    let summary: Summary = source.run(&mut Nothing(0)).unwrap();
                    source.left = ELEMENTS;
                    clock.now().since(start).as_nanos() as f64 / summary.elements as f64
                })
                .fold(f64::MAX, f64::min);
            println!("{}: {cost:.1} ns for an element", source.describe());
            let limit = if cfg!(debug_assertions) { 300.0 } else { 30.0 };
            assert!(cost < limit, "{cost} ns");
        }
    }
}
