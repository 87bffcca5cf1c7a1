use super::{BlockSet, Query, Term};
use crate::error::Kind;
use crate::key::{KeySet, KeyValue};
use crate::time::Timestamp;
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

/// 2026-11-21T12:00:00Z.
const NOW: Timestamp = Timestamp(1_795_262_400_000_000_000);

fn keys() -> KeySet {
    KeySet::parse(["pcap", "id=u32le@8", "tag=bytes4@0", "user=caller.u64"]).expect("these keys are sound")
}

fn query(text: &str) -> Query {
    Query::parse(text, &keys(), NOW).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refusal(text: &str) -> String {
    let error = Query::parse(text, &keys(), NOW).expect_err(text);
    assert_eq!(error.kind, Kind::Usage);
    error.message
}

fn address(text: &str) -> KeyValue {
    KeyValue::address(text.parse::<IpAddr>().expect("an address"))
}

fn minutes_ago(minutes: u64) -> Timestamp {
    NOW.before(Duration::from_secs(60 * minutes))
}

/// A DNS question from 10.0.0.1 to 192.168.1.254, without VLAN.
fn dns() -> [KeyValue; 9] {
    [
        address("10.0.0.1"),
        address("192.168.1.254"),
        KeyValue::unsigned(50_000, 2),
        KeyValue::unsigned(53, 2),
        KeyValue::unsigned(17, 1),
        KeyValue::MISSING,
        KeyValue::unsigned(7, 4),
        KeyValue::four(*b"abcd"),
        KeyValue::unsigned(1 << 40, 8),
    ]
}

#[test]
fn a_dns_question_is_found_by_what_it_is() {
    for text in [
        "",
        "  ",
        "*",
        "all",
        "ALL and *",
        "src=10.0.0.1",
        "src == 10.0.0.1 AND dst=192.168.1.254",
        "src in 10.0.0.0/8",
        "src=10.0.0.0/8",
        "src in (10.0.0.0/31, fe80::/10)",
        "src in 10.0.0.0..10.0.0.9",
        "src not in 11.0.0.0/8",
        "src != 10.0.0.2 && src!=::1",
        "host=10.0.0.1",
        "host 192.168.1.254",
        "host 10.0.0.0/8",
        "net 192.168.0.0/16",
        "NET=10.0.0.0/8",
        "net in 10.0.0.0/8",
        "port=53",
        "port 50000",
        "port in (22, 53)",
        "port in 50..60",
        "not port = 80",
        "port != 80",
        "not port=80 and not port=443",
        "sport >= 50000 and sport <= 50000",
        "sport > 49999 and dport < 54",
        "proto=udp",
        "PROTO = UDP",
        "proto=17",
        "proto in (tcp, udp)",
        "not vlan = 5",
        "vlan != 5",
        "not vlan >= 0",
        "id = 7",
        "id=0x7",
        "id <> 8",
        "tag = \"abcd\"",
        "tag='abcd'",
        "tag=0x61626364",
        "tag > \"abcc\"",
        "user = 1099511627776",
        "seq = 100",
        "seq in 100..100",
        "seq >= 100 and seq <= 100",
        "seq > 99 || seq < 0",
        "after 45m ago",
        "after 1h 30m ago and before now",
        "AFTER 45M AGO",
        "after 2026-11-21T11:00:00Z and before 2026-11-21T12:00:00Z",
        "after 2026-11-21 11:00:00Z",
        "after \"2026-11-21 11:00:00Z\"",
        "after 2026-11-21T13:00:00+02:00",
        "after @1795258800",
        "time > 1h ago and time < 1s ago",
        "time in 31m ago..29m ago",
        "time = 30m ago",
        "time != 31m ago",
        "src=10.0.0.1 and (port=53 or not proto=udp) and after 45m ago and before 2026-11-21T12:00:00Z",
        "!(src=10.0.0.2)",
        "not not src=10.0.0.1",
        "src=1.1.1.1 or dst=1.1.1.1 or port=53",
        "src=10.0.0.1 or src=1.1.1.1 and dport=80",
        "SRC=10.0.0.1\n  and dport=53",
    ] {
        assert!(query(text).matches(100, minutes_ago(30), &dns()), "{text}");
    }
}

#[test]
fn a_dns_question_is_not_found_by_what_it_is_not() {
    for text in [
        "not all",
        "src=10.0.0.2",
        "src=::a00:1",
        "src in 11.0.0.0/8",
        "src in ::/0",
        "src < 10.0.0.1",
        "src > 10.0.0.1",
        "host != 10.0.0.1",
        "not host 192.168.1.254",
        "port != 53",
        "port=80",
        "port < 53",
        "vlan = 0",
        "vlan >= 0",
        "vlan != 5 and vlan >= 0",
        "proto=tcp",
        "tag=\"abc\"",
        "id < 0",
        "id > 4294967295",
        "seq < 100",
        "seq > 100",
        "after 29m ago",
        "before 30m ago",
        "src=10.0.0.1 and after 29m ago",
        "(src=1.1.1.1 or src=10.0.0.1) and dport=80",
    ] {
        assert!(!query(text).matches(100, minutes_ago(30), &dns()), "{text}");
    }
}

#[test]
fn windows_that_meet_share_no_element() {
    let (early, late) = (query("after 2h ago and before 1h ago"), query("after 1h ago and before now"));
    for minutes in 1..120 {
        let time = minutes_ago(minutes);
        assert!(early.matches(0, time, &[]) != late.matches(0, time, &[]), "{minutes} minutes ago");
    }
}

#[test]
fn a_printed_query_reads_back_at_any_later_time() {
    for (text, printed) in [
        ("", "all"),
        ("not *", "not all"),
        ("port 53", "(sport = 53 or dport = 53)"),
        ("not port=53", "not (sport = 53 or dport = 53)"),
        ("src=10.1.2.3/8", "src in 10.0.0.0/8"),
        ("src!=10.0.0.1", "not src = 10.0.0.1"),
        ("src>1.1.1.1", "src >= 1.1.1.2"),
        ("src in ::1..::4", "src in ::1..::4"),
        ("tag='a\"b'", "tag = \"a\\\"b\""),
        ("tag<'b'", "tag <= 0x61ffffff"),
        ("proto=6 or proto=200", "proto = tcp or proto = 200"),
        ("after 1h ago", "after 2026-11-21T11:00:00Z"),
        ("time <= 1h ago", "before 2026-11-21T11:00:00.000000001Z"),
        ("time in 1h ago..now", "time in 2026-11-21T11:00:00Z..2026-11-21T12:00:00Z"),
        (
            "id=1 and (id=2 and all) and !(id=3 or (id=4 or id=5))",
            "id = 1 and id = 2 and not (id = 3 or id = 4 or id = 5)",
        ),
        ("seq>5 or seq<=3 and seq in 1..2", "seq >= 6 or (seq <= 3 and seq in 1..2)"),
    ] {
        let first = query(text);
        // A list at the root needs no parentheses.
        let expected = match printed.strip_prefix('(').and_then(|p| p.strip_suffix(')')) {
            Some(inner) => inner,
            None => printed,
        };
        assert_eq!(first.to_string(), expected, "{text}");
        let later = NOW.after(Duration::from_secs(86_400));
        assert_eq!(Query::parse(&first.to_string(), &keys(), later), Ok(first), "{text}");
    }
}

#[test]
fn a_refusal_shows_the_place() {
    assert_eq!(
        refusal("sorc=10.0.0.1 and port=53"),
        "unknown key 'sorc'; this ring has src, dst, sport, dport, proto, vlan, id, tag, user; did you mean 'src'?\n  \
         sorc=10.0.0.1 and port=53\n  ^^^^"
    );
    assert_eq!(
        refusal("port=53 and src=10.0.0.256"),
        "'10.0.0.256' is not an address; write it like 10.0.0.1 or fe80::1\n  port=53 and src=10.0.0.256\n                  ^^^^^^^^^^"
    );
    // Only the line that holds the place is shown.
    let lines = refusal("port=53\n\tand port=70000 and\nport=1");
    assert_eq!(
        lines,
        "70000 does not fit a key of 2 bytes; its values are 0 to 65535\n   and port=70000 and\n            ^^^^^"
    );
}

#[test]
fn a_long_query_is_shown_around_the_place() {
    let text = format!("{}id=x{}", "id=1 or ".repeat(100), " or id=2".repeat(100));
    let message = refusal(&text);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].len() < 120 && lines[1].contains("...") && lines[1].ends_with("..."), "{message}");
    let caret = lines[2].find('^').expect("a caret");
    assert_eq!(&lines[1][caret..=caret], "x");
}

#[test]
fn each_mistake_is_named() {
    for (text, place, sentence) in [
        ("src", "", "one of = != < <= > >= in should follow 'src'"),
        ("src=", "", "a value of 'src' should stand here"),
        ("src=and", "and", "is not an address"),
        ("src 10.0.0.1", "10.0.0.1", "should follow 'src'"),
        ("port", "", "should follow 'port'"),
        ("src=10.0.0.1 dst=10.0.0.2", "dst", "'and' or 'or' is missing"),
        ("src=10.0.0.1 and", "", "the query ends where a comparison"),
        ("and src=10.0.0.1", "and", "should stand before 'and'"),
        ("(src=10.0.0.1", "(", "this '(' is not closed"),
        ("src=10.0.0.1)", ")", "this ')' closes nothing"),
        ("(src=10.0.0.1 dst=1.1.1.1)", "dst", "'and', 'or' or ')' is missing"),
        ("()", ")", "a comparison such as"),
        ("* src=1.1.1.1", "src", "write 'and'"),
        ("src=10.0.0.1 & id=1", "&", "write 'and' or 'or'"),
        ("tag=\"abc", "\"abc", "not closed"),
        ("tag=abcd", "abcd", "\"abcd\" in quotes"),
        ("tag=\"abcde\"", "\"abcde\"", "has 5 bytes"),
        ("id=\u{fc}", "\u{fc}", "not expected here"),
        ("id=-1", "-1", "not a number"),
        ("id=4294967296", "4294967296", "0 to 4294967295"),
        ("id in 5..4", "5..4", "backwards"),
        ("id in (1, 2", "", "',' or ')' is missing"),
        ("id in (1 2)", "2", "',' or ')' is missing"),
        ("id < (1, 2)", "(1, 2)", "only one value can be less or greater"),
        ("id < 1..2", "1..2", "use 'in' for a range"),
        ("src > 10.0.0.0/8", "10.0.0.0/8", "use 'in' for a range"),
        ("src in 10.0.0.1..::1", "10.0.0.1..::1", "or both IPv6"),
        ("src in 10.0.0.0/8..11.0.0.0", "10.0.0.0/8..11.0.0.0", "not from or to a network"),
        ("src in 10.0.0.0/33", "10.0.0.0/33", "/0 to /32"),
        ("src in 10.0.0/24", "10.0.0/24", "is not an address"),
        ("id in 1/2", "1/2", "not a number"),
        ("proto=tpc", "tpc", "is not a protocol"),
        ("tcp and port=53", "tcp", "write proto=tcp"),
        ("prot=tcp", "prot", "did you mean"),
        ("afer 10m ago", "afer", "did you mean 'after'"),
        ("hots=1.1.1.1", "hots", "did you mean 'host'"),
        ("completely=1", "completely", "this ring has src"),
        ("after", "", "a time should stand here"),
        ("after yesterday", "yesterday", "is not a time"),
        ("after 10m", "10m", "'10m ago'"),
        ("after 2026-02-30T00:00:00Z", "2026-02-30T00:00:00Z", "is not a time"),
        ("after 10x ago", "10x ago", "is not a time"),
        ("after=10m ago", "=", "a time should stand here"),
        ("seq=x", "x", "a sequence number from 0"),
        ("seq in 2..1", "2..1", "backwards"),
        ("time in now..10m ago", "now..10m ago", "backwards"),
        ("1=1", "1", "unknown key '1'"),
        ("= 5", "=", "a comparison such as"),
        ("not", "", "the query ends"),
        ("src not 10.0.0.1", "not", "should follow 'src'"),
    ] {
        let message = refusal(text);
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines.len() == 3 && lines[0].contains(sentence), "{text}: {message}");
        let start = lines[2].find('^').expect("a caret");
        let carets = lines[2].trim().len();
        let shown: String = lines[1].chars().skip(start).take(carets).collect();
        assert_eq!(shown, place, "{message}");
    }
}

#[test]
fn words_for_both_directions_need_both_keys() {
    let one = KeySet::parse(["src=pcap.src"]).expect("a sound key");
    let error = Query::parse("host=10.0.0.1", &one, NOW).expect_err("there is no dst");
    assert!(error.message.contains("'host' looks at keys src and dst, but this ring has src"), "{error}");
    let none = Query::parse("id=1", &KeySet::none(), NOW).expect_err("there are no keys");
    assert!(none.message.contains("no keys, only seq and time"), "{none}");
    // A key plays its part by where it comes from, or by its name.
    let named = KeySet::parse(["client=pcap.src", "dst=bytes4@4"]).expect("sound keys");
    let query = Query::parse("host=10.0.0.1", &named, NOW).expect("both directions are there");
    assert_eq!(query.to_string(), "client = 10.0.0.1 or dst = 0x0a000001");
}

#[test]
fn length_and_depth_are_bounded() {
    let long = "id=1 or ".repeat(9000);
    let message = refusal(&long);
    assert!(message.contains("72000 bytes") && message.contains("65536"), "{message}");
    let depth = |n: usize| format!("{}id=1{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(query(&depth(super::parser::MAX_DEPTH)).to_string(), "id = 1");
    assert!(refusal(&depth(super::parser::MAX_DEPTH + 1)).contains("nested 64 deep"));
    assert!(refusal(&"!(".repeat(30_000)).contains("nested 64 deep"));
    assert_eq!(query(&format!("{}id=1", "not ".repeat(16_001))).to_string(), "not id = 1");
    // The longest list that fits is read, printed and evaluated.
    let list: Vec<String> = (0..10_000).map(|i| i.to_string()).collect();
    let big = query(&format!("id in ({})", list.join(",")));
    assert!(big.matches(0, NOW, &dns()));
    assert_eq!(big.terms().len(), 10_000);
}

#[test]
fn bounds_of_time_and_sequence_follow_the_logic() {
    let day = |h: u64| Timestamp(1_795_219_200_000_000_000).after(Duration::from_secs(3600 * h));
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    let just_before = |t: Timestamp| Timestamp(t.0 - 1);
    for (text, low, high) in [
        ("", first, last),
        ("src=1.1.1.1", first, last),
        ("after 2026-11-21T01:00:00Z", day(1), last),
        ("not after 2026-11-21T01:00:00Z", first, just_before(day(1))),
        ("after 2026-11-21T01:00:00Z and before 2026-11-21T02:00:00Z and id=1", day(1), just_before(day(2))),
        ("not (before 2026-11-21T01:00:00Z or not before 2026-11-21T02:00:00Z)", day(1), just_before(day(2))),
        ("time = 2026-11-21T01:00:00Z or time = 2026-11-21T05:00:00Z", day(1), day(5)),
        ("after 2026-11-21T01:00:00Z or id=1", first, last),
        ("not time = 2026-11-21T01:00:00Z", first, last),
        ("after 2026-11-21T02:00:00Z and before 2026-11-21T01:00:00Z", last, first),
        ("not all", last, first),
    ] {
        assert_eq!(query(text).time_range(), (low, high), "{text}");
    }
    for (text, low, high) in [
        ("seq >= 100 and seq < 200", 100, 199),
        ("seq in (5, 10..20, 7)", 5, 20),
        ("not seq < 100", 100, u64::MAX),
        ("seq > 18446744073709551615", u64::MAX, 0),
        ("after 1h ago", 0, u64::MAX),
    ] {
        assert_eq!(query(text).seq_range(), (low, high), "{text}");
    }
}

#[test]
fn a_query_says_whether_it_looks_at_sequence_numbers_also_where_its_bounds_have_all_of_them() {
    for text in ["seq != 7", "not seq in 5..10", "seq < 5 or seq > 9", "seq >= 100", "id=5 and not (seq = 1 or id=6)"] {
        assert!(query(text).uses_seq(), "{text}");
    }
    for text in ["", "after 1h ago", "not all", "port=53 and not (id=5 or after 1h ago)"] {
        assert!(!query(text).uses_seq(), "{text}");
    }
}

#[test]
fn a_query_says_which_keys_it_needs() {
    assert!(!query("after 1h ago and seq > 5").needs_keys());
    assert_eq!(query("src=1.1.1.1 and not (id=5 or after 1h ago)").keys_used(), 1 | 1 << 6);
    assert_eq!(query("port=53").keys_used(), 1 << 2 | 1 << 3);
}

#[test]
fn terms_are_what_an_index_can_answer() {
    let terms = query("src=10.0.0.1 and (dst in 10.0.0.0/24 or id<5) and not sport=53 and src=10.0.0.1").terms();
    let expected = [
        Term::Equals { key: 0, value: address("10.0.0.1") },
        Term::Range { key: 1, low: address("10.0.0.0"), high: address("10.0.0.255") },
        Term::Range { key: 6, low: KeyValue::unsigned(0, 4), high: KeyValue::unsigned(4, 4) },
    ];
    assert_eq!(terms, expected);
    // Two negations take each other back.
    assert_eq!(query("not (not src=10.0.0.1 or id=1)").terms(), expected[..1]);
}

#[test]
fn candidates_are_narrowed_by_and_widened_by_or_and_not() {
    let blocks = 10;
    let set = |from: &[usize]| {
        let mut set = BlockSet::none(blocks);
        from.iter().for_each(|block| set.set(*block));
        set
    };
    // id=N occurs in blocks N and N + 1; nothing is known of src.
    let ask = |text: &str| {
        query(text).candidates(blocks, &mut |term| match *term {
            Term::Equals { value, .. } if term.key() == 6 => {
                let n = value.as_unsigned().expect("a number") as usize;
                Some(set(&[n, n + 1]))
            }
            _ => None,
        })
    };
    assert_eq!(ask("id=3"), set(&[3, 4]));
    assert_eq!(ask("id=3 and id=4"), set(&[4]));
    assert_eq!(ask("id=3 and id=5"), set(&[]));
    assert_eq!(ask("id=3 or id=5"), set(&[3, 4, 5, 6]));
    assert_eq!(ask("id=3 and src=1.1.1.1"), set(&[3, 4]));
    assert_eq!(ask("id=3 or src=1.1.1.1"), BlockSet::all(blocks));
    assert_eq!(ask("id=3 and not id=4"), set(&[3, 4]));
    assert_eq!(ask("not (not id=3 or id=1)"), set(&[3, 4]));
    assert_eq!(ask("not id=3"), BlockSet::all(blocks));
    assert_eq!(ask("id=3 and after 1h ago"), set(&[3, 4]));
    assert_eq!(ask(""), BlockSet::all(blocks));
    assert_eq!(ask("not all"), BlockSet::none(blocks));
}

#[test]
fn a_block_set_is_a_set() {
    for len in [0, 1, 63, 64, 65, 130] {
        let all = BlockSet::all(len);
        assert_eq!((all.count(), all.len()), (len, len));
        assert_eq!(all.iter().collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
        assert!(BlockSet::none(len).is_empty() && !all.get(len));
        let even: BlockSet = (0..len).map(|block| block % 2 == 0).collect();
        let third: BlockSet = (0..len).map(|block| block % 3 == 0).collect();
        let (mut both, mut either) = (even.clone(), even.clone());
        both.and(&third);
        either.or(&third);
        assert!(both.iter().eq((0..len).filter(|b| b % 6 == 0)));
        assert!(either.iter().eq((0..len).filter(|b| b % 2 == 0 || b % 3 == 0)));
        let mut cleared = all.clone();
        (0..len).filter(|block| block % 2 == 1).for_each(|block| cleared.clear(block));
        assert_eq!(cleared, even);
    }
}

#[test]
fn the_examples_of_the_manual_are_queries() {
    let manual = include_str!("../../../../docs/query.md");
    let examples = manual.split("## Examples").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("examples");
    let texts: Vec<&str> = examples
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .collect();
    assert!(texts.len() > 10, "{texts:?}");
    for text in texts {
        let printed = query(text).to_string();
        assert_eq!(query(&printed), query(text), "{text}");
    }
}

#[test]
fn a_long_list_is_one_test_and_asks_for_the_same_as_its_parts() {
    let keys = KeySet::parse(["a=u16le@0", "b=u16le@2"]).unwrap();
    let asked: Vec<u16> = (0..4000).map(|n| n * 13 % 50_021).collect();
    let list: Vec<String> = asked.iter().map(u16::to_string).collect();
    let text = format!("(a in ({}) or a in 60000..60007 or a in 60005..60010) and b = 1", list.join(","));
    let query = Query::parse(&text, &keys, Timestamp(0)).unwrap();
    let none = Query::parse(&format!("not ({text})"), &keys, Timestamp(0)).unwrap();
    assert_eq!((query.tests(), none.tests()), (2, 2));
    let asked: HashSet<u16> = asked.into_iter().chain(60_000..=60_010).collect();
    let mut values = [KeyValue::MISSING; 2];
    for a in 0..=u16::MAX {
        for b in [0, 1] {
            keys.extract(&[a.to_le_bytes(), u16::to_le_bytes(b)].concat(), &[], &mut values);
            let wanted = asked.contains(&a) && b == 1;
            assert_eq!(query.matches(0, Timestamp(0), &values), wanted, "a={a} b={b}");
            assert_eq!(none.matches(0, Timestamp(0), &values), !wanted, "not: a={a} b={b}");
        }
    }
    assert_eq!(query.terms().len(), 4000 + 2 + 1, "each once");
}
