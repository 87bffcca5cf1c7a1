use super::recover;
use crate::file::fake::{Link, World};
use crate::file::{FileEngine, Options, Slice};
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Error, Result};
use std::rc::Rc;

const UNIT: u64 = 4096;

fn opened(world: &Rc<World>) -> (Rc<Link>, FileEngine) {
    let link = world.client();
    let opening = FileEngine::open(link.clone(), world.striping, Options::alone(), link.spawner(), world.clock());
    let file = world.run(&link, opening).expect("it lives").expect("it opens");
    (link, file)
}

/// Writes from the beginning on, and flushes; `None` if the client died.
fn write(world: &Rc<World>, link: &Link, file: &FileEngine, bytes: &[u8]) -> Option<Result<()>> {
    let (file, bytes) = (file.clone(), Slice::copy_from_slice(bytes));
    world.run(link, async move {
        file.write_at(Bytes::ZERO, bytes).await?;
        file.flush().await
    })
}

fn read(world: &Rc<World>, link: &Link, file: &FileEngine) -> Vec<u8> {
    let file = file.clone();
    let read = async move { file.read_at(Bytes::ZERO, file.size().await?).await };
    world.run(link, read).expect("it lives").expect("it can be read")
}

fn some(world: &World, length: u64) -> Vec<u8> {
    (0..length).map(|_| world.chance.next() as u8).collect()
}

#[test]
fn a_component_whose_intents_are_damaged_is_done_without_and_the_file_is_mended_and_written_again() {
    for (raid, damaged) in [(Raid::Five, 3), (Raid::One(2), 0), (Raid::One(3), 0), (Raid::One(3), 1)] {
        let mut left = 0;
        for dies_after in 0..24 {
            let case = format!("{raid} without {damaged}, dead after {dies_after}");
            let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), dies_after);
            let (link, file) = opened(&world);
            let (old, new) = (some(&world, 30 * UNIT), some(&world, UNIT));
            write(&world, &link, &file, &old).expect("it lives").expect("it is written");
            world.crash_after.set(Some(dies_after));
            let wrote = write(&world, &link, &file, &new);
            world.crash(link.client);
            left += world.intents();
            world.damage_intents(damaged);

            let mender = world.client();
            let mending = recover(mender.clone(), world.striping, world.clock(), mender.spawner());
            let mended = world.run(&mender, mending).expect("it lives").expect("it is mended");
            assert_eq!(mended.size, Bytes(30 * UNIT), "{case}");
            world.check();
            let missing: Vec<u32> = world.missing.borrow().keys().copied().collect();
            assert_eq!(missing, [damaged], "{case}");
            let (link, file) = opened(&world);
            let found = read(&world, &link, &file);
            let (first, rest) = found.split_at(UNIT as usize);
            assert!(*first == new[..] || wrote.is_none() && *first == old[..UNIT as usize], "{case}");
            assert!(*rest == old[UNIT as usize..], "{case}");

            let bytes = some(&world, 31 * UNIT);
            write(&world, &link, &file, &bytes).expect("it lives").expect("it is written again");
            let again = file.clone();
            let rebuilt = async move {
                let mut progress = again.begin_rebuild(damaged).await?;
                while !again.rebuild(damaged, &mut progress, Bytes(3 * UNIT)).await? {}
                Ok::<_, Error>(())
            };
            world.run(&link, rebuilt).expect("it lives").expect("it is rebuilt");
            assert!(world.missing.borrow().is_empty() && read(&world, &link, &file) == bytes, "{case}");
            world.check();
        }
        assert!(left > 0, "{raid}: nothing was ever left to be ended");
    }
}

#[test]
fn a_component_of_which_nothing_is_known_any_more_while_the_file_is_mended_is_done_without() {
    for raid in [Raid::Five, Raid::One(2)] {
        for (events, forgotten) in (0..80).flat_map(|events| [(events, 0), (events, 3)]) {
            let case = format!("{raid} without {forgotten} after {events} events");
            let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), events);
            let (link, file) = opened(&world);
            let bytes = some(&world, 30 * UNIT + 100);
            write(&world, &link, &file, &bytes).expect("it lives").expect("it is written");
            world.crash(link.client);
            let mender = world.client();
            let recovering = recover(mender.clone(), world.striping, world.clock(), mender.spawner());
            let mending = world.begin(&mender, recovering);
            world.go_on(events);
            world.forget(forgotten);
            assert!(world.finish(&mender, || mending.has_ended()), "{case}");
            if let Err(error) = mending.take().expect("it has ended") {
                panic!("{case}: {error}");
            }
            let (link, file) = opened(&world);
            assert!(read(&world, &link, &file) == bytes, "{case}");
        }
    }
}
