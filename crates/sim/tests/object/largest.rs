//! Commands of the largest size there is, two at once that overlap, while the power goes: each is there as a whole or not
//! at all, and what was acknowledged is there.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_model::{ObjectId, Profile};
use forebay_sim::World;
use forebay_sim::disk::presets;
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use std::cell::RefCell;
use std::rc::Rc;

const PAGE: usize = 4096;
const OBJECT: ObjectId = ObjectId { volume: 1, object: 1 };
/// The most that one command writes.
const MOST: usize = 64 << 20;
/// Where the second one begins, in the middle of the first and of a page.
const SECOND: usize = MOST / 2 + 100;

/// What write `number` writes: pages that are unlike their neighbours and those of other writes.
fn content(number: u64) -> Vec<u8> {
    let word = |page: u64| (number * 509 + page % 509).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..(MOST / PAGE) as u64).flat_map(|page| word(page).to_le_bytes().repeat(PAGE / 8)).collect()
}

/// The object, and one more write.
fn with(object: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut object = object.to_vec();
    object.resize(object.len().max(offset + bytes.len()), 0);
    object[offset..offset + bytes.len()].copy_from_slice(bytes);
    object
}

#[test]
fn two_writes_of_64_mebibytes_that_overlap_are_each_whole_or_absent_wherever_the_power_goes() {
    let world = World::new(1);
    let disk = world.disk(presets::ssd().scaled(400));
    let env = world.env(disk.clone());
    world.run(async {
        let geometry = env.device.geometry();
        Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
        let target = Target::open(env.clone()).await.unwrap();
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        target.objects().create(OBJECT, Vec::new()).await.unwrap();
    });
    world.kill();
    // What the object is, and in how many rounds each number of the two writes was there.
    let (mut object, mut there) = (Vec::new(), [0; 3]);
    for (round, cut) in (1..).zip([1, 90, 190, 240, 255, 260, 264, 268, 272, 280]) {
        let writes = [(0, content(2 * round)), (SECOND, content(2 * round + 1))];
        let acknowledged = Rc::new(RefCell::new(Vec::new()));
        let env = world.env(disk.clone());
        let target = world.run(async {
            let target = Target::open(env).await.unwrap();
            target.objects().ready().await.unwrap();
            target
        });
        disk.cut_after(cut);
        let outcome = world.run_until_cut(async {
            let write = |n: usize| {
                let (target, (offset, bytes), acknowledged) = (target.clone(), writes[n].clone(), acknowledged.clone());
                world.spawner().spawn(async move {
                    let (objects, stream) = (target.objects(), target.stream());
                    objects.write(stream, OBJECT, offset as u64, &bytes, Placement::Auto).await.unwrap();
                    acknowledged.borrow_mut().push(n);
                })
            };
            let both = [write(0), write(1)];
            for one in both {
                one.await;
            }
        });
        disk.no_cut();
        if outcome.is_ok() {
            world.crash(&[&disk]);
        }
        drop(target);
        let env = world.env(disk.clone());
        let read = world.run(async {
            let target = Target::open(env).await.unwrap();
            target.objects().ready().await.unwrap();
            let mut read = Vec::new();
            for half in 0..2 {
                let (stream, length) = (target.stream(), MOST as u64);
                read.extend(target.objects().read(stream, OBJECT, half * length, length).await.unwrap());
            }
            read
        });
        world.kill();
        let acknowledged = acknowledged.take();
        let possible: [&[usize]; 5] = [&[], &[0], &[1], &[0, 1], &[1, 0]];
        let made = possible.into_iter().find(|made| {
            let after = made.iter().fold(object.clone(), |now, n| with(&now, writes[*n].0, &writes[*n].1));
            acknowledged.iter().all(|n| made.contains(n)) && after == read
        });
        let made = made.unwrap_or_else(|| panic!("cut at {cut}: {acknowledged:?} acknowledged, and it is a mix"));
        there[made.len()] += 1;
        object = read;
    }
    println!("none, one and both of them were there: {there:?}");
    // Otherwise nothing was shown.
    assert!(there.iter().all(|rounds| *rounds > 0), "{there:?}");
}
