use super::*;
use crate::fake::{Chance, seed};
use crate::file::components::Asked;
use forebay_env::{Executor, yield_now};
use forebay_wire::control::Change;
use forebay_wire::control::files::Degraded;
use std::borrow::Borrow;
use std::collections::btree_map::Entry;
use std::rc::Rc;

/// Files that a manager tells of at once here, so that its list has several parts.
const PART: usize = 16;
/// Turns of the loop behind which somebody goes round in a circle.
const TURNS: usize = 200_000;

/// Chance that a seed replays.
struct Seeded(RefCell<Chance>);

impl Random for Seeded {
    fn next_u64(&self) -> u64 {
        self.0.borrow_mut().next()
    }
}

/// What is to be rebuilt, who is at it, and what became of it.
struct Board {
    /// Of files that are to be rebuilt, the client that does.
    missing: RefCell<BTreeMap<FileId, Option<u64>>>,
    /// A manager of an older release tells also of what others are at.
    tells_all: bool,
    /// Files that cannot be rebuilt, and why.
    broken: BTreeSet<FileId>,
    why: Kind,
    /// How often it was asked what is to be rebuilt.
    asked: Cell<u32>,
    /// Each time that a client opened one, in order.
    opened: RefCell<Vec<(u64, FileId)>>,
    /// Each one that was rebuilt, in order, and by whom.
    rebuilt: RefCell<Vec<(u64, FileId)>>,
    chance: Seeded,
}

impl Board {
    fn of(missing: impl IntoIterator<Item = u64>, seed: u64) -> Board {
        let missing = missing.into_iter().map(|file| (FileId(file), None)).collect();
        Board {
            missing: RefCell::new(missing),
            tells_all: false,
            broken: BTreeSet::new(),
            why: Kind::Device,
            asked: Cell::new(0),
            opened: RefCell::default(),
            rebuilt: RefCell::default(),
            chance: Seeded(RefCell::new(Chance(seed))),
        }
    }

    /// Some time passes.
    async fn pass(&self, most: u64) {
        let turns = self.chance.below(most);
        for _ in 0..turns {
            yield_now().await;
        }
    }

    fn told(&self, asked: AskDegraded, client: u64) -> Degraded {
        let missing = self.missing.borrow();
        let is_told = |by: &Option<u64>| !asked.left || self.tells_all || by.is_none_or(|by| by == client);
        let behind = missing.range(FileId(asked.file.0 + 1)..).filter(|(_, by)| is_told(by));
        let mut files: Vec<FileId> = behind.map(|(file, _)| *file).take(PART + 1).collect();
        let more = files.len() > PART;
        files.truncate(PART);
        Degraded { files, more }
    }

    /// As [`Files::rebuild`].
    async fn rebuild(&self, client: u64, file: FileId) -> Result<Option<Rebuilt>> {
        self.opened.borrow_mut().push((client, file));
        self.pass(4).await;
        match self.missing.borrow_mut().get_mut(&file) {
            None => return Err(Error::missing("it was removed or is whole")),
            Some(Some(by)) if *by != client => return Ok(None),
            Some(by) => *by = Some(client),
        }
        self.pass(20).await;
        if self.broken.contains(&file) {
            self.missing.borrow_mut().insert(file, None);
            return Err(Error::new(self.why, "it cannot be rebuilt"));
        }
        let mut missing = self.missing.borrow_mut();
        match missing.get(&file) {
            None => Err(Error::missing("it was removed")),
            Some(by) if *by != Some(client) => Err(Error::stale("it was lost once more")),
            Some(_) => {
                missing.remove(&file);
                self.rebuilt.borrow_mut().push((client, file));
                Ok(Some(Rebuilt { components: 1, ..Rebuilt::default() }))
            }
        }
    }

    fn opened_by(&self, client: u64) -> Vec<FileId> {
        let opened = self.opened.borrow();
        opened.iter().filter(|(by, _)| *by == client).map(|(_, file)| *file).collect()
    }

    /// What was rebuilt, by number.
    fn done(&self) -> Vec<u64> {
        let mut done: Vec<u64> = self.rebuilt.borrow().iter().map(|(_, file)| file.0).collect();
        done.sort_unstable();
        done
    }
}

/// A client's way to the manager.
struct Way {
    board: Rc<Board>,
    client: u64,
}

impl Control for Way {
    fn change(&self, _: Change) -> Asked<Reply> {
        unreachable!("a list is only asked for")
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let (board, client) = (self.board.clone(), self.client);
        Box::pin(async move {
            let Question::Degraded(asked) = question else { panic!("{question:?}") };
            board.asked.set(board.asked.get() + 1);
            board.pass(3).await;
            let told = board.told(asked, client);
            board.pass(3).await;
            Ok(Reply::Degraded(told))
        })
    }

    fn client(&self) -> u64 {
        self.client
    }
}

/// One run through the list; what the client was told.
async fn run(board: Rc<Board>, client: u64) -> Vec<(FileId, Result<Rebuilt>)> {
    run_but(board, client, Resting::new(|| Moment(0))).await
}

/// The same with what rests.
async fn run_but(board: Rc<Board>, client: u64, resting: impl Borrow<Resting>) -> Vec<(FileId, Result<Rebuilt>)> {
    let way = Way { board: board.clone(), client };
    let told = RefCell::new(Vec::new());
    let list = MissingList::of(&way, &board.chance, resting.borrow());
    let rebuild = async |file| board.rebuild(client, file).await;
    list.rebuild_all(rebuild, |file, rebuilt| told.borrow_mut().push((file, rebuilt))).await.unwrap();
    told.into_inner()
}

/// Has tasks run to their ends, all on one loop.
fn together<T: 'static>(tasks: impl IntoIterator<Item = impl Future<Output = T> + 'static>) -> Vec<T> {
    let executor = Executor::new(|| {});
    let (spawner, ends) = (executor.spawner(), Rc::new(RefCell::new(Vec::new())));
    let tasks: Vec<_> = tasks.into_iter().map(|task| spawner.spawn(task)).collect();
    let kept = ends.clone();
    spawner.detach(async move {
        let found = all(tasks).await;
        kept.replace(found);
    });
    assert!(executor.run_ready(TURNS), "nobody comes to an end");
    ends.take()
}

#[test]
fn clients_rebuild_each_file_once_and_leave_none_out_and_seldom_open_one_for_nothing() {
    let first = seed("REBUILD_SEED");
    for seed in first..first + 20 {
        let board = Rc::new(Board::of(1..=300, seed));
        let told = together((1..=5).map(|client| run(board.clone(), client)));
        assert_eq!(board.done(), (1..=300).collect::<Vec<_>>(), "seed {seed}");
        let each = told.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(each.iter().all(|some| *some > 30), "each has its share, seed {seed}: {each:?}");
        let told: BTreeSet<FileId> = told.into_iter().flatten().map(|(file, _)| file).collect();
        assert_eq!(told.len(), 300, "seed {seed}");
        let opened = board.opened.borrow().len();
        assert!(opened < 300 + 200, "{opened} times one of 300 was opened, seed {seed}");
    }
}

#[test]
fn what_another_client_is_at_is_passed_over() {
    for (tells_all, seed) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let mut board = Board { tells_all, ..Board::of(1..=100, seed) };
        let taken: BTreeSet<FileId> = (1..=100).filter(|file| file % 3 != 0).map(FileId).collect();
        board.missing.get_mut().extend(taken.iter().map(|file| (*file, Some(9))));
        let board = Rc::new(board);
        together([run(board.clone(), 1)]);
        let free = (1..=100).filter(|file| file % 3 == 0).collect::<Vec<_>>();
        assert_eq!(board.done(), free, "{tells_all}, seed {seed}");
        let opened = board.opened_by(1);
        let in_vain: BTreeSet<FileId> = opened.iter().filter(|file| taken.contains(file)).copied().collect();
        // Where the manager tells of it, each is tried, and only once.
        assert_eq!(in_vain, if tells_all { taken } else { BTreeSet::new() }, "seed {seed}");
        assert_eq!(opened.len(), free.len() + in_vain.len(), "seed {seed}");
    }
}

#[test]
fn what_cannot_be_rebuilt_is_told_once_and_the_rest_is_rebuilt() {
    let broken: BTreeSet<FileId> = (1..=100).step_by(7).map(FileId).collect();
    let board = Rc::new(Board { broken: broken.clone(), ..Board::of(1..=100, 3) });
    let told = together([run(board.clone(), 1)]).remove(0);
    let refused: Vec<FileId> = told.iter().filter(|(_, rebuilt)| rebuilt.is_err()).map(|(file, _)| *file).collect();
    assert_eq!((refused.len(), refused.into_iter().collect::<BTreeSet<_>>()), (broken.len(), broken.clone()));
    assert_eq!(told.len(), 100);
    assert_eq!(board.missing.borrow().keys().copied().collect::<BTreeSet<_>>(), broken);
}

#[test]
fn what_others_are_alone_with_is_not_asked_for_again_and_again() {
    let broken: BTreeSet<FileId> = (1..=400).map(FileId).collect();
    let board = Rc::new(Board { broken, why: Kind::Busy, ..Board::of(1..=500, 3) });
    together([run(board.clone(), 1)]);
    assert_eq!(board.done(), (401..=500).collect::<Vec<_>>());
    assert_eq!(board.opened_by(1).len(), 500);
    assert!(board.asked.get() < 100, "{} times", board.asked.get());
}

#[test]
fn a_file_of_which_what_it_is_made_of_is_lost_rests_longer_each_time() {
    let now = Rc::new(Cell::new(Moment(0)));
    let clock = now.clone();
    let resting = Rc::new(Resting::new(move || clock.get()));
    let board = Rc::new(Board { broken: [FileId(7)].into(), why: Kind::Damaged, ..Board::of(1..=9, 3) });
    let mut tried = Vec::new();
    for second in 0..10_000 {
        now.set(Moment(0) + Duration::from_secs(second));
        let before = board.opened_by(1).len();
        together([run_but(board.clone(), 1, resting.clone())]);
        if board.opened_by(1)[before..].contains(&FileId(7)) {
            tried.push(second);
        }
    }
    assert_eq!(tried, [0, 60, 180, 420, 900, 1860, 3780, 7380]);
    assert_eq!(board.done(), [1, 2, 3, 4, 5, 6, 8, 9]);
}

#[test]
fn what_is_lost_while_a_list_is_gone_through_is_rebuilt_in_the_same_run_as_long_as_the_list_is_not_behind_it() {
    let board = Rc::new(Board::of(101..=110, 4));
    let losing = board.clone();
    let loses = async move {
        // Before the last of those that were there is done.
        while losing.rebuilt.borrow().len() < 8 {
            yield_now().await;
        }
        losing.missing.borrow_mut().extend((1..=5).chain(201..=260).map(|file| (FileId(file), None)));
        Vec::new()
    };
    let all: [std::pin::Pin<Box<dyn Future<Output = Vec<_>>>>; 2] = [Box::pin(run(board.clone(), 1)), Box::pin(loses)];
    together(all);
    assert_eq!(board.done(), (1..=5).chain(101..=110).chain(201..=260).collect::<Vec<_>>());
}

#[test]
fn whatever_is_lost_and_removed_meanwhile_clients_that_look_again_and_again_end_with_everything_rebuilt() {
    let first = seed("REBUILD_SEED");
    for seed in first..first + 20 {
        let board = Rc::new(Board::of((1..=120).map(|file| file * 2), seed));
        let is_over = Rc::new(Cell::new(false));
        let (changing, over) = (board.clone(), is_over.clone());
        let changes = async move {
            let (mut lost, mut removed) = (120, 0);
            for _ in 0..60 {
                changing.pass(30).await;
                let gone = FileId(changing.chance.below(400) + 1);
                removed += usize::from(changing.missing.borrow_mut().remove(&gone).is_some());
                // Some were rebuilt before, and are lost once more.
                let hit = FileId(changing.chance.below(400) + 1);
                if let Entry::Vacant(entry) = changing.missing.borrow_mut().entry(hit) {
                    entry.insert(None);
                    lost += 1;
                }
            }
            over.set(true);
            lost - removed
        };
        let keeps = |client| {
            let (board, is_over) = (board.clone(), is_over.clone());
            async move {
                let mut failed = 0;
                while !is_over.get() || !board.missing.borrow().is_empty() {
                    let told = run(board.clone(), client).await;
                    failed += told.iter().filter(|(_, rebuilt)| rebuilt.is_err()).count();
                    yield_now().await;
                }
                failed
            }
        };
        let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = usize>>>> = vec![Box::pin(changes)];
        tasks.extend((1..=4).map(|client| Box::pin(keeps(client)) as _));
        let ends = together(tasks);
        assert_eq!(ends[1..], [0; 4], "what is removed fails for nobody, seed {seed}");
        assert_eq!(board.rebuilt.borrow().len(), ends[0], "each as often as it was lost, seed {seed}");
        assert!(board.missing.borrow().is_empty(), "seed {seed}");
    }
}
