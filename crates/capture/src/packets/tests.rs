//! Captures that somebody damaged: whatever the damage, reading ends, in bounded memory, with a sentence or without.

use super::{PacketReader, Step};
use crate::testing::{Dice, ManualClock, Stutter, seed};
use crate::{pcap, pcapng};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Cause, Gap, Timestamp};
use std::io::Cursor;

fn samples(dice: &mut Dice) -> [Vec<u8>; 2] {
    let mut pcap = pcap::Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    let mut pcapng = pcapng::Writer::new(Vec::new(), LinkType::ETHERNET, Some("x")).unwrap();
    for i in 0..12 {
        let length = [0, 3, 60, 700][dice.below(4)];
        let data = dice.bytes(length);
        let time = Timestamp(1_700_000_000_000_000_000 + i);
        pcap.packet(time, &[&data]).unwrap().unwrap();
        if dice.below(3) == 0 {
            let cause = Cause::ALL[dice.below(Cause::ALL.len())];
            pcapng.gap(Gap { cause, count: Some(dice.next() % 100), first: time, last: time });
        }
        pcapng.packet(time, &[&data]).unwrap().unwrap();
    }
    [pcap.finish().unwrap(), pcapng.finish().unwrap()]
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    const NUMBERS: [u32; 8] = [0, 1, 4, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, 0xffff_ffff, 262_145];
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len().max(1)).min(bytes.len().saturating_sub(4));
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at + 4 <= bytes.len() => {
                let aligned = at / 4 * 4;
                let number = NUMBERS[dice.below(NUMBERS.len())];
                bytes[aligned..aligned + 4].copy_from_slice(&number.to_le_bytes());
            }
            2 => bytes.truncate(at),
            3 => {
                let inserted = dice.below(40);
                let inserted = dice.bytes(inserted);
                bytes.splice(at..at, inserted);
            }
            4 => {
                let end = (at + dice.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + dice.below(200)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
}

#[test]
fn damaged_captures_end_in_a_sentence_or_in_packets_but_never_in_a_panic() {
    let first = seed();
    for round in 0..4000 {
        let mut dice = Dice(first.wrapping_add(round));
        let [pcap, pcapng] = samples(&mut dice);
        let mut bytes = if round % 2 == 0 { pcap } else { pcapng };
        damage(&mut bytes, &mut dice);
        let size = bytes.len();
        let mut reader = if dice.below(8) == 0 {
            PacketReader::new(Stutter::pieces(&bytes, 1 + dice.below(50), &ManualClock::new()), Bytes::mib(1))
        } else {
            PacketReader::new(Box::new(Cursor::new(bytes)), Bytes::mib(1))
        };
        let (mut got, mut steps) = (0, 0);
        let ended = loop {
            steps += 1;
            assert!(steps < 100_000, "round {round} does not end");
            match reader.step() {
                Ok(Step::Packet(packet)) => got += packet.data.len(),
                Ok(Step::End) => break Ok(()),
                Ok(_) => {}
                Err(e) => break Err(e),
            }
        };
        assert!(got <= size, "round {round}: {got} bytes out of {size}");
        if let Err(e) = ended {
            assert!(!e.message.is_empty() && !e.message.contains('\n'), "round {round}: {e}");
            assert!(reader.step().is_err() || got <= size, "round {round}");
        }
    }
}
