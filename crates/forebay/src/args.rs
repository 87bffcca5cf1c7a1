//! Values that several commands take.

use clap::{Args, ValueEnum};
use forebay_model::key::KeySet;
use forebay_model::layout::Raid;
use forebay_model::ring::{Content, Overflow, PinPolicy, RingSpec};
use forebay_model::time::parse_span;
use forebay_model::{Bytes, Error, Rate, Result, TargetId, Timestamp};
use forebay_wire::control::volumes::Policy;
use std::time::Duration;

/// Reads `10s`, `500ms`, `1h30m`.
pub fn span(text: &str) -> Result<Duration> {
    parse_span(text).ok_or_else(|| {
        Error::usage(format!("'{text}' is not a length of time; write it like 500ms, 10s, 45m or 1h30m"))
    })
}

/// Reads `50` or `50%`.
fn percent(text: &str) -> Result<u8> {
    let digits = text.trim().trim_end_matches('%').trim_end();
    digits.parse().map_err(|_| Error::usage(format!("'{text}' is not a share in percent; write it like 50%")))
}

/// Reads a target's id as it is shown.
pub fn target(text: &str) -> Result<TargetId> {
    let id = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    id.map(TargetId).ok_or_else(|| {
        Error::usage(format!(
            "'{text}' is not a target's id: 32 hexadecimal digits, as `forebay target list` and `forebay check` show them"
        ))
    })
}

/// Reads who may do what with a file, as octal digits.
pub fn mode(text: &str) -> Result<u32> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| Error::usage(format!("'{text}' is not a mode; write it as up to four octal digits, like 640")))
}

/// Reads how files are kept.
pub fn raid(text: &str) -> Result<Raid> {
    match text {
        "0" => Ok(Raid::Zero),
        "1" => Ok(Raid::One(2)),
        "5" => Ok(Raid::Five),
        _ => Err(Error::usage(format!("'{text}' is not known; take 0, 1 or 5"))),
    }
}

/// How files are striped, where that is to be another way.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Files of a cluster on the network")]
pub struct StripingArgs {
    /// How files are kept: striped with nothing to spare (0), twice (1), or with parity (5)
    #[arg(long, value_name = "0|1|5", value_parser = raid)]
    raid: Option<Raid>,
    /// Over how many targets at most; 0: over all
    #[arg(long, value_name = "N")]
    targets: Option<u32>,
    /// What lies on one target before the next one has its turn, such as 64KiB
    #[arg(long, value_name = "SIZE")]
    unit: Option<Bytes>,
}

impl StripingArgs {
    /// Whether anything is said.
    pub fn is_any(&self) -> bool {
        self.raid.is_some() || self.targets.is_some() || self.unit.is_some()
    }

    /// Whether it is said over how many targets.
    pub fn is_wide_as_said(&self) -> bool {
        self.targets.is_some()
    }

    /// What is not said is as it was before.
    pub fn policy(&self, before: Policy) -> Policy {
        Policy {
            raid: self.raid.unwrap_or(before.raid),
            unit: self.unit.unwrap_or(before.unit),
            targets: self.targets.unwrap_or(before.targets),
        }
    }
}

/// Reads a time that may count from now.
pub fn time(text: &str, now: Timestamp) -> Result<Timestamp> {
    Timestamp::parse(text, now)
}

/// Reads what packets begin with: a name, or a number of the pcap registry.
fn link_type(text: &str) -> Result<u32> {
    match text {
        "ethernet" => Ok(1),
        "raw" | "ip" => Ok(101),
        "802.11" | "wlan" => Ok(105),
        "radiotap" => Ok(127),
        number => number.parse().map_err(|_| {
            Error::usage(format!(
                "'{number}' is not a link type; write ethernet, raw, 802.11, radiotap or a number of the pcap registry"
            ))
        }),
    }
}

/// What happens to a pin beyond the budget.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PinPolicyName {
    /// The pin is refused
    Refuse,
    /// The pin is taken and history shortens
    Shorten,
    /// The pin is taken, and recording stops when nothing is left to overwrite
    Stop,
}

impl From<PinPolicyName> for PinPolicy {
    fn from(name: PinPolicyName) -> PinPolicy {
        match name {
            PinPolicyName::Refuse => PinPolicy::Refuse,
            PinPolicyName::Shorten => PinPolicy::Shorten,
            PinPolicyName::Stop => PinPolicy::Stop,
        }
    }
}

/// What happens when the stream is faster than the ring can take it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OverflowName {
    /// The source waits
    Block,
    /// The newest elements are dropped, and a gap says so
    Drop,
}

impl From<OverflowName> for Overflow {
    fn from(name: OverflowName) -> Overflow {
        match name {
            OverflowName::Block => Overflow::Block,
            OverflowName::Drop => Overflow::DropNewest,
        }
    }
}

/// How a ring is created.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "The ring")]
pub struct RingArgs {
    /// Space to run round in, such as 10GiB
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,
    /// Promised write bandwidth, such as 72.5MB/s
    #[arg(long, value_name = "RATE")]
    pub guarantee: Option<Rate>,
    /// A key, such as src=pcap.src, id=u32le@8, tag=bytes4@0, or pcap for all of packets; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Share of the capacity that the keys' index may take; 8% for distinct keys of 20-byte elements
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub index_budget: Option<u8>,
    /// Unit of overwriting and pinning
    #[arg(long, value_name = "SIZE")]
    pub segment: Option<Bytes>,
    /// Largest block
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Bytes>,
    /// How long an element may stay in memory, which is what a power cut can cost
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub flush_interval: Option<Duration>,
    /// Share of the capacity that may be pinned
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub pin_budget: Option<u8>,
    /// What happens to a pin beyond the budget
    #[arg(long, value_name = "POLICY")]
    pub pin_policy: Option<PinPolicyName>,
    /// What happens when the stream is faster than the ring can take it: drop if nothing is said, but block while a file
    /// is recorded
    #[arg(long, value_name = "POLICY")]
    pub overflow: Option<OverflowName>,
    /// A ring whose data of the same time is pinned along; may be repeated
    #[arg(long = "relative", value_name = "RING")]
    pub relatives: Vec<String>,
    /// The elements are packets that begin like this: ethernet, raw, 802.11, radiotap or a number
    #[arg(long, value_name = "LINK", value_parser = link_type)]
    pub packets: Option<u32>,
}

impl RingArgs {
    /// The ring `name`, with `content` unless the arguments say otherwise, and with `keys` if they name none.
    pub fn spec(&self, name: &str, content: Content, keys: &[&str]) -> Result<RingSpec> {
        let Some(capacity) = self.capacity else {
            return Err(Error::usage(format!(
                "{name} needs a capacity: say --capacity 10GiB, or how much it may take"
            )));
        };
        let mut spec = RingSpec::new(name, capacity);
        spec.content = self.packets.map_or(content, Content::Packets);
        let keys: Vec<&str> =
            if self.keys.is_empty() { keys.to_vec() } else { self.keys.iter().map(String::as_str).collect() };
        spec.keys = KeySet::parse(keys)?.specs().iter().map(ToString::to_string).collect();
        spec.index_percent = self.index_budget.unwrap_or(spec.index_percent);
        spec.guarantee = self.guarantee.unwrap_or(spec.guarantee);
        spec.segment = self.segment.unwrap_or(spec.segment);
        spec.block = self.block.unwrap_or(spec.block);
        spec.flush_interval = self.flush_interval.unwrap_or(spec.flush_interval);
        spec.pin_budget_percent = self.pin_budget.unwrap_or(spec.pin_budget_percent);
        spec.pin_policy = self.pin_policy.map_or(spec.pin_policy, PinPolicy::from);
        spec.overflow = self.overflow.map_or(spec.overflow, Overflow::from);
        spec.relatives.clone_from(&self.relatives);
        spec.check()?;
        Ok(spec)
    }

    /// Checks that a ring which is there already is as was asked for: it may be larger, and a target rounds its segments.
    pub fn check_as_given(&self, ring: &RingSpec) -> Result<()> {
        let keys = |keys: &[String]| KeySet::parse(keys).map(|keys| keys.to_string());
        let policy = self.pin_policy.map(PinPolicy::from);
        let link = |content| if let Content::Packets(link) = content { link.to_string() } else { String::new() };
        let other = [
            ("--capacity", self.capacity.is_some_and(|asked| asked > ring.capacity), ring.capacity.to_string()),
            ("--guarantee", self.guarantee.is_some_and(|asked| asked != ring.guarantee), ring.guarantee.to_string()),
            ("--key", !self.keys.is_empty() && keys(&self.keys)? != keys(&ring.keys)?, ring.keys.join(", ")),
            (
                "--index-budget",
                self.index_budget.is_some_and(|asked| asked != ring.index_percent),
                format!("{} %", ring.index_percent),
            ),
            ("--block", self.block.is_some_and(|asked| asked != ring.block), ring.block.to_string()),
            (
                "--flush-interval",
                self.flush_interval.is_some_and(|asked| asked != ring.flush_interval),
                format!("{:?}", ring.flush_interval),
            ),
            (
                "--pin-budget",
                self.pin_budget.is_some_and(|asked| asked != ring.pin_budget_percent),
                format!("{} %", ring.pin_budget_percent),
            ),
            (
                "--pin-policy",
                policy.is_some_and(|asked| asked != ring.pin_policy),
                format!("{:?}", ring.pin_policy).to_lowercase(),
            ),
            (
                "--packets",
                self.packets.is_some_and(|asked| Content::Packets(asked) != ring.content),
                link(ring.content),
            ),
            ("--relative", !self.relatives.is_empty() && self.relatives != ring.relatives, ring.relatives.join(", ")),
        ];
        match other.into_iter().find(|(_, differs, _)| *differs) {
            Some((option, _, has)) => Err(Error::exists(format!(
                "{} is there already, and {option} was another one when it was created: it has {has}, and nothing was \
                 recorded; leave {option} out to record into it as it is, or take another name",
                ring.name,
                has = if has.is_empty() { "none" } else { &has }
            ))),
            None => Ok(()),
        }
    }

    /// The first option that was given and has a meaning only when a ring is created.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--capacity", self.capacity.is_some()),
            ("--guarantee", self.guarantee.is_some()),
            ("--key", !self.keys.is_empty()),
            ("--index-budget", self.index_budget.is_some()),
            ("--segment", self.segment.is_some()),
            ("--block", self.block.is_some()),
            ("--flush-interval", self.flush_interval.is_some()),
            ("--pin-budget", self.pin_budget.is_some()),
            ("--pin-policy", self.pin_policy.is_some()),
            ("--relative", !self.relatives.is_empty()),
            ("--packets", self.packets.is_some()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}
