//! Bytes as text: base64 (RFC 4648) with padding, which is in place of nothing else.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// Bytes as text.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| three.get(at).copied().unwrap_or(0);
        let bits = u32::from(byte(0)) << 16 | u32::from(byte(1)) << 8 | u32::from(byte(2));
        let digit = |at: usize| DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
        (0..4).for_each(|at| text.push(char::from(if at <= three.len() { digit(at) } else { PAD })));
    }
    text
}

/// The bytes of a text; `None` if it is none that [`encode`] makes.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (at, four) in text.chunks(4).enumerate() {
        let is_last = (at + 1) * 4 == text.len();
        let pads = four.iter().rev().take_while(|digit| **digit == PAD).count();
        if pads > 2 || pads > 0 && !is_last {
            return None;
        }
        let mut bits = 0;
        for digit in &four[..4 - pads] {
            bits = bits << 6 | value(*digit)?;
        }
        bits <<= 6 * pads;
        let three = &bits.to_be_bytes()[1..];
        let (here, behind) = three.split_at(3 - pads);
        if behind.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(here);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests;
