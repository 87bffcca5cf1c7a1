use super::*;

fn intent() -> Intent {
    let place = |component, at| Place { component, at: Bytes(at) };
    let redo =
        |component, at, bytes: &'static [u8]| Redo { place: place(component, at), bytes: Slice::from_static(bytes) };
    Intent {
        stripe: StripeId(9),
        cut: Some(Bytes(77)),
        writes: vec![redo(3, 65536, b"new bytes"), redo(4, 0, b""), redo(0, 12, b"parity")],
        agree: vec![Extent { place: place(2, 4096), length: Bytes(10) }],
    }
}

fn read(bytes: &[u8]) -> Option<(u64, Intent, usize)> {
    decode(&Slice::copy_from_slice(bytes))
}

#[test]
fn a_record_reads_as_it_was_written_and_what_was_changed_is_none() {
    let mut record = encode(5, &intent()).expect("it fits");
    assert_eq!(record.len(), GRAIN);
    assert_eq!(read(&record), Some((5, intent(), GRAIN)));
    let filled = record.iter().rposition(|byte| *byte != 0).expect("it is not empty") + 1;
    for bit in 0..filled * 8 {
        record[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&record), None, "bit {bit}");
        record[bit / 8] ^= 1 << (bit % 8);
    }
    for length in 0..filled {
        assert_eq!(read(&record[..length]), None);
    }
    assert_eq!(read(&[0; 4096]), None);
}

#[test]
fn the_bytes_of_a_record_are_frozen() {
    let record = encode(5, &intent()).expect("it fits");
    let hex: String = record[..64].iter().map(|byte| format!("{byte:02x}")).collect();
    let frozen = "4642494e010000002800000091adfc88150000000509014d030380800409040000000c060102\
                  80200a6e65772062797465737061726974790000000000000000";
    assert_eq!(hex, frozen);
}
