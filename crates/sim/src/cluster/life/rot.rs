//! Bytes that rot on a disk, or that it cannot read any more: what is kept beside them is enough, before anybody asks for them.

use super::Common;
use crate::cluster::Cluster;
use crate::disk::Fault;
use forebay_env::Random;
use forebay_model::Bytes;
use forebay_model::layout::Raid;

/// So many places of files are looked for on one disk, for each that its node has: each has the less of them.
const PLACES: u64 = 24;
/// What a place is found by, and where in a file one may begin.
const PROBE: usize = 256;
const UNIT: usize = 4096;
const SECTOR: usize = 512;

/// Harms a disk wherever it has one of a few places of files of which more is kept: a bit changes, or a sector cannot be read. How
/// many places were harmed. The node is down, so that nothing of them is in memory.
pub(super) fn harm(cluster: &Cluster, place: usize, common: &Common) -> u64 {
    let random = cluster.world().random();
    let disks = cluster.places().filter(|other| cluster.node_of(*other) == cluster.node_of(place)).count() as u64;
    let probes: Vec<Vec<u8>> = (0..PLACES * disks).filter_map(|_| probe(common, &*random)).collect();
    let probes: Vec<&[u8]> = probes.iter().map(Vec::as_slice).collect();
    let found = find(cluster, place, &probes);
    for offset in &found {
        let fault = match random.below(2) {
            0 => Fault::FlipBit { offset: *offset + Bytes(random.below(PROBE as u64)), bit: random.below(8) as u8 },
            _ => Fault::Unreadable { offset: *offset, length: Bytes(SECTOR as u64), permanent: false },
        };
        cluster.disk(place).inject(fault);
    }
    found.len() as u64
}

/// Bytes of a file of which more is kept.
fn probe(common: &Common, random: &dyn Random) -> Option<Vec<u8>> {
    let owned = common.owned[random.below(common.owned.len() as u64) as usize].borrow();
    let kept: Vec<&Vec<u8>> = owned
        .names
        .values()
        .map(|key| &owned.files[key])
        .filter(|known| known.raid != Raid::Zero)
        .map(|known| &known.current)
        .collect();
    let bytes = kept.get(random.below(kept.len().max(1) as u64) as usize)?;
    let at = random.below((bytes.len() / UNIT) as u64 + 1) as usize * UNIT;
    let probe = bytes.get(at..at + PROBE)?;
    // What was never written is nowhere.
    probe.iter().any(|byte| *byte != probe[0]).then(|| probe.to_vec())
}

/// Where on the disk at a place a sector begins with one of these.
pub(in crate::cluster) fn find(cluster: &Cluster, place: usize, probes: &[&[u8]]) -> Vec<Bytes> {
    let (disk, mut buffer) = (cluster.disk(place), vec![0; 1 << 20]);
    let size = disk.spec().size;
    let mut places = Vec::new();
    for at in (0..size.0 / (1 << 20)).map(|nth| Bytes::mib(1) * nth) {
        disk.peek(at, &mut buffer);
        let matches = (0..buffer.len()).step_by(SECTOR);
        let matches = matches.filter(|from| probes.iter().any(|probe| buffer[*from..].starts_with(probe)));
        places.extend(matches.map(|from| at + Bytes(from as u64)));
    }
    places
}
