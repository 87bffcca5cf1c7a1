//! What the kernel knows about a device before we touch it: where it is mounted, who holds it, whether it rotates,
//! which alignment it asks for.

use forebay_model::{Bytes, Error, Result};
use rustix::fs::{AtFlags, StatxFlags};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The device number of a block device, as `major:minor` in sysfs and mountinfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number {
    major: u32,
    minor: u32,
}

impl Number {
    pub(super) fn of(raw: u64) -> Number {
        Number { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }
}

/// Alignments of direct I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Alignment {
    /// Of offsets and lengths.
    pub(super) offset: u64,
    /// Of memory.
    pub(super) memory: u64,
}

/// One line of mountinfo.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Mount {
    pub(super) number: Option<Number>,
    pub(super) point: String,
    pub(super) source: String,
}

/// Reads the text of `/proc/thread-self/mountinfo`; lines that make no sense are skipped.
pub(super) fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    // 36 35 98:0 /root /mount/point options optional... - type source super-options
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ');
    let number = fields.nth(2)?;
    let point = fields.nth(1)?;
    let source = after.split(' ').nth(1)?;
    Some(Mount { number: parse_number(number), point: unescape(point), source: unescape(source) })
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(Number { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Undoes the octal escapes (`\040` for a space) of mountinfo.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) = (first, rest) {
            out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            bytes = tail;
        } else {
            out.push(*first);
            bytes = rest;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn mounts() -> Vec<Mount> {
    // Without /proc there is nothing to compare with; the exclusive open still refuses what the kernel holds.
    fs::read_to_string("/proc/thread-self/mountinfo").map(|text| parse_mounts(&text)).unwrap_or_default()
}

/// The block device `number` and its partitions, with their names.
fn family(number: Number) -> Vec<(Number, String)> {
    let root = number.sysfs();
    let name_of = |path: &Path| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let mut all = vec![(number, name_of(&root))];
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("partition").exists()
            && let Some(part) = fs::read_to_string(path.join("dev")).ok().as_deref().and_then(parse_number)
        {
            all.push((part, name_of(&path)));
        }
    }
    all
}

/// Where the block device or one of its partitions is mounted: its name and the mount point.
pub(super) fn mounted_at(number: Number) -> Option<(String, String)> {
    let family = family(number);
    for mount in mounts() {
        // File systems over several devices show a number of their own, but name a device as their source.
        let source = fs::metadata(&mount.source).ok().and_then(|m| block_number(&m));
        let hit = family.iter().find(|(n, _)| Some(*n) == mount.number || Some(*n) == source);
        if let Some((_, name)) = hit {
            return Some((name.clone(), mount.point));
        }
    }
    None
}

/// What else is built on the block device (`dm-0`, `md1`), if the kernel says.
pub(super) fn holders(number: Number) -> Vec<String> {
    let mut names: Vec<String> = family(number)
        .iter()
        .flat_map(|(n, _)| fs::read_dir(n.sysfs().join("holders")).into_iter().flatten().flatten())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The number of a block device, if that is what it is.
pub(super) fn block_number(metadata: &fs::Metadata) -> Option<Number> {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_block_device().then(|| Number::of(metadata.rdev()))
}

/// Whether the device, or the one under the file, rotates. Unknown counts as no: what rotates says so.
pub(super) fn rotates(metadata: &fs::Metadata) -> bool {
    let number = block_number(metadata).unwrap_or_else(|| Number::of(metadata.dev()));
    rotational(number)
        .or_else(|| {
            // A file system with a number of its own (btrfs): ask the device that it names as its source.
            let mount = mounts().into_iter().find(|m| m.number == Some(number))?;
            rotational(block_number(&fs::metadata(mount.source).ok()?)?)
        })
        .unwrap_or(false)
}

fn rotational(number: Number) -> Option<bool> {
    let root = number.sysfs();
    // A partition has its queue in the disk above it; resolve the link first, or `..` leads out of /sys/dev.
    let root = fs::canonicalize(root).ok()?;
    [root.join("queue/rotational"), root.parent()?.join("queue/rotational")]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .map(|text| text.trim() == "1")
}

/// Size of a block device.
pub(super) fn block_size(file: &fs::File, name: &str) -> Result<Bytes> {
    // Seeking to the end gives what BLKGETSIZE64 gives, on every architecture alike.
    rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))
        .map(Bytes)
        .map_err(|e| super::super::io_error("asking the size of", name, &e.into()))
}

/// The alignment that direct I/O on `file` needs.
pub(super) fn alignment(file: &fs::File, block_device: bool, name: &str) -> Result<Alignment> {
    let statx = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(statx) = statx
        && statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        if statx.stx_dio_offset_align == 0 {
            return Err(no_direct(name));
        }
        return Ok(Alignment {
            offset: u64::from(statx.stx_dio_offset_align),
            memory: u64::from(statx.stx_dio_mem_align),
        });
    }
    // Kernels before 6.1 and some file systems do not say: the logical block of a device, a page for a file.
    let unit = match block_device {
        true => rustix::fs::ioctl_blksszget(file.as_fd()).map(u64::from).unwrap_or(4096),
        false => 4096,
    };
    Ok(Alignment { offset: unit, memory: unit })
}

/// The error for a file system that has no direct I/O.
pub(super) fn no_direct(name: &str) -> Error {
    Error::usage(format!(
        "{name} cannot be read and written past the page cache (its file system has no direct I/O); \
         put it on another file system, such as ext4 or xfs"
    ))
}

#[cfg(test)]
mod tests;
