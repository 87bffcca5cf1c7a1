//! What is on a device before it is written over: known by its signature in the first or the last bytes.
//!
//! Invariant: pure. What is not known here counts as nothing, as it does for every other formatting program.

use forebay_model::Bytes;

/// Bytes from the beginning of a device in which most signatures lie.
pub(super) const HEAD: Bytes = Bytes::kib(256);
/// Bytes to the end of a device in which the others lie.
pub(super) const TAIL: Bytes = Bytes::kib(128);
/// What a superblock of Linux RAID begins with.
const RAID: u32 = 0xa92b_4efc;
/// Pages of the machines that write swap areas: the signature ends the first one.
const PAGES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 64 << 10];
/// Where ZFS keeps its uberblocks in its first label, the least that one takes, and what each begins with.
const UBERBLOCKS: (usize, usize, u64) = (128 << 10, 1 << 10, 0x00ba_b10c);

/// Something that would be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// What it is, with its article.
    pub(super) what: &'static str,
    /// Where the signature lies.
    pub(super) at: usize,
}

/// Signatures of one place each. What lies in a container comes after the container.
const SIGNATURES: &[(&str, usize, &[u8])] = &[
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 16 << 10, b"SKUL\xba\xbe"),
    ("a BitLocker volume", 3, b"-FVE-FS-"),
    ("an LVM2 physical volume", 0, b"LABELONE"),
    ("an LVM2 physical volume", 512, b"LABELONE"),
    ("an LVM2 physical volume", 1024, b"LABELONE"),
    ("an LVM2 physical volume", 1536, b"LABELONE"),
    ("a part of a Linux RAID", 0, &RAID.to_le_bytes()),
    ("a part of a Linux RAID", 4096, &RAID.to_le_bytes()),
    ("a bcache device", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("a bcachefs file system", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("a Ceph BlueStore", 0, b"bluestore block device"),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", (64 << 10) + 64, b"_BHRfS_M"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("a JFS file system", 32 << 10, b"JFS1"),
    ("a ReiserFS file system", (64 << 10) + 52, b"ReIsEr"),
    ("an ISO 9660 file system", (32 << 10) + 1, b"CD001"),
    ("an APFS container", 32, b"NXSB"),
    ("an HFS+ file system", 1024, b"H+\0\x04"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("a qcow2 disk image", 0, b"QFI\xfb"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT12   "),
    ("a FAT file system", 54, b"FAT16   "),
    ("a FAT file system", 82, b"FAT32   "),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
];

/// What `head`, the first [`HEAD`] of a device, says is there; `None` if it says nothing.
pub(super) fn find(head: &[u8]) -> Option<Found> {
    SIGNATURES
        .iter()
        .find(|(_, at, bytes)| has(head, *at, bytes))
        .map(|(what, at, _)| Found { what, at: *at })
        .or_else(|| ext(head))
        .or_else(|| swap(head))
        .or_else(|| zfs(head))
        .or_else(|| boot_sector(head))
}

/// What `tail`, the last [`TAIL`] of a device of `size`, says: parts of arrays whose members look, from their beginning,
/// like what is in the array.
pub(super) fn find_at_end(tail: &[u8], size: Bytes) -> Option<Found> {
    let size = size.0 as usize;
    let from = size - tail.len();
    // Of version 0.90, in the byte order of the machine that made it, and of version 1.0.
    let (old, new) = ((size & !0xffff).saturating_sub(64 << 10), size.saturating_sub(8 << 10) & !0xfff);
    let (sector, page) = (512, 4096);
    let signatures: [(&str, usize, &[u8]); 7] = [
        ("a part of a Linux RAID", old, &RAID.to_le_bytes()),
        ("a part of a Linux RAID", old, &RAID.to_be_bytes()),
        ("a part of a Linux RAID", new, &RAID.to_le_bytes()),
        ("a part of an Intel RAID", size.saturating_sub(2 * sector), b"Intel Raid ISM Cfg Sig. "),
        ("a part of an Intel RAID", size.saturating_sub(2 * page), b"Intel Raid ISM Cfg Sig. "),
        ("a part of a DDF RAID", size.saturating_sub(sector), b"\xde\x11\xde\x11"),
        ("a part of a DDF RAID", size.saturating_sub(page), b"\xde\x11\xde\x11"),
    ];
    let there = |at: usize, bytes: &[u8]| at.checked_sub(from).is_some_and(|at| has(tail, at, bytes));
    let found = signatures.into_iter().find(|(_, at, bytes)| there(*at, bytes));
    found.map(|(what, at, _)| Found { what, at })
}

fn has(head: &[u8], at: usize, bytes: &[u8]) -> bool {
    head.get(at..).is_some_and(|rest| rest.starts_with(bytes))
}

fn word(head: &[u8], at: usize) -> u32 {
    head.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

/// The three generations share their magic, and differ in what they may use.
fn ext(head: &[u8]) -> Option<Found> {
    const AT: usize = 1024;
    const JOURNAL: u32 = 0x4;
    /// Incompatible features that ext3 knows: compression, file types, recovery, a journal device, meta groups.
    const OLD: u32 = 0x1f;
    if !has(head, AT + 56, b"\x53\xef") {
        return None;
    }
    let (compatible, incompatible) = (word(head, AT + 92), word(head, AT + 96));
    let what = match (incompatible & !OLD, compatible & JOURNAL) {
        (0, 0) => "an ext2 file system",
        (0, _) => "an ext3 file system",
        _ => "an ext4 file system",
    };
    Some(Found { what, at: AT + 56 })
}

fn swap(head: &[u8]) -> Option<Found> {
    let at = PAGES.map(|page| page - 10);
    let found = at.into_iter().find(|at| has(head, *at, b"SWAPSPACE2") || has(head, *at, b"SWAP-SPACE"))?;
    Some(Found { what: "a swap area", at: found })
}

fn zfs(head: &[u8]) -> Option<Found> {
    let (from, step, magic) = UBERBLOCKS;
    let of_either = |at: &usize| has(head, *at, &magic.to_le_bytes()) || has(head, *at, &magic.to_be_bytes());
    let at = (from..head.len()).step_by(step).find(of_either)?;
    Some(Found { what: "a part of a ZFS pool", at })
}

/// What ends as the first sector of a disk that is booted from, or that has partitions.
fn boot_sector(head: &[u8]) -> Option<Found> {
    const ENTRIES: usize = 446;
    if !has(head, 510, b"\x55\xaa") {
        return None;
    }
    let entries = head[ENTRIES..510].chunks(16);
    let sound = entries.clone().all(|entry| entry[0] & 0x7f == 0) && entries.into_iter().any(|entry| entry[4] != 0);
    Some(Found { what: if sound { "an MBR partition table" } else { "a boot sector" }, at: 510 })
}

#[cfg(test)]
mod tests;
