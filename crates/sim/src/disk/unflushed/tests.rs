use super::*;
use rand_chacha::rand_core::SeedableRng;

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn sectors(store: &Store, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; (count * SECTOR) as usize];
    store.read(0, &mut bytes);
    bytes.chunks(SECTOR as usize).map(|sector| sector[0]).collect()
}

/// Writes of the byte `index + 1`, over one another.
const WRITES: [(u64, u64); 4] = [(0, 16), (4, 8), (6, 20), (0, 2)];

fn written(store: &mut Store) -> Unflushed {
    let mut unflushed = Unflushed::new(1 << 20);
    for (index, (first, count)) in WRITES.into_iter().enumerate() {
        unflushed.write(store, first * SECTOR, &vec![index as u8 + 1; (count * SECTOR) as usize]);
    }
    unflushed
}

#[test]
fn every_sector_is_some_version_of_itself_and_no_older_than_what_was_settled() {
    let mut all_seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut store = Store::new(1 << 20);
        let mut unflushed = written(&mut store);
        unflushed.settle(&mut store, seed % 5);
        let parts = Survival::Random.decide(&unflushed.sectors(), &mut random(seed));
        unflushed.cut(&mut store, &parts, &mut random(seed));
        let seen = sectors(&store, 32);
        for (sector, byte) in seen.iter().enumerate() {
            let covers = |index: usize| (WRITES[index].0..WRITES[index].0 + WRITES[index].1).contains(&(sector as u64));
            let settled = (0..(seed % 5) as usize).rfind(|index| covers(*index)).map_or(0, |index| index + 1);
            let valid =
                usize::from(*byte) == settled || (usize::from(*byte) > settled && covers(usize::from(*byte) - 1));
            assert!(valid, "seed {seed}: sector {sector} holds {byte}, settled was {settled}");
        }
        all_seen.insert(seen);
    }
    assert!(all_seen.len() > 100, "only {} outcomes", all_seen.len());
}

#[test]
fn nothing_everything_and_prefixes_are_what_they_say() {
    let mut prefixes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        for (survival, expected) in [(Survival::Nothing, 0), (Survival::Everything, 4)] {
            let mut store = Store::new(1 << 20);
            let mut unflushed = written(&mut store);
            let newest = sectors(&store, 32);
            let parts = survival.decide(&unflushed.sectors(), &mut random(seed));
            unflushed.cut(&mut store, &parts, &mut random(seed));
            assert_eq!(sectors(&store, 32), if expected == 0 { vec![0; 32] } else { newest });
            assert_eq!(unflushed.bytes(), 0);
        }
        let parts = Survival::Prefix.decide(&[4; 5], &mut random(seed));
        let whole = parts.iter().take_while(|part| **part == Part::Whole).count();
        assert!(parts.iter().skip(whole + 1).all(|part| *part == Part::Nothing), "{parts:?}");
        prefixes.insert(whole);
    }
    assert_eq!(prefixes.len(), 6);
}

#[test]
fn the_oldest_settle_beyond_the_limit_and_no_page_is_leaked() {
    let mut store = Store::new(1 << 20);
    let mut unflushed = Unflushed::new(8 * PAGE as u64);
    for i in 0..20u64 {
        unflushed.write(&mut store, i % 3 * PAGE as u64, &[i as u8 + 1; PAGE]);
    }
    assert_eq!((unflushed.bytes(), unflushed.sectors().len()), (8 * PAGE as u64, 8));
    let parts = vec![Part::Nothing; 8];
    unflushed.cut(&mut store, &parts, &mut random(0));
    let mut page = [0; 1];
    store.read(0, &mut page);
    assert_eq!(page, [10], "writes 0 to 11 settled; the last of them at page 0 is number 9");
    assert_eq!(store.kept_pages(), 3);
}
