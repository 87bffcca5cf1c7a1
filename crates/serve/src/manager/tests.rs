use super::*;
use forebay_env::pipe::Outlet;
use forebay_model::{Moment, Timestamp};
use forebay_wire::control::{Question, Reply};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;

thread_local! {
    static TOLD: RefCell<Vec<News>> = const { RefCell::new(Vec::new()) };
}

fn tell(news: News) {
    TOLD.with_borrow_mut(|told| told.push(news));
}

fn told() -> Vec<News> {
    TOLD.with_borrow(|told| told.clone())
}

/// Counts pauses, each of which is over at once.
#[derive(Default)]
struct Counting(Cell<u64>);

impl Clock for Counting {
    fn now(&self) -> Moment {
        Moment(0)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep_until(&self, _: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        self.0.set(self.0.get() + 1);
        Box::pin(std::future::ready(()))
    }
}

/// What comes of opening again and again what `open` opens, which is told how often it was tried before; at which pauses that was, and
/// what those got who asked something just before each time.
async fn opening(open: impl Fn(usize) -> Result<u8>) -> (Result<Option<u8>>, Vec<u64>, Vec<Outlet<Result<Reply>>>) {
    let (errands, mut receiver) = mailbox();
    let (clock, tried, asked) = (Counting::default(), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let opened = reopened(&mut receiver, &clock, tell, async || {
        let before = tried.borrow().len();
        tried.borrow_mut().push(clock.0.get());
        let (answer, outlet) = pipe(0);
        assert!(errands.send(Errand::Ask(Principal::root(1), Question::Map, answer)).is_ok());
        asked.borrow_mut().push(outlet);
        let opened = open(before);
        if opened.as_ref().is_err_and(|error| error.message.contains("end")) {
            assert!(errands.send(Errand::End).is_ok());
        }
        opened
    })
    .await;
    (opened, tried.into_inner(), asked.into_inner())
}

#[test]
fn what_keeps_metadata_from_being_opened_is_told_once_and_to_whoever_asks_meanwhile() {
    let run = real::run_network(|_| async {
        let full = || Error::full("there is no room for the metadata");
        let (opened, tried, mut asked) = opening(|before| if before < 6 { Err(full()) } else { Ok(7) }).await;
        assert_eq!((opened, &tried[..]), (Ok(Some(7)), &[1, 3, 7, 15, 25, 35, 45][..]));
        for outlet in &mut asked[..6] {
            let refused = outlet.receive().await.expect("an answer").expect_err("nobody is there");
            assert_eq!(refused.kind, Kind::Disconnected, "it may be asked again");
            assert!(refused.message.contains("no room for the metadata"), "{refused}");
        }
        assert_eq!(told(), [News::MetadataAway(full()), News::MetadataBack]);
        // Who is told to end meanwhile says what kept it.
        let (ended, ..) = opening(|_| Err(Error::device("it gives out until the end"))).await;
        assert_eq!(ended, Err(Error::device("it gives out until the end")));
        // What is there the first time is nothing to speak of.
        let before = told().len();
        let (opened, tried, _) = opening(|_| Ok(7)).await;
        assert_eq!((opened, &tried[..], told().len()), (Ok(Some(7)), &[1][..], before));
    });
    run.expect("it runs");
}

#[test]
fn metadata_that_stay_as_they_are_end_the_manager_with_what_helps() {
    let run = real::run_network(|_| async {
        let of_another = Error::new(Kind::Version, "use the release that wrote it");
        for error in [Error::damaged("restore it"), of_another, Error::stale("a copy is newer")] {
            let away = Error::busy("another process has it");
            let open = |before: usize| Err(if before < 2 { away.clone() } else { error.clone() });
            let (opened, tried, _) = opening(open).await;
            assert_eq!((opened, &tried[..]), (Err(error.clone()), &[1, 3, 7][..]));
        }
    });
    run.expect("it runs");
}

#[test]
fn whoever_waits_for_the_end_of_a_manager_learns_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let metadata = Metadata { path: &dir.path().join("manager.redb"), cache: Bytes::mib(1) };
    let start = || {
        let policy = crate::server::policy(None, 0);
        ManagerHost::start(metadata, policy, Settings::default(), OnHosts::new([]), Tls::default(), |_| {})
    };
    let manager = start().expect("it starts");
    let over = Arc::new(Watched::new(0));
    let seen = over.clone();
    manager.when_over(move || seen.change(|times| *times += 1)).expect("a thread");
    assert_eq!(*over.lock(), 0);
    manager.close().expect("it ends");
    assert_eq!(*over.wait_while(over.lock(), |times| *times == 0), 1);
    start().expect("its file is free").close().expect("it ends");
}
