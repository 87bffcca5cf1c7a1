#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use std::process::Command;

/// How long each measurement takes.
const SPAN: Duration = Duration::from_secs(3);

/// Recording beside fio on the same file, in turns, both on one core:
/// `taskset -c 0 cargo test --release -p forebay beside_fio -- --ignored --nocapture`, with `FOREBAY_TEST_DIR` on the
/// disk, and `FOREBAY_TEST_ELEMENT` for elements of another size than 1 MiB.
#[test]
#[ignore = "measures the machine; needs fio"]
fn recording_reaches_nine_tenths_of_what_fio_reaches_beside_fio() {
    let folder = match std::env::var_os("FOREBAY_TEST_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let dir = folder.path().join("cluster");
    let args = args(&std::env::var("FOREBAY_TEST_ELEMENT").unwrap_or("1MiB".into()));
    let file = dir.join("target.0");
    let measure = Measure::For(Duration::from_secs(2));
    let format = FormatOptions { force: true, ..FormatOptions::file(args.size, measure) };
    forebay_embedded::format(&dir, &format).unwrap();
    // The first pass turns space set aside into written space, which is a cost of its own.
    raw::writes(&file, args.size, Duration::from_secs(60)).unwrap();
    let rounds = std::env::var("FOREBAY_TEST_ROUNDS").map_or(9, |n| n.parse().unwrap());
    let (mut same, mut unlike, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Each is first, second and last in turn: what went before leaves its traces in caches below.
        for turn in 0..3 {
            match (turn + round) % 3 {
                0 => same.push(fio(&file, &[])),
                1 => unlike.push(fio(&file, &["--refill_buffers", "--buffer_compress_percentage=0"])),
                _ => {
                    forebay_embedded::format(&dir, &FormatOptions { force: true, ..reformat(&dir) }).unwrap();
                    let cluster = forebay_embedded::open(&dir, Options::default()).unwrap();
                    let figures = record(&args, &cluster, SPAN).unwrap();
                    cluster.close().unwrap();
                    let cpu = figures.cpu_nanoseconds_per_element * figures.elements_per_second as f64;
                    println!("round {round}: recording took {:.0} % of the core", cpu / 1e7);
                    recorded.push(figures.written_bytes_per_second as f64 / 1e9);
                }
            }
        }
        println!(
            "round {round}, GB/s: fio {:.2}, fio with unlike data {:.2}, recorded {:.2}",
            same[round], unlike[round], recorded[round]
        );
    }
    let (same, unlike, recorded) = (median(same), median(unlike), median(recorded));
    println!(
        "medians, GB/s: fio {same:.2}, fio with unlike data {unlike:.2}, recorded {recorded:.2}: {:.0} % and {:.0} %",
        recorded / same * 100.0,
        recorded / unlike * 100.0
    );
    // Whichever of the two the disk likes better.
    let best = same.max(unlike);
    assert!(recorded >= 0.9 * best, "recorded {recorded:.2} GB/s where fio writes {best:.2} GB/s");
}

fn args(element: &str) -> RingArgs {
    RingArgs {
        disk: String::new(),
        scale: 1,
        element: element.to_string(),
        rate: Rate(0),
        readers: 0,
        pins: 0,
        aged: false,
        fill: 99.9,
        seconds: None,
        keys: Vec::new(),
        flush_interval: "1s".to_string(),
        seed: 1,
        size: Bytes::gib(2),
        spread: crate::bench::spread::SpreadArgs::default(),
    }
}

/// What fio reaches, in GB/s; what it writes is durable at the end, as what we record.
fn fio(path: &Path, more: &[&str]) -> f64 {
    let output = Command::new("fio")
        .args(["--name=write", "--rw=write", "--bs=1M", "--iodepth=8", "--ioengine=io_uring", "--direct=1"])
        .args(["--size=2G", "--time_based", "--end_fsync=1", "--minimal"])
        .arg(format!("--runtime={}", SPAN.as_secs()))
        .args(more)
        .arg(format!("--filename={}", path.display()))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Field 48 of the terse format is the write bandwidth in KiB/s.
    text.split(';').nth(47).and_then(|kib| kib.parse::<f64>().ok()).map_or(0.0, |kib| kib * 1024.0 / 1e9)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
