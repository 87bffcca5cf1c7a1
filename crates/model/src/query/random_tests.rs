//! Random queries against a plain evaluation of what was meant, on elements described without [`KeyValue`].

use super::{BlockSet, Query};
use crate::key::chance::Chance;
use crate::key::{KeySet, KeyValue};
use crate::time::Timestamp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NOW: Timestamp = Timestamp(1_795_262_400_000_000_000);
const SECOND: i64 = 1_000_000_000;

/// The keys, in the order of [`Element::values`].
fn keys() -> KeySet {
    KeySet::parse(["pcap", "id=u32le@8", "tag=bytes3@0"]).expect("these keys are sound")
}

/// An element as a person would describe it. Few different values, so that queries match.
#[derive(Debug, Clone)]
struct Element {
    seq: u64,
    time: i64,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    sport: Option<u64>,
    dport: Option<u64>,
    proto: Option<u64>,
    vlan: Option<u64>,
    id: u64,
    tag: [u8; 3],
}

fn random_address(chance: &mut Chance) -> IpAddr {
    let low = chance.below(6) as u8;
    if chance.one_in(3) {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(low)).into()
    } else {
        Ipv4Addr::new(10, 0, chance.below(2) as u8, low).into()
    }
}

fn random_tag(chance: &mut Chance) -> [u8; 3] {
    std::array::from_fn(|_| chance.pick(b"ab\0"))
}

impl Element {
    fn random(chance: &mut Chance) -> Element {
        let packet = !chance.one_in(8);
        let ports = packet && !chance.one_in(4);
        Element {
            seq: chance.below(20),
            time: NOW.0 - chance.below(20) as i64 * SECOND,
            src: packet.then(|| random_address(chance)),
            dst: packet.then(|| random_address(chance)),
            sport: ports.then(|| chance.below(8)),
            dport: ports.then(|| 65_528 + chance.below(8)),
            proto: packet.then(|| chance.pick(&[6, 17, 1, 58, 132, 0, 255])),
            vlan: chance.one_in(2).then(|| chance.below(4)),
            id: chance.pick(&[0, 1, 2, 255, 256, u64::from(u32::MAX)]),
            tag: random_tag(chance),
        }
    }

    /// The canonical values, made without the code under test as far as that goes.
    fn values(&self) -> Vec<KeyValue> {
        let of = |bytes: &[u8]| KeyValue::from_bytes(bytes).expect("at most 16 bytes");
        let address = |a: Option<IpAddr>| match a {
            Some(IpAddr::V4(a)) => of(&a.octets()),
            Some(IpAddr::V6(a)) => of(&a.octets()),
            None => KeyValue::MISSING,
        };
        let number = |n: Option<u64>, width: usize| match n {
            Some(n) => of(&n.to_be_bytes()[8 - width..]),
            None => KeyValue::MISSING,
        };
        vec![
            address(self.src),
            address(self.dst),
            number(self.sport, 2),
            number(self.dport, 2),
            number(self.proto, 1),
            number(self.vlan, 2),
            number(Some(self.id), 4),
            of(&self.tag),
        ]
    }
}

/// A query as a person would mean it.
#[derive(Debug)]
enum Meant {
    All,
    And(Vec<Meant>),
    Or(Vec<Meant>),
    Not(Box<Meant>),
    Number { name: &'static str, op: &'static str, values: Vec<(u64, u64)> },
    Address { name: &'static str, op: &'static str, values: Vec<Network> },
    Tag { op: &'static str, value: [u8; 3] },
    Time { op: &'static str, value: i64 },
}

#[derive(Debug, Clone, Copy)]
struct Network {
    address: IpAddr,
    prefix: Option<u8>,
}

const ORDER: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

fn compare<T: Ord>(a: T, op: &str, b: T) -> bool {
    match op {
        "=" => a == b,
        "!=" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        other => panic!("no operator {other}"),
    }
}

impl Meant {
    fn random(chance: &mut Chance, depth: u32) -> Meant {
        if depth > 0 && !chance.one_in(3) {
            let count = 1 + chance.below(3);
            let mut children = || (0..count).map(|_| Meant::random(chance, depth - 1)).collect();
            return match count {
                1 => Meant::Not(Box::new(Meant::random(chance, depth - 1))),
                2 => Meant::And(children()),
                _ => Meant::Or(children()),
            };
        }
        let op = chance.pick(&ORDER);
        match chance.below(12) {
            0 => Meant::All,
            1..=4 => {
                let (name, most) = chance.pick(&[
                    ("seq", u64::MAX),
                    ("sport", 65_535),
                    ("dport", 65_535),
                    ("port", 65_535),
                    ("vlan", 65_535),
                    ("id", u64::from(u32::MAX)),
                    ("proto", 255),
                ]);
                let value = |chance: &mut Chance| match chance.below(8) {
                    0 => most,
                    1 => most - chance.below(8).min(most),
                    2 => chance.pick(&[6, 17, 58, 132]),
                    _ => chance.below(8),
                };
                let op = if chance.one_in(3) { chance.pick(&["in", "not in"]) } else { op };
                let count = if op.ends_with("in") { 1 + chance.below(3) } else { 1 };
                let range = |chance: &mut Chance| {
                    let (a, b) = (value(chance), value(chance));
                    if op.ends_with("in") && chance.one_in(2) { (a.min(b), a.max(b)) } else { (a, a) }
                };
                Meant::Number { name, op, values: (0..count).map(|_| range(chance)).collect() }
            }
            5..=8 => {
                let name = chance.pick(&["src", "dst", "host", "net"]);
                let op = if chance.one_in(2) { chance.pick(&["in", "not in", "=", "!="]) } else { op };
                let count = if op.ends_with("in") { 1 + chance.below(3) } else { 1 };
                let network = |chance: &mut Chance| {
                    let address = random_address(chance);
                    let most = if address.is_ipv4() { 33 } else { 129 };
                    let prefix = !op.starts_with(['<', '>']) && chance.one_in(2);
                    Network { address, prefix: prefix.then(|| chance.below(most) as u8) }
                };
                Meant::Address { name, op, values: (0..count).map(|_| network(chance)).collect() }
            }
            9 => Meant::Tag { op, value: random_tag(chance) },
            _ => Meant::Time {
                op: if chance.one_in(2) { chance.pick(&["after", "before"]) } else { op },
                value: NOW.0 - chance.below(20) as i64 * SECOND,
            },
        }
    }

    fn holds(&self, e: &Element) -> bool {
        match self {
            Meant::All => true,
            Meant::And(children) => children.iter().all(|child| child.holds(e)),
            Meant::Or(children) => children.iter().any(|child| child.holds(e)),
            Meant::Not(child) => !child.holds(e),
            Meant::Number { name, op, values } => {
                let found = match *name {
                    "seq" => vec![Some(e.seq)],
                    "sport" => vec![e.sport],
                    "dport" => vec![e.dport],
                    "port" => vec![e.sport, e.dport],
                    "vlan" => vec![e.vlan],
                    "id" => vec![Some(e.id)],
                    _ => vec![e.proto],
                };
                either_way(op, found, |n, op| match op {
                    "in" => values.iter().any(|(low, high)| (low..=high).contains(&&n)),
                    _ => compare(n, op, values[0].0),
                })
            }
            Meant::Address { name, op, values } => {
                let found = match *name {
                    "src" => vec![e.src],
                    "dst" => vec![e.dst],
                    _ => vec![e.src, e.dst],
                };
                either_way(op, found, |a, op| match op {
                    "in" | "=" => values.iter().any(|network| network.contains(a)),
                    _ => a.is_ipv4() == values[0].address.is_ipv4() && compare(a, op, values[0].address),
                })
            }
            Meant::Tag { op, value } => compare(e.tag, op, *value),
            Meant::Time { op: "after", value } => e.time >= *value,
            Meant::Time { op: "before", value } => e.time < *value,
            Meant::Time { op, value } => compare(e.time, op, *value),
        }
    }

    /// One of the ways to write it.
    fn write(&self, chance: &mut Chance) -> String {
        let space = |chance: &mut Chance| chance.pick(&["", " "]);
        match self {
            Meant::All => chance.pick(&["*", "all", "ALL"]).to_string(),
            Meant::And(children) => join(children, &[" and ", "&&", " AND "], chance),
            Meant::Or(children) => join(children, &[" or ", " || ", " Or "], chance),
            Meant::Not(child) => format!("{}{}", chance.pick(&["not ", "!", "! "]), child.write_inner(chance)),
            Meant::Number { name, op, values } => {
                let values = values.iter().map(|&(low, high)| match (low, high) {
                    (6, 6) if *name == "proto" => "tcp".to_string(),
                    _ if low == high && chance.one_in(2) => format!("{low:#x}"),
                    _ if low == high => low.to_string(),
                    _ => format!("{low}{s}..{s}{high}", s = space(chance)),
                });
                let values: Vec<String> = values.collect();
                written(name, op, &values, chance)
            }
            Meant::Address { name, op, values } => {
                let values = values.iter().map(|network| match network.prefix {
                    Some(prefix) => format!("{}/{prefix}", network.address),
                    None => network.address.to_string(),
                });
                let values: Vec<String> = values.collect();
                written(name, op, &values, chance)
            }
            Meant::Tag { op, value } => {
                let hex: String = value.iter().map(|b| format!("{b:02x}")).collect();
                let escaped: String = value.iter().map(|b| format!("\\x{b:02x}")).collect();
                let value = if chance.one_in(2) { format!("0x{hex}") } else { format!("'{escaped}'") };
                written("tag", op, &[value], chance)
            }
            Meant::Time { op, value } => {
                let time = match chance.below(3) {
                    0 => Timestamp(*value).to_string(),
                    1 => format!("'{}'", Timestamp(*value)),
                    _ => format!("{}s ago", (NOW.0 - value) / SECOND),
                };
                if ORDER.contains(op) { written("time", op, &[time], chance) } else { format!("{op} {time}") }
            }
        }
    }

    fn write_inner(&self, chance: &mut Chance) -> String {
        let text = self.write(chance);
        let list = matches!(self, Meant::And(_) | Meant::Or(_));
        if list || chance.one_in(4) { format!("({text})") } else { text }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let shared = |a: &[u8], b: &[u8], bits: usize| {
            (0..bits).all(|bit| a[bit / 8] >> (7 - bit % 8) & 1 == b[bit / 8] >> (7 - bit % 8) & 1)
        };
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => shared(&a.octets(), &b.octets(), self.prefix.unwrap_or(32).into()),
            (IpAddr::V6(a), IpAddr::V6(b)) => shared(&a.octets(), &b.octets(), self.prefix.unwrap_or(128).into()),
            _ => false,
        }
    }
}

/// `!=` and `not in` say that no direction is equal or in; all others that one direction is so.
fn either_way<T: Copy>(op: &str, found: Vec<Option<T>>, test: impl Fn(T, &str) -> bool) -> bool {
    let any = |op: &str| found.iter().flatten().any(|value| test(*value, op));
    match op {
        "!=" => !any("="),
        "not in" => !any("in"),
        _ => any(op),
    }
}

fn join(children: &[Meant], between: &[&str], chance: &mut Chance) -> String {
    let mut text = children[0].write_inner(chance);
    for child in &children[1..] {
        text.push_str(chance.pick(between));
        text.push_str(&child.write_inner(chance));
    }
    text
}

fn written(name: &str, op: &str, values: &[String], chance: &mut Chance) -> String {
    let name = if chance.one_in(4) { name.to_uppercase() } else { name.to_string() };
    let values =
        if values.len() > 1 { format!("({})", values.join(chance.pick(&[",", ", "]))) } else { values[0].clone() };
    match op {
        "in" | "not in" => format!("{name} {op} {values}"),
        "=" if ["host", "port", "net"].contains(&name.as_str()) && chance.one_in(2) => format!("{name} {values}"),
        _ => {
            let op = if op == "!=" && chance.one_in(2) { "<>" } else { op };
            let space = chance.pick(&["", " "]);
            format!("{name}{space}{op}{space}{values}")
        }
    }
}

#[test]
fn queries_mean_what_was_meant() {
    let mut chance = Chance::for_test("queries_mean_what_was_meant");
    let keys = keys();
    let mut matched = 0;
    for _ in 0..4_000 {
        let meant = Meant::random(&mut chance, 4);
        let text = meant.write(&mut chance);
        let query = Query::parse(&text, &keys, NOW).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let printed = query.to_string();
        let again = Query::parse(&printed, &keys, Timestamp(0)).unwrap_or_else(|e| panic!("{text}\n{printed}\n{e}"));
        assert_eq!(again, query, "{text}\n{printed}");
        let ((first, last), (low, high)) = (query.time_range(), query.seq_range());
        for _ in 0..30 {
            let element = Element::random(&mut chance);
            let (time, values) = (Timestamp(element.time), element.values());
            let found = query.matches(element.seq, time, &values);
            assert_eq!(found, meant.holds(&element), "{text}\n{element:?}");
            if found {
                matched += 1;
                assert!(first <= time && time <= last, "{text}\n{element:?}");
                assert!((low..=high).contains(&element.seq), "{text}\n{element:?}");
            }
            // Keys that are not used do not matter, and without any only `needs_keys` may change the answer.
            let used = query.keys_used();
            let masked: Vec<KeyValue> = values
                .iter()
                .enumerate()
                .map(|(i, v)| if used >> i & 1 == 1 { *v } else { KeyValue::unsigned(chance.below(256), 1) })
                .collect();
            assert_eq!(query.matches(element.seq, time, &masked), found, "{text}\n{element:?}");
            assert!(query.needs_keys() || query.matches(element.seq, time, &[]) == found, "{text}\n{element:?}");
        }
    }
    assert!(matched > 10_000, "only {matched} elements matched");
}

#[test]
fn no_block_with_a_match_is_left_out() {
    let mut chance = Chance::for_test("no_block_with_a_match_is_left_out");
    let keys = keys();
    let (mut left_out, mut looked) = (0, 0);
    for _ in 0..1_500 {
        let meant = Meant::random(&mut chance, 3);
        let text = meant.write(&mut chance);
        let query = Query::parse(&text, &keys, NOW).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let blocks: Vec<Vec<Element>> = (0..chance.below(80))
            .map(|_| (0..chance.below(4)).map(|_| Element::random(&mut chance)).collect())
            .collect();
        let terms = query.terms();
        let knows = chance.below(4);
        let candidates = query.candidates(blocks.len(), &mut |term| {
            assert!(terms.contains(term), "{text} asks for {term:?}");
            if knows == 0 && chance.one_in(3) {
                return None;
            }
            looked += 1;
            let holds = |e: &Element| term.holds(e.values()[term.key()]);
            Some(blocks.iter().map(|elements| elements.iter().any(holds)).collect::<BlockSet>())
        });
        assert_eq!(candidates.len(), blocks.len());
        for (block, elements) in blocks.iter().enumerate() {
            let wanted = elements.iter().any(|e| meant.holds(e));
            assert!(!wanted || candidates.get(block), "{text} misses block {block}: {elements:?}");
            left_out += u32::from(!candidates.get(block));
        }
    }
    assert!(left_out > 1_000 && looked > 500, "the candidates left out only {left_out} after {looked} looks");
}

/// Reads a text; if it is a query, everything else must work on it as well.
fn try_all(text: &str, keys: &KeySet, chance: &mut Chance) -> bool {
    match Query::parse(text, keys, NOW) {
        Ok(query) => {
            let printed = query.to_string();
            let again = Query::parse(&printed, keys, NOW).unwrap_or_else(|e| panic!("{text:?}\n{printed}\n{e}"));
            assert_eq!(again, query, "{text:?}\n{printed}");
            let element = Element::random(chance);
            query.matches(element.seq, Timestamp(element.time), &element.values());
            query.candidates(5, &mut |_| None);
            true
        }
        Err(error) => {
            let lines: Vec<&str> = error.message.lines().collect();
            assert!(lines.len() == 3 && lines[2].contains('^'), "{text:?}\n{error}");
            false
        }
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let mut chance = Chance::for_test("no_text_makes_the_parser_panic");
    let keys = keys();
    for _ in 0..20_000 {
        let len = chance.below(40) as usize;
        let text = String::from_utf8_lossy(&chance.bytes(len)).into_owned();
        try_all(&text, &keys, &mut chance);
    }
    let pieces = [
        "src",
        "port",
        "host",
        "seq",
        "time",
        "tag",
        "id",
        "after",
        "before",
        "ago",
        "and",
        "or",
        "not",
        "in",
        "all",
        "now",
        "(",
        ")",
        "=",
        "!=",
        "<",
        ">",
        "!",
        "&&",
        "||",
        "*",
        ",",
        "..",
        "\"",
        "'",
        "\\",
        "/",
        ":",
        "10.0.0.1",
        "fe80::",
        "0x",
        "10m",
        "2026-11-21",
        "10:00:00Z",
        "@1",
        "18446744073709551615",
        " ",
        "\n",
        "\u{fc}",
        ".",
        "1e308s",
        "@-9e9",
    ];
    let mut sound = 0;
    for _ in 0..60_000 {
        let mut text = String::new();
        for _ in 0..chance.below(9) {
            text.push_str(chance.pick(&pieces));
            text.push_str(chance.pick(&["", " "]));
        }
        sound += u32::from(try_all(&text, &keys, &mut chance));
    }
    assert!(sound > 1_000, "only {sound} were queries");
}

#[test]
fn damaged_queries_are_read_or_refused() {
    let mut chance = Chance::for_test("damaged_queries_are_read_or_refused");
    let keys = keys();
    for _ in 0..8_000 {
        let mut text: Vec<char> = Meant::random(&mut chance, 3).write(&mut chance).chars().collect();
        for _ in 0..=chance.below(3) {
            let at = chance.below(text.len() as u64 + 1) as usize;
            let other =
                chance.pick(&['(', ')', '=', '<', '.', '/', '0', '9', ' ', '"', '\\', '!', ',', 'a', '-', '\u{2713}']);
            match chance.below(3) {
                0 => text.insert(at, other),
                1 if at < text.len() => text[at] = other,
                _ => {
                    text.truncate(at.max(1));
                }
            }
        }
        try_all(&text.into_iter().collect::<String>(), &keys, &mut chance);
    }
}
