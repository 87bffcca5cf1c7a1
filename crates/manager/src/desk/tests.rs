use super::{Desk, Ended, Errand, MOST_TOGETHER, refuse_all, serve};
use crate::copies::{Copies, Nowhere};
use crate::manager::Asked;
use crate::principal::Principal;
use crate::testing::{Stage, Still, close, create, report, root};
use forebay_env::Task;
use forebay_env::executor::Executor;
use forebay_env::mailbox::{Receiver, Sender, mailbox};
use forebay_env::pipe::{Outlet, pipe};
use forebay_model::{Kind, Result};
use forebay_wire::control::cluster::Report;
use forebay_wire::control::files::{Listen, MakeWay, OpenToRead, OpenToWrite};
use forebay_wire::control::names::{Place, Stat};
use forebay_wire::control::{Call, Change, Question, Reply};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Errands for a loop that has not begun.
struct Waiting {
    errands: Sender<Errand>,
    receiver: Receiver<Errand>,
}

impl Waiting {
    fn new() -> Waiting {
        let (errands, receiver) = mailbox();
        Waiting { errands, receiver }
    }

    fn send<T>(&self, errand: impl FnOnce(forebay_env::pipe::Inlet<T>) -> Errand) -> Outlet<T> {
        let (answer, outlet) = pipe(0);
        assert!(self.errands.send(errand(answer)).is_ok());
        outlet
    }

    fn create(&self, sequence: u64, path: &str) -> Outlet<Result<Reply>> {
        let call = Call { sequence, change: create(path, 0o644) };
        self.send(|answer| Errand::Change(Asked { by: root(), call }, answer))
    }

    fn ask(&self, question: Question) -> Outlet<Result<Reply>> {
        self.send(|answer| Errand::Ask(root(), question, answer))
    }

    /// Has a loop do all of it, and says how that ended; `None` if it goes on.
    fn served(mut self, stage: Stage) -> Option<Result<Ended>> {
        let executor = Executor::new(|| {});
        let ended = Rc::new(RefCell::new(None));
        let told = ended.clone();
        let _serving: Task<()> = executor.spawner().spawn(async move {
            let Stage { mut manager, now, .. } = stage;
            let mut copies = Copies::new(Rc::new(Nowhere), Rc::new(Still(now)));
            let outcome = serve(&mut manager, Rc::new(Still(now)), &mut self.receiver, &mut copies).await;
            *told.borrow_mut() = Some(outcome);
        });
        assert!(executor.run_ready(usize::MAX));
        ended.take()
    }
}

/// The answers, in the order in which they were asked for.
fn answers(outlets: Vec<Outlet<Result<Reply>>>) -> Vec<Result<Reply>> {
    outlets.into_iter().map(|mut outlet| outlet.receive_blocking().expect("it is answered")).collect()
}

#[test]
fn changes_do_not_wait_for_an_end_of_the_questions() {
    let (stage, waiting) = (Stage::new(), Waiting::new());
    let made = waiting.create(900, "a");
    let stat = || Question::Stat(Stat { place: Place::path("a") });
    let asked: Vec<_> = (0..2 * MOST_TOGETHER).map(|_| waiting.ask(stat())).collect();
    waiting.served(stage);
    assert!(answers(vec![made])[0].is_ok());
    let found: Vec<bool> = answers(asked).iter().map(Result::is_ok).collect();
    assert!(!found[0] && found[MOST_TOGETHER], "asked within the first round, and behind it");
}

#[test]
fn what_time_alone_changes_does_not_wait_for_an_end_of_the_questions() {
    let (mut stage, waiting) = (Stage::new(), Waiting::new());
    // What is counted from here on is counted by the first tick.
    stage.manager.tick(stage.now).unwrap();
    stage.pass(Duration::from_secs(31));
    let asked: Vec<_> = (0..2 * MOST_TOGETHER).map(|_| waiting.ask(Question::Map)).collect();
    waiting.served(stage);
    let up = |answer: &Result<Reply>| match answer {
        Ok(Reply::Map(map)) => map.nodes.iter().filter(|node| node.up).count(),
        other => panic!("{other:?} is no map"),
    };
    let answers = answers(asked);
    assert_eq!((up(&answers[0]), up(&answers[MOST_TOGETHER])), (5, 0));
}

#[test]
fn changes_that_wait_together_are_one_commit() {
    let (stage, waiting) = (Stage::new(), Waiting::new());
    let (engine, before) = (stage.engine.clone(), stage.engine.commits());
    let made = (0..50).map(|number| waiting.create(900 + number, &format!("f{number}"))).collect();
    waiting.served(stage);
    assert!(answers(made).iter().all(Result::is_ok));
    assert_eq!(engine.commits(), before + 1);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_done() {
    let (stage, waiting) = (Stage::new(), Waiting::new());
    let moved = Report { address: "elsewhere:1".into(), ..report(1) };
    drop(waiting.send(|answer| Errand::Report(root(), moved, answer)));
    let map = waiting.ask(Question::Map);
    waiting.served(stage);
    match &answers(vec![map])[0] {
        Ok(Reply::Map(map)) => assert!(map.nodes.iter().all(|node| node.address != "elsewhere:1")),
        other => panic!("{other:?} is no map"),
    }
}

#[test]
fn it_ends_when_it_is_told_to_with_what_was_asked_before() {
    let (stage, waiting) = (Stage::new(), Waiting::new());
    let made = waiting.create(900, "a");
    let desk = Desk::new(waiting.errands.clone());
    desk.end();
    assert_eq!(waiting.served(stage), Some(Ok(Ended::Told)));
    assert!(answers(vec![made])[0].is_ok());
    assert!(!desk.tick(), "nobody is there any more");
}

#[test]
fn it_ends_when_its_manager_may_not_be_asked_any_more() {
    let (stage, waiting) = (Stage::new(), Waiting::new());
    stage.engine.crash_at(0, 0);
    let made = waiting.create(900, "a");
    assert_eq!(waiting.served(stage), Some(Ok(Ended::Closed)));
    assert_eq!(answers(vec![made])[0].as_ref().unwrap_err().kind, Kind::Disconnected);
}

#[test]
fn while_no_manager_is_there_whoever_asks_learns_of_it() {
    let mut waiting = Waiting::new();
    let mut made = waiting.create(900, "a");
    assert!(!refuse_all(&mut waiting.receiver));
    assert!(made.receive_blocking().is_none());
    Desk::new(waiting.errands.clone()).end();
    assert!(refuse_all(&mut waiting.receiver), "it was told to end meanwhile");
}

#[test]
fn who_waits_is_answered_as_soon_as_there_is_something_and_not_before() {
    let (mut stage, waiting) = (Stage::new(), Waiting::new());
    let file = stage.file(&root(), "a", 0o666).unwrap();
    let (writer, reader, quiet) = (Principal::root(10), Principal::root(11), Principal::root(12));
    let place = Place::path("a");
    let open = OpenToWrite { place: place.clone(), alone: false, upkeep: false, yields: false, cached: true };
    stage.change(&writer, Change::OpenToWrite(open)).unwrap();
    stage.change(&reader, Change::Caches).unwrap();
    for client in [&writer, &quiet] {
        stage.ask(client, &Question::Listen(Listen { kept: Vec::new(), all: true, part: 0, more: false })).unwrap();
    }
    let ask = |by: &Principal, question| waiting.send(|answer| Errand::Ask(by.clone(), question, answer));
    let listen = || Question::Listen(Listen { kept: Vec::new(), all: false, part: 0, more: false });
    let (called, mut nothing) = (ask(&writer, listen()), ask(&quiet, listen()));
    let opened = ask(&reader, Question::OpenToRead(OpenToRead { place: place.clone(), cached: true }));
    let way = ask(&reader, Question::MakeWay(MakeWay { place, write: false, cached: true }));
    let close = close(file);
    let call = Call { sequence: 900, change: Change::Close(close) };
    let closed = waiting.send(|answer| Errand::Change(Asked { by: writer.clone(), call }, answer));
    assert!(waiting.errands.send(Errand::End).is_ok());
    assert!(waiting.served(stage).is_some_and(|ended| ended.is_ok()));
    let answered = answers(vec![called, opened, way, closed]);
    assert!(matches!(&answered[0], Ok(Reply::Called(called)) if called.files.len() == 1), "{:?}", answered[0]);
    assert_eq!(answered[1], Ok(Reply::Calling));
    assert_eq!(answered[2], Ok(Reply::Done), "the writer has closed it");
    assert!(answered[3].is_ok());
    assert!(nothing.receive_blocking().is_none(), "there was nothing for this one when the loop ended");
}
