//! Rings with parity of which some of the parity is damaged.

use super::spread::{WITH_PARITY, steps, with_ring};
use super::*;
use crate::disk::Fault;

/// Changes a bit of every so many blocks of parity on a node's disk; of how many.
fn spoil(cluster: &Cluster, node: usize, every: usize) -> usize {
    let (disk, mut buffer) = (cluster.disk(node), vec![0; 1 << 20]);
    let mut places = Vec::new();
    for at in (0..disk.spec().size.0 / (1 << 20)).map(|nth| Bytes::mib(1) * nth) {
        disk.peek(at, &mut buffer);
        let is_table = |from: &usize| buffer[*from..*from + 512].windows(8).any(|bytes| bytes == b"FBRSTRIP");
        places.extend((0..buffer.len()).step_by(4096).filter(is_table).map(|from| at + Bytes(from as u64)));
    }
    // What was flushed last would look as if the power had taken it.
    places.truncate(places.len().saturating_sub(10));
    let spoiled: Vec<Bytes> = places.into_iter().skip(every / 2).step_by(every).collect();
    for place in &spoiled {
        disk.inject(Fault::FlipBit { offset: *place + Bytes(3000), bit: 3 });
    }
    spoiled.len()
}

#[test]
fn what_cannot_be_made_since_the_parity_of_it_is_damaged_is_told() {
    seeds::each(3, |seed| {
        let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
        let (chance, at) = (world.random(), (seed % 3) as usize);
        let mut recording = Recording::begin(&cluster, 1);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        (0..3).for_each(|_| steps(&mut recording, &world, &*chance, 300));
        recording.settle(&world);
        cluster.crash_node(nodes[3]);
        assert!(spoil(&cluster, nodes[3], 9) > 3, "there is parity");
        cluster.restart_node(nodes[3]);
        cluster.crash_node(nodes[at]);
        world.run_for(Duration::from_secs(5));
        let found = read(&cluster, &open(&cluster, "reader", false));
        let missing = recording.lacking(&found);
        assert!(!missing.is_empty(), "some cannot be made");
        let gaps: Vec<Gap> = found.iter().filter_map(Found::gap).collect();
        assert_told(&missing, &gaps, &format!("without {at}"));
    });
}
