#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod directory;
mod heap_frames;
mod heaps;
mod objects;
mod recording;
mod sharing;
mod takeover;

use crate::{FormatOptions, Measure, Options, format, open};
use forebay_client::{Cluster, Event, QueryOptions};
use forebay_model::ring::{Overflow, RingSpec};
use forebay_model::{Bytes, Cause, Gap, Timestamp};
use std::path::Path;
use std::time::Duration;

/// A cluster of one small file in a directory of its own.
fn fresh() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    format(dir.path(), &small()).expect("formatted");
    dir
}

fn small() -> FormatOptions {
    FormatOptions::file(Bytes::mib(64), Measure::Guess)
}

fn spec(name: &str) -> RingSpec {
    RingSpec {
        block: Bytes::kib(64),
        flush_interval: Duration::from_millis(40),
        overflow: Overflow::Block,
        keys: vec!["id=u32le@0".into()],
        ..RingSpec::new(name, Bytes::mib(8))
    }
}

fn enter(dir: &Path) -> Cluster {
    open(dir, Options::default()).expect("open")
}

/// Element number `n`: its number, and bytes that follow from it.
fn element(n: u32, length: usize) -> Vec<u8> {
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(length.max(4), n as u8);
    bytes
}

fn time(n: u32) -> Timestamp {
    Timestamp(1_700_000_000_000_000_000 + i64::from(n) * 1_000_000)
}

#[derive(Debug, Default)]
struct Seen {
    elements: Vec<(u64, u32, usize)>,
    gaps: Vec<Gap>,
    expired: Vec<(u64, u64)>,
}

fn read(cluster: &Cluster, ring: &str, text: &str) -> Seen {
    let mut seen = Seen::default();
    let mut answer = cluster.query(ring, text).expect("a query");
    let summary = answer
        .for_each(|event| {
            match event {
                Event::Element { sequence, payload, .. } => {
                    let n = u32::from_le_bytes(payload[..4].try_into().expect("four bytes"));
                    assert!(payload == element(n, payload.len()), "element {n} came back as something else");
                    seen.elements.push((sequence, n, payload.len()));
                }
                Event::Gap(gap) => seen.gaps.push(gap),
                Event::Expired { from, to } => seen.expired.push((from, to)),
            }
            Ok(true)
        })
        .expect("an answer");
    assert_eq!(summary.elements as usize, seen.elements.len());
    seen
}

#[test]
fn what_is_recorded_is_found_again_also_by_the_next_process() {
    let dir = fresh();
    {
        let cluster = enter(dir.path());
        cluster.create_ring(spec("/a")).expect("created");
        let mut recorder = cluster.recorder("/a").expect("recording");
        for n in 0..2000 {
            recorder.element(time(n), &[&element(n, 100)], &[]).expect("room");
        }
        let progress = recorder.close().expect("all durable");
        assert_eq!((progress.elements, progress.durable_sequence), (2000, 2000));
        let seen = read(&cluster, "/a", "");
        let all: Vec<_> = (0..2000).map(|n| (u64::from(n), n, 100)).collect();
        assert_eq!(seen.elements, all);
        assert_eq!(seen.gaps, []);
        assert_eq!(read(&cluster, "/a", "id = 77").elements, [(77, 77, 100)]);
        cluster.close().expect("closed");
    }
    let cluster = enter(dir.path());
    let mut recorder = cluster.recorder("/a").expect("recording");
    recorder.element(time(5000), &[&element(2000, 50)], &[]).expect("room");
    recorder.close().expect("all durable");
    let seen = read(&cluster, "/a", "seq >= 1999");
    assert_eq!(seen.elements, [(1999, 1999, 100), (2000, 2000, 50)]);
    assert_eq!(seen.gaps, [Gap { cause: Cause::Restart, count: None, first: time(1999), last: time(5000) }]);
    let limited = QueryOptions { limit: Some(3), ..QueryOptions::default() };
    let mut answer = cluster.query_with("/a", "", limited).expect("a query");
    assert_eq!(answer.for_each(|_| Ok(true)).expect("an answer").elements, 3);
}
