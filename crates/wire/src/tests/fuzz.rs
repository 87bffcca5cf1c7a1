//! What reads bytes that anybody may send: it never panics, takes memory for what came and not for what was announced, and what
//! it accepts says one thing only. Inputs are frames and bodies that are good, changed here and there under checksums that hold
//! (most of them), and bytes by chance.

mod bodies;
mod streams;

use super::seeds::Chance;

/// Numbers at which something ends, as bytes: alone, and as the lengths of postcard.
const EDGES: [&[u8]; 9] = [
    &[0],
    &[1],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0x80, 0],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
];

/// Changes something, a few times.
pub(crate) fn change(chance: &Chance, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + chance.below(3) {
        let at = chance.below(bytes.len() + 1);
        let to = (at + chance.below(12)).min(bytes.len());
        match chance.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            1 => drop(bytes.splice(at..to, chance.of(&EDGES).iter().copied())),
            2 => drop(bytes.splice(at..at, chance.of(&EDGES).iter().copied())),
            3 => drop(bytes.drain(at..to)),
            4 => bytes.truncate(at),
            5 => {
                let again = bytes[at..to].to_vec();
                drop(bytes.splice(at..at, again));
            }
            6 => {
                let from = chance.below(other.len() + 1);
                let until = (from + chance.below(40)).min(other.len());
                drop(bytes.splice(at..to, other[from..until].iter().copied()));
            }
            _ => drop(bytes.splice(at..to, chance.bytes(12))),
        }
    }
}
