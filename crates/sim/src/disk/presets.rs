//! Disks of the published experiments. Rates and latencies are those of their class; `tests` pins what follows from
//! them.

use super::spec::{DiskSpec, Mechanism, RotatingSpec, SeekCurve, ShingledSpec, SsdSpec};
use forebay_model::{Bytes, Error, Rate, Result};
use std::time::Duration;

/// The names that [`preset`] knows.
pub const NAMES: [&str; 5] = ["wd15ears", "cheetah15k", "sata7200", "ssd", "smr"];

/// The disk called `name`; `scsi15k` is another one for `cheetah15k`, a SCSI disk of 15,000 turns a minute.
pub fn preset(name: &str) -> Option<DiskSpec> {
    match name {
        "wd15ears" => Some(wd15ears()),
        "cheetah15k" | "scsi15k" => Some(cheetah15k()),
        "sata7200" => Some(sata7200()),
        "ssd" => Some(ssd()),
        "smr" => Some(smr()),
        _ => None,
    }
}

/// Reads `sim:NAME`. `None` if `text` does not begin with `sim:`, so that it names something else.
pub fn parse(text: &str) -> Option<Result<DiskSpec>> {
    let name = text.strip_prefix("sim:")?;
    Some(preset(name).ok_or_else(|| {
        Error::usage(format!("no simulated disk is called '{name}'; the names are {}", NAMES.join(", ")))
    }))
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// 1.5 TB at 5400 rpm, 110 MB/s outside and 50 inside, with the knee in the last fifth; 4 KiB sectors.
pub fn wd15ears() -> DiskSpec {
    DiskSpec {
        name: "wd15ears".into(),
        size: Bytes(1_500_299_395_072),
        block: Bytes::kib(4),
        mechanism: Mechanism::Rotating(RotatingSpec {
            rpm: 5400,
            curve: vec![(0.0, Rate::mb(110)), (0.8, Rate::mb(78)), (1.0, Rate::mb(50))],
            heads: 6,
            seek: SeekCurve { fixed: micros(1_000), sqrt: micros(9_500), linear: micros(7_800) },
            head_switch: micros(1_000),
            write_settle: micros(500),
            overhead: micros(200),
            interface: Rate::mb(280),
            queue: 32,
            patience: Duration::from_millis(400),
            read_ahead: Bytes::mib(8),
            segments: 4,
        }),
        write_cache: Some(Bytes::mib(64)),
        unflushed: Bytes::mib(64),
    }
}

/// 300 GB at 15000 rpm, 3.5 ms mean seek, 120 MB/s outside and 80 inside; the write cache is off, as in servers.
pub fn cheetah15k() -> DiskSpec {
    DiskSpec {
        name: "cheetah15k".into(),
        size: Bytes(300_000_739_328),
        block: Bytes(512),
        mechanism: Mechanism::Rotating(RotatingSpec {
            rpm: 15_000,
            curve: vec![(0.0, Rate::mb(120)), (1.0, Rate::mb(80))],
            heads: 8,
            seek: SeekCurve { fixed: micros(350), sqrt: micros(4_000), linear: micros(3_050) },
            head_switch: micros(350),
            write_settle: micros(300),
            overhead: micros(100),
            interface: Rate::mb(390),
            queue: 32,
            patience: Duration::from_millis(200),
            read_ahead: Bytes::mib(1),
            segments: 8,
        }),
        write_cache: None,
        unflushed: Bytes::mib(16),
    }
}

/// 1 TB at 7200 rpm, 8.5 ms mean seek, 120 MB/s outside and 60 inside.
pub fn sata7200() -> DiskSpec {
    DiskSpec {
        name: "sata7200".into(),
        size: Bytes(1_000_204_886_016),
        block: Bytes(512),
        mechanism: Mechanism::Rotating(RotatingSpec {
            rpm: 7200,
            curve: vec![(0.0, Rate::mb(120)), (1.0, Rate::mb(60))],
            heads: 8,
            seek: SeekCurve { fixed: micros(800), sqrt: micros(9_000), linear: micros(8_700) },
            head_switch: micros(800),
            write_settle: micros(500),
            overhead: micros(150),
            interface: Rate::mb(280),
            queue: 32,
            patience: Duration::from_millis(300),
            read_ahead: Bytes::mib(2),
            segments: 8,
        }),
        write_cache: Some(Bytes::mib(32)),
        unflushed: Bytes::mib(32),
    }
}

/// 256 GB of flash behind a SATA port: 520 MB/s read, 380 MB/s written for ever, about 80,000 random reads a second.
pub fn ssd() -> DiskSpec {
    DiskSpec {
        name: "ssd".into(),
        size: Bytes(256_060_514_304),
        block: Bytes(512),
        mechanism: Mechanism::Ssd(SsdSpec {
            channels: 8,
            stripe: Bytes::kib(16),
            read_latency: micros(70),
            program_latency: micros(600),
            read_rate: Rate::mb(560),
            write_rate: Rate::mb(380),
            overhead: micros(10),
            interface: Rate::mb(520),
        }),
        write_cache: Some(Bytes::mib(64)),
        unflushed: Bytes::mib(64),
    }
}

/// 5 TB at 5900 rpm in bands of 32 MiB that the disk manages itself, every tenth without overlap; 150 MB/s outside and
/// 75 inside, 24 GiB of media cache.
pub fn smr() -> DiskSpec {
    DiskSpec {
        name: "smr".into(),
        size: Bytes(5_000_981_078_016),
        block: Bytes::kib(4),
        mechanism: Mechanism::Shingled(ShingledSpec {
            rotating: RotatingSpec {
                rpm: 5900,
                curve: vec![(0.0, Rate::mb(150)), (1.0, Rate::mb(75))],
                heads: 8,
                seek: SeekCurve { fixed: micros(1_000), sqrt: micros(10_000), linear: micros(9_500) },
                head_switch: micros(1_000),
                write_settle: micros(500),
                overhead: micros(150),
                interface: Rate::mb(450),
                queue: 32,
                patience: Duration::from_millis(400),
                read_ahead: Bytes::mib(4),
                segments: 8,
            },
            band: Bytes::mib(32),
            plain: 10,
            media_cache: Bytes::gib(24),
            quiet: Duration::from_millis(500),
        }),
        write_cache: Some(Bytes::mib(64)),
        unflushed: Bytes::mib(64),
    }
}
