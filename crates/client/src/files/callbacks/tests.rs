use super::*;
use crate::file::Sharing;
use crate::file::components::Asked;
use std::collections::VecDeque;

const FILE: FileId = FileId(5);

/// A manager that is not there.
struct Nobody;

impl Control for Nobody {
    fn change(&self, _: Change) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn ask(&self, _: Question) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn client(&self) -> u64 {
        1
    }
}

fn called(serial: u64) -> Called {
    let told = Callback { file: FILE, caching: Caching::Nothing, serial };
    Called { files: vec![told], ..Called::default() }
}

#[test]
fn a_call_that_is_here_before_the_answer_that_opens_the_file_is_heeded_with_that() {
    let found = forebay_env::real::run_network(|env| async move {
        let now = env.clock.through_sleep();
        let keeper = Keeper::new(Rc::new(Nobody), env.clock.clone(), env.spawner.clone());
        let begun = keeper.begins();
        keeper.heed(called(2), now);
        let is_said = keeper.unsaid.borrow().contains_key(&FILE);
        let exclusive = Callback { file: FILE, caching: Caching::Exclusive, serial: 1 };
        let coming = keeper.opened(FILE, Some(exclusive), now, true, Rc::default());
        drop(begun);
        let is_asked = keeper.files.borrow()[&FILE].is_asked;
        (is_said, coming.sharing().await, is_asked)
    });
    let (is_said, sharing, is_asked) = found.expect("a loop");
    assert!(!is_said, "others would be let in beside one who takes itself to be alone");
    assert_eq!(sharing, Ok(Sharing::Beside));
    assert!(is_asked, "the manager is told what is kept");
}

#[test]
fn nobody_is_alone_with_what_its_client_left_unfinished_before_the_manager_that_knows_says_so_again() {
    let found = forebay_env::real::run_network(|env| async move {
        let now = env.clock.through_sleep();
        let keeper = Keeper::new(Rc::new(Nobody), env.clock.clone(), env.spawner.clone());
        let told = |serial| Callback { file: FILE, caching: Caching::Exclusive, serial };
        let unfinished = Rc::new(Cell::new(true));
        let coming = keeper.opened(FILE, Some(told(1)), now, true, unfinished.clone());
        let mut found = vec![coming.sharing().await == Ok(Sharing::Alone)];
        // What the manager says before it knows counts no more than what it said before.
        keeper.heed(Called { files: vec![told(2)], ..Called::default() }, now);
        found.push(coming.sharing().await == Ok(Sharing::Alone));
        let is_asked = keeper.files.borrow()[&FILE].is_asked;
        keeper.files.borrow_mut().get_mut(&FILE).expect("it is being opened").leave();
        unfinished.set(false);
        found.push(coming.sharing().await == Ok(Sharing::Alone));
        keeper.heed(Called { files: vec![told(3)], ..Called::default() }, now);
        found.push(coming.sharing().await == Ok(Sharing::Alone));
        (found, is_asked)
    });
    let (found, is_asked) = found.expect("a loop");
    assert_eq!(found, [false, false, false, true]);
    assert!(is_asked, "the manager is told what is kept");
}

#[test]
fn what_was_declined_is_told_again_when_what_was_in_the_way_is_gone_unless_the_manager_said_something_else_since() {
    let exclusive = Callback { file: FILE, caching: Caching::Exclusive, serial: 1 };
    let mut open = Open::of(exclusive, 1, Rc::default());
    // That it could not be taken up is nothing that ends here.
    open.lower(Caching::Nothing, false);
    assert!(!open.is_declined && open.told.caching == Caching::Nothing);
    open.hear(Callback { serial: 2, ..exclusive });
    open.lower(Caching::Nothing, true);
    assert!(open.is_declined);
    open.hear(open.told);
    assert!(open.is_declined, "it is said under the same number");
    open.hear(Callback { serial: 3, ..exclusive });
    assert!(!open.is_declined);
}

#[test]
fn what_is_called_back_and_was_not_asked_to_be_opened_before_is_said_not_to_be_open() {
    let found = forebay_env::real::run_network(|env| async move {
        let now = env.clock.through_sleep();
        let keeper = Keeper::new(Rc::new(Nobody), env.clock.clone(), env.spawner.clone());
        let is_said = || keeper.unsaid.borrow_mut().remove(&FILE).is_some();
        let first = keeper.begins();
        keeper.heed(called(2), now);
        let mut said = vec![is_said()];
        // What is asked from now on is answered behind the call.
        let second = keeper.begins();
        drop(first);
        keeper.heed(called(2), now);
        said.push(is_said());
        drop(second);
        keeper.heed(called(3), now);
        said.push(is_said());
        (said, keeper.early.borrow().is_empty())
    });
    assert_eq!(found.expect("a loop"), (vec![false, true, true], true));
}

/// A manager that gives these answers to who listens, and takes note of what was said.
#[derive(Default)]
struct Scripted {
    answers: RefCell<VecDeque<Result<Called>>>,
    heard: RefCell<Vec<String>>,
}

impl Control for Scripted {
    fn change(&self, change: Change) -> Asked<Reply> {
        self.heard.borrow_mut().push(format!("{change:?}"));
        Box::pin(async { Ok(Reply::Done) })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let Question::Listen(Listen { kept, all, part, more }) = question else { panic!("{question:?}") };
        self.heard.borrow_mut().push(format!("{} of {all} {part} {more}", kept.len()));
        let answer = self.answers.borrow_mut().pop_front().expect("no more is asked");
        Box::pin(async { answer.map(Reply::Called) })
    }

    fn client(&self) -> u64 {
        1
    }
}

/// What a client says that has so many files open to read, asked so often; and whether it has to say anything more of all of them.
fn said(files: u64, answers: Vec<Result<Called>>) -> (Vec<String>, bool) {
    let found = forebay_env::real::run_network(move |env| async move {
        let times = answers.len();
        let manager = Rc::new(Scripted { answers: RefCell::new(answers.into()), ..Scripted::default() });
        let keeper = Keeper::new(manager.clone(), env.clock.clone(), env.spawner.clone());
        let now = env.clock.through_sleep();
        keeper.record().await.expect("it is said");
        let coming: Vec<Coming> = (0..files)
            .map(|file| {
                let told = Callback { file: FileId(file), caching: Caching::Shared, serial: 1 };
                keeper.opened(FileId(file), Some(told), now, false, Rc::default())
            })
            .collect();
        let mut all = None;
        for _ in 0..times {
            all = keeper.listen(all).await;
        }
        drop(coming);
        (manager.heard.take(), all.is_some())
    });
    found.expect("a loop")
}

fn unknown(unknown: bool) -> Result<Called> {
    Ok(Called { unknown, ..Called::default() })
}

#[test]
fn all_that_is_kept_is_said_in_parts_and_from_the_beginning_if_another_manager_heard_some_of_them() {
    let all = ["1024 of true 0 true", "1024 of true 1 true", "2 of true 2 false"];
    let (heard, is_asked) = said(2050, [true, true, true, true, true, true, false].map(unknown).into());
    assert_eq!(heard[..2], ["Caches", "0 of false 0 false"]);
    assert_eq!((&heard[2..5], &heard[5..]), (&all.map(String::from)[..], &all.map(String::from)[..]));
    assert!(!is_asked);
    assert_eq!(said(1024, vec![unknown(true), unknown(false)]).0[2..], ["1024 of true 0 false"]);
}

#[test]
fn who_was_forgotten_as_one_that_keeps_what_it_reads_says_so_again_before_it_says_what_it_keeps() {
    let forgotten = || Err(Error::stale("this client has not said that it keeps what it reads"));
    let (heard, is_asked) = said(1, vec![unknown(true), forgotten(), unknown(false)]);
    assert_eq!(heard[1..], ["0 of false 0 false", "1 of true 0 false", "Caches", "1 of true 0 false"]);
    assert!(!is_asked);
}
