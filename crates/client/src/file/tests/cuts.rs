//! Cuts that somebody left who is gone, and what others write who open the file beside each other.

use super::super::Components;
use super::{Bytes, Open, Raid, Rc, Striping, UNIT, World, recovered, some, tight};

/// The parity of the first stripe, which keeps what is begun there.
const KEEPER: u32 = 4;
/// In a stripe of which neither the parity nor this unit lies there.
const BEHIND: u64 = 30 * UNIT;

fn five_wide() -> Striping {
    Striping::new(Raid::Five, Bytes(UNIT), 5, 1, 1).expect("a layout")
}

/// A file of 40 units, which somebody cuts to 100 bytes who is gone after so many requests; `None` if the cut came to its end.
fn left_after(steps: u64) -> Option<Rc<World>> {
    let world = World::new(five_wide(), steps);
    let gone = Open::new(&world, tight(true));
    gone.write(0, some(&world.chance, 40 * UNIT));
    gone.flush();
    world.crash_after.set(Some(steps));
    let cut = gone.try_run(|file| async move { file.truncate(Bytes(100)).await });
    if cut.is_some() {
        return None;
    }
    // It is gone for long: what it had under way is done or not.
    let looker = world.client();
    world.run(&looker, looker.shut_out()).expect("it lives").expect("it is told");
    Some(world)
}

#[test]
fn a_cut_that_is_kept_where_nobody_answers_takes_nothing_away_when_that_is_back() {
    let mut kept = 0;
    for world in (0..200).map_while(left_after) {
        kept += world.intents();
        world.set_down(KEEPER, true);
        let open = Open::new(&world, tight(false));
        open.run(|file| async move { file.end_left_cut(true).await });
        let new = some(&world.chance, 100);
        open.write(BEHIND, new.clone());
        world.set_down(KEEPER, false);
        // Whoever changes the first stripe next, and whoever mends the file.
        Open::new(&world, tight(false)).write(0, some(&world.chance, 10));
        assert!(Open::new(&world, tight(false)).read(BEHIND, 100) == new, "it was cut off");
        recovered(&world);
        world.check();
        assert!(Open::new(&world, tight(true)).read(BEHIND, 100) == new, "it was cut off when it was mended");
    }
    assert!(kept >= 3, "a cut was kept {kept} times");
}

#[test]
fn of_a_file_that_nobody_left_nothing_is_given_up_when_it_is_opened() {
    let world = World::new(five_wide(), 51);
    let first = Open::new(&world, tight(false));
    first.write(0, some(&world.chance, 40 * UNIT));
    world.set_down(KEEPER, true);
    let open = Open::new(&world, tight(false));
    open.run(|file| async move { file.end_left_cut(false).await });
    assert!(world.missing.borrow().is_empty());
    // Of one that somebody left, it cannot be told what is kept there.
    open.run(|file| async move { file.end_left_cut(true).await });
    assert!(world.missing.borrow().keys().eq([&KEEPER]));
}

#[test]
fn who_opens_a_file_while_another_one_ends_the_cut_that_was_left_says_anew_how_long_it_is() {
    let mut kept = 0;
    for world in (0..200).map_while(left_after) {
        kept += world.intents();
        // This one has heard how long the file was before that was cut, and looks for the cut when that is ended.
        let late = Open::new(&world, tight(false));
        let first = Open::new(&world, tight(false));
        first.run(|file| async move { file.end_left_cut(true).await });
        late.run(|file| async move { file.end_left_cut(true).await });
        let new = some(&world.chance, 100);
        late.write(BEHIND, new.clone());
        assert!(first.read(BEHIND, 100) == new, "it is behind the end");
    }
    assert!(kept >= 3, "a cut was kept {kept} times");
}
