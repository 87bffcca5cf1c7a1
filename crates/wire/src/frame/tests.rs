#![allow(clippy::disallowed_methods)]

use super::*;
use forebay_model::Kind;

fn head() -> Head {
    Head {
        request: RequestId(0x0102_0304_0506_0708),
        command: Command(0x1122),
        flags: Flags::RESPONSE.and(Flags::END),
        credit: 0x00c0_ffee,
        body: 5,
        payload: 9,
        body_checksum: 0xaabb_ccdd,
        payload_checksum: 0x1234_5678,
    }
}

/// The same bytes with another value at `offset`, under a checksum that holds.
fn forged(offset: usize, value: &[u8]) -> [u8; HEADER] {
    let mut bytes = head().encode();
    bytes[offset..offset + value.len()].copy_from_slice(value);
    let checksum = crc32c(&bytes[..HEADER - 4]);
    bytes[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn refusal(bytes: &[u8; HEADER]) -> Error {
    Head::decode(bytes, Limits::SESSION).expect_err("it must be refused")
}

#[test]
fn a_header_reads_as_it_was_written() {
    assert_eq!(Head::decode(&head().encode(), Limits::SESSION), Ok(head()));
}

#[test]
fn the_bytes_of_a_header_are_frozen() {
    let hex: String = head().encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let frozen = "46424159010022110807060504030201050000000500000009000000ddccbbaa78563412\
                  eeffc000000000000000000000000000000000000000000078a57e84";
    assert_eq!(hex, frozen);
}

#[test]
fn the_checksum_is_castagnoli() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn another_protocol_is_told_from_a_damaged_frame() {
    let mut http = [b' '; HEADER];
    http[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
    let error = refusal(&http);
    assert_eq!(error.kind, Kind::Damaged);
    assert!(error.message.contains("does not speak"), "{error}");
    let mut torn = head().encode();
    torn[40] = 1;
    assert!(refusal(&torn).message.contains("changed on its way"));
}

#[test]
fn what_a_later_version_may_add_is_refused_as_its_version() {
    for (offset, value) in [(4, &[2, 0][..]), (16, &[0, 1]), (40, &[1]), (18, &[1]), (59, &[1])] {
        assert_eq!(refusal(&forged(offset, value)).kind, Kind::Version, "offset {offset}");
    }
}

#[test]
fn lengths_beyond_the_bounds_are_refused_with_both_numbers() {
    for length in [MAX_PAYLOAD + 1, i32::MAX as u32, u32::MAX] {
        let error = refusal(&forged(24, &length.to_le_bytes()));
        assert_eq!(error.kind, Kind::Damaged);
        assert!(error.message.contains(&length.to_string()), "{error}");
        assert!(error.message.contains(&MAX_PAYLOAD.to_string()), "{error}");
    }
    for length in [MAX_BODY + 1, i32::MAX as u32, u32::MAX] {
        assert_eq!(refusal(&forged(20, &length.to_le_bytes())).kind, Kind::Damaged);
    }
    assert_eq!(refusal(&forged(20, &u64::MAX.to_le_bytes())).kind, Kind::Damaged);
    for (offset, length) in [(20, MAX_BODY), (24, MAX_PAYLOAD)] {
        assert!(Head::decode(&forged(offset, &length.to_le_bytes()), Limits::SESSION).is_ok());
    }
}

#[test]
fn a_stranger_may_send_little() {
    assert!(Head::decode(&head().encode(), Limits::HELLO).is_err(), "no payload before the handshake");
    let mut small = head();
    (small.payload, small.body) = (0, MAX_HELLO);
    assert_eq!(Head::decode(&small.encode(), Limits::HELLO), Ok(small));
    small.body += 1;
    assert!(Head::decode(&small.encode(), Limits::HELLO).is_err());
}

#[test]
fn flags_that_contradict_one_another_are_refused() {
    for flags in [Flags::ERROR, Flags::END.and(Flags::MORE), Flags::RESPONSE.and(Flags::SHOWN)] {
        let error = refusal(&Head { flags, ..head() }.encode());
        assert_eq!(error.kind, Kind::Damaged, "{flags:?}");
    }
}

/// The page shows what the code says. `UPDATE=1 cargo test -p forebay-wire` writes the table into the page.
#[test]
fn the_page_about_frames_shows_the_table_of_the_code() {
    const BEGIN: &str = "<!-- printed by the code: begin -->\n";
    const END: &str = "<!-- printed by the code: end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/frames.md");
    let page = std::fs::read_to_string(path).expect("docs/protocol/frames.md is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the table begins");
    let (shown, after) = rest.split_once(END).expect("the page marks where the table ends");
    let printed = byte_table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, [before, BEGIN, &printed, END, after].concat()).expect("the page can be written");
    } else {
        assert_eq!(shown, printed, "run UPDATE=1 cargo test -p forebay-wire");
    }
}

#[test]
fn the_table_leaves_no_byte_out() {
    let mut expected = 0;
    for line in byte_table().lines().skip(2).take(13) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let mut number = || cells.next().and_then(|cell| cell.parse::<usize>().ok()).expect("a number");
        assert_eq!(number(), expected, "{line}");
        expected += number();
    }
    assert_eq!(expected, HEADER);
}
