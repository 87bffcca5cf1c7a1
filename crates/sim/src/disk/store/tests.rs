use super::*;
use crate::World;
use forebay_env::Random;

#[test]
fn it_agrees_with_plain_memory_and_keeps_each_content_once() {
    crate::seeds::each(40, |seed| {
        let world = World::new(seed);
        let random: Rc<dyn Random> = world.random();
        let size = 3 * LEAF * PAGE as u64 / 2;
        let mut store = Store::new(size);
        let mut plain = vec![0u8; size as usize];
        for _ in 0..60 {
            let offset = random.below(size / 512) * 512;
            let length = (random.below(64) * 512).min(size - offset);
            let range = offset as usize..(offset + length) as usize;
            match random.below(4) {
                0 => plain[range.clone()].fill(random.below(3) as u8),
                1 => plain[range.clone()].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 4096) as u8),
                2 => plain[range.clone()].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
                _ => {
                    let from = offset / PAGE as u64 * PAGE as u64;
                    let to = (from + random.below(2 * LEAF) * PAGE as u64).min(size);
                    let made = |at: u64| (at / 100) as u8;
                    let generator = move |at: u64, page: &mut [u8]| {
                        page.iter_mut().enumerate().for_each(|(i, byte)| *byte = made(at + i as u64));
                    };
                    store.generate(from..to, Rc::new(generator));
                    (from..to).for_each(|at| plain[at as usize] = made(at));
                    continue;
                }
            }
            store.write(offset, &plain[range]);
        }
        let mut seen = vec![0; size as usize];
        store.read(0, &mut seen);
        assert!(seen == plain, "the store differs from plain memory");
        let mut odd = vec![0; 10_000];
        store.read(777, &mut odd);
        assert!(odd == plain[777..10_777]);
        let pages: std::collections::BTreeSet<&[u8]> = plain.chunks(PAGE).collect();
        assert!(store.kept_pages() <= pages.len(), "{} pages for {} contents", store.kept_pages(), pages.len());
        store.write(0, &vec![0; size as usize]);
        assert_eq!(store.kept_pages(), 0, "zeros cost nothing");
    });
}

#[test]
fn pages_of_one_hash_are_kept_apart() {
    let mut store = Store::new(1 << 20);
    let (one, two) = ([1; PAGE], [2; PAGE]);
    store.write(0, &one);
    let slot = store.slot(0).0;
    // Pretend that the other content has the same hash.
    store.by_hash.insert(hash(&two), slot);
    store.write(PAGE as u64, &two);
    let mut seen = [0; 2 * PAGE];
    store.read(0, &mut seen);
    assert!(seen[..PAGE] == one && seen[PAGE..] == two);
    store.write(PAGE as u64, &[0; PAGE]);
    store.read(0, &mut seen);
    assert!(seen[..PAGE] == one && seen[PAGE..] == [0; PAGE]);
}

#[test]
fn a_page_goes_with_its_last_use() {
    let mut store = Store::new(1 << 20);
    store.write(0, &[5; 3 * PAGE]);
    let slot = store.slot(0);
    store.retain(slot);
    store.write(0, &[0; 3 * PAGE]);
    assert_eq!(store.kept_pages(), 1);
    store.restore(2, slot);
    store.release(slot);
    let mut seen = [0; PAGE];
    store.read(2 * PAGE as u64, &mut seen);
    assert_eq!((seen, store.kept_pages()), ([5; PAGE], 1));
    store.write(2 * PAGE as u64, &[6; PAGE]);
    assert_eq!(store.kept_pages(), 1);
}

#[test]
fn hashes_differ_where_a_single_bit_does() {
    let mut page = [0; PAGE];
    let mut hashes = std::collections::BTreeSet::from([hash(&page)]);
    for bit in 0..PAGE * 8 {
        page[bit / 8] ^= 1 << (bit % 8);
        hashes.insert(hash(&page));
        page[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(hashes.len(), PAGE * 8 + 1);
}
