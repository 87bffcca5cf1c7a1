use crate::file::fake::{Link, World};
use crate::file::{FileEngine, Options, Sharing, Slice};
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Result};
use forebay_wire::object::MOST_AT_ONCE;
use std::future::Future;
use std::rc::Rc;

/// More than a component takes at once.
const UNIT: Bytes = Bytes::mib(8);

struct Open {
    link: Rc<Link>,
    engine: FileEngine,
}

impl Open {
    fn new(world: &Rc<World>, sharing: Sharing) -> Open {
        let (link, options) = (world.client(), Options { sharing, ..Options::default() });
        let opening = FileEngine::open(link.clone(), world.striping, options, link.spawner(), world.clock());
        let engine = world.run(&link, opening).expect("it lives").expect("it opens");
        Open { link, engine }
    }

    fn run<T: 'static, F: Future<Output = Result<T>> + 'static>(&self, ask: impl FnOnce(FileEngine) -> F) -> T {
        let done = self.link.world().run(&self.link, ask(self.engine.clone()));
        done.expect("it lives").expect("it succeeds")
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let bytes = Slice::copy_from_slice(bytes);
        self.run(|file| async move {
            file.write_at(Bytes(at), bytes).await?;
            file.flush().await
        });
    }
}

/// Bytes that are others a block further.
fn some(length: Bytes) -> Vec<u8> {
    let few: Vec<u8> = (0..5003_u32).map(|at| (at % 251) as u8 + 1).collect();
    let mut bytes = few.repeat(length.0 as usize / few.len() + 1);
    bytes.truncate(length.0 as usize);
    bytes
}

#[test]
fn copies_in_units_that_a_component_does_not_take_at_once_are_repaired_and_rebuilt() {
    for (copies, sharing) in [(2, Sharing::Alone), (3, Sharing::Beside)] {
        let world = World::new(Striping::new(Raid::One(copies), UNIT, 1, 1, 1).expect("a layout"), 51);
        let open = Open::new(&world, sharing);
        // A unit, and more of another one than is taken at once.
        let rest = Bytes::mib(5) + Bytes(77);
        let mut bytes = some(UNIT + rest);
        open.write(0, &bytes);
        let agree = |bytes: &[u8]| (0..copies).all(|component| world.with(component, |now| now[..] == *bytes));
        assert!(agree(&bytes));

        // One unit is damaged, and another one is not what the first copy has.
        world.damage(1, Bytes::mib(5).0..Bytes::mib(5).0 + 10);
        world.with(1, |now| now[(UNIT + Bytes::mib(4)).0 as usize + 5] ^= 1);
        let (found, _) = open.run(|file| async move { file.scrub(0, 100).await });
        assert!(found.repaired == rest && found.lost.is_empty(), "{found:?}");
        assert_eq!(open.engine.mended(), UNIT);
        let (found, more) = open.run(|file| async move { file.compare(0, 100).await });
        assert!(found.suspects.is_empty() && !more, "{found:?}");
        assert!(agree(&bytes));

        world.set_down(1, true);
        bytes[3..103].fill(7);
        open.write(3, &[7; 100]);
        world.set_down(1, false);
        assert!(world.missing.borrow().contains_key(&1));
        let progress = open.run(|file| async move {
            let mut progress = file.begin_rebuild(1).await?;
            while !file.rebuild(1, &mut progress, UNIT).await? {}
            Ok(progress)
        });
        assert_eq!((progress.written, progress.lost), (Bytes(bytes.len() as u64), Bytes::ZERO));
        assert!(world.missing.borrow().is_empty() && agree(&bytes));
        assert!(world.largest_write() <= MOST_AT_ONCE.0);
    }
}
