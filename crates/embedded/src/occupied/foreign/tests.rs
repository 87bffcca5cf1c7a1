use super::*;

fn head(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut head = vec![0; HEAD.0 as usize];
    for (at, bytes) in parts {
        head[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    head
}

fn what(parts: &[(usize, &[u8])]) -> Option<&'static str> {
    find(&head(parts)).map(|found| found.what)
}

#[test]
fn every_signature_is_found_in_its_place_and_nowhere_else() {
    for (name, at, bytes) in SIGNATURES {
        let mut head = head(&[(*at, bytes)]);
        assert_eq!(find(&head), Some(Found { what: name, at: *at }));
        // Another byte in it, and it is none.
        head[at + bytes.len() - 1] ^= 1;
        assert_eq!(find(&head), None, "{name}");
        // Nor is it one a byte further on, or cut off.
        assert_eq!(what(&[(at + 1, bytes)]), None, "{name}");
        assert_eq!(find(&self::head(&[(*at, bytes)])[..at + bytes.len() - 1]), None, "{name}");
    }
}

#[test]
fn the_generations_of_ext_are_told_apart_by_their_features() {
    let of = |compatible: u32, incompatible: u32| {
        let (compatible, incompatible) = (compatible.to_le_bytes(), incompatible.to_le_bytes());
        what(&[(1080, b"\x53\xef"), (1116, &compatible), (1120, &incompatible)])
    };
    assert_eq!(of(0x38, 0x2), Some("an ext2 file system"));
    assert_eq!(of(0x3c, 0x2), Some("an ext3 file system"));
    assert_eq!(of(0x3c, 0x2c2), Some("an ext4 file system"));
    assert_eq!(of(0x38, 0x40), Some("an ext4 file system"), "without a journal");
    assert_eq!(what(&[(1116, &[0xff; 8])]), None, "features without the magic");
}

#[test]
fn swap_areas_and_pools_are_found_whatever_the_page_and_the_byte_order() {
    for page in [4096, 8192, 16384, 65536] {
        for magic in [b"SWAPSPACE2", b"SWAP-SPACE"] {
            assert_eq!(find(&head(&[(page - 10, magic)])), Some(Found { what: "a swap area", at: page - 10 }));
        }
    }
    let magic = 0x00ba_b10c_u64;
    for bytes in [magic.to_le_bytes(), magic.to_be_bytes()] {
        assert_eq!(what(&[((128 << 10) + 5 * 1024, &bytes)]), Some("a part of a ZFS pool"));
        assert_eq!(what(&[((128 << 10) + 5 * 1024 + 8, &bytes)]), None);
    }
}

#[test]
fn a_boot_sector_is_a_partition_table_if_its_entries_make_sense() {
    let linux = [0x80, 0, 1, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
    assert_eq!(what(&[(510, b"\x55\xaa"), (446, &linux)]), Some("an MBR partition table"));
    assert_eq!(what(&[(510, b"\x55\xaa"), (478, &linux)]), Some("an MBR partition table"));
    assert_eq!(what(&[(510, b"\x55\xaa")]), Some("a boot sector"), "no partition");
    assert_eq!(what(&[(510, b"\x55\xaa"), (446, &[0xeb; 64])]), Some("a boot sector"), "code where entries would be");
    assert_eq!(what(&[(446, &linux)]), None);
    // What is in such a sector, or behind it, says more than the sector.
    assert_eq!(what(&[(510, b"\x55\xaa"), (446, &linux), (512, b"EFI PART")]), Some("a GPT partition table"));
    assert_eq!(what(&[(510, b"\x55\xaa"), (82, b"FAT32   ")]), Some("a FAT file system"));
}

#[test]
fn parts_of_arrays_are_found_at_the_end_of_devices_of_any_size() {
    let raid = 0xa92b_4efc_u32;
    let (little, big) = (raid.to_le_bytes(), raid.to_be_bytes());
    // Whole 64 KiB; 20 KiB more; and a size that ends within 4 KiB.
    for (size, old, new) in [
        (16 << 20, (16 << 20) - (64 << 10), (16 << 20) - (8 << 10)),
        ((16 << 20) + (20 << 10), (16 << 20) - (64 << 10), (16 << 20) + (12 << 10)),
        ((16 << 20) + 4608, (16 << 20) - (64 << 10), (16 << 20) - 4096),
    ] {
        let of = |at: usize, bytes: &[u8]| {
            let mut tail = vec![0; TAIL.0 as usize];
            let at = at - (size - tail.len());
            tail[at..at + bytes.len()].copy_from_slice(bytes);
            find_at_end(&tail, Bytes(size as u64)).map(|found| (found.what, found.at))
        };
        for (at, bytes) in [(old, little), (old, big), (new, little)] {
            assert_eq!(of(at, &bytes), Some(("a part of a Linux RAID", at)), "of {size}");
            assert_eq!(of(at - 512, &bytes), None, "of {size}");
        }
        assert_eq!(of(new, &big), None, "version 1.0 is little-endian everywhere");
        for sector in [512, 4096] {
            let intel = of(size - 2 * sector, b"Intel Raid ISM Cfg Sig. 1.3.00");
            assert_eq!(intel, Some(("a part of an Intel RAID", size - 2 * sector)));
            let ddf = of(size - sector, b"\xde\x11\xde\x11");
            assert_eq!(ddf, Some(("a part of a DDF RAID", size - sector)));
        }
        assert_eq!(of(size - 1, b"x"), None);
    }
    assert_eq!(find_at_end(&[], Bytes::ZERO), None);
}

#[test]
fn nothing_is_found_where_nothing_is_or_nothing_is_known() {
    assert_eq!(what(&[]), None);
    assert_eq!(find(&[]), None);
    assert_eq!(find(&[1; HEAD.0 as usize]), None);
    assert_eq!(find(&[1; 100]), None);
}
