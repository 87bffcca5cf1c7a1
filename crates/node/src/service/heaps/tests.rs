use super::begun::PATIENCE;
use super::*;
use forebay_env::real;
use forebay_model::Profile;
use forebay_target::Target;
use std::future::Future;

const NAME: &str = "/heap";

/// Runs a test on the loop of a target with one heap.
fn with_heap<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rc<Service>) -> F + 'static) {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let device = real::create_file(dir.path().join("target"), Bytes::mib(256)).expect("a file for the target");
    real::run(real::Options { device }, |env| async move {
        Target::format(env.clone(), Profile::guess(Bytes::mib(256), false)).await.expect("a target");
        let target = Target::open(env.clone()).await.expect("it opens");
        let service = Service::new(env, target);
        create(&service, NAME, HeapSettings::default()).await.expect("a heap");
        test(service.clone()).await;
        end_all(&service).await;
        service.target.close().await.expect("everything is durable");
    })
    .expect("the loop of the target");
}

/// What is answered to something that is asked over a link.
async fn said(service: &Rc<Service>, link: u64, ask: HeapAsk, payload: &[u8]) -> Result<HeapReply> {
    let request = HeapRequest { target: service.target.id(), heap: NAME.to_string(), ask };
    let (of, ticket) = session(service, LinkId(link), &request, None)?;
    let _turn = of.turns.wait(ticket).await;
    of.ask(service, request, payload).await.map(|answer| answer.reply)
}

/// Puts a record over a link, whether it is the end of one or not.
async fn put(service: &Rc<Service>, link: u64) -> Result<HeapReply> {
    said(service, link, HeapAsk::Put { lengths: vec![6], from: 0, more: false }, b"record").await
}

/// Puts a record over a link and commits.
async fn commit(service: &Rc<Service>, link: u64) {
    put(service, link).await.expect("there is room");
    said(service, link, HeapAsk::Commit { root: NewRoot::None }, &[]).await.expect("it is committed");
}

/// The number of a commit, as a link sees it: of the last one, or of this.
async fn seen(service: &Rc<Service>, link: u64, as_of: Option<u64>) -> Result<u64> {
    match said(service, link, HeapAsk::Root { as_of }, &[]).await? {
        HeapReply::Root { commit, .. } => Ok(commit),
        other => panic!("{other:?} is no root"),
    }
}

#[test]
fn who_has_only_read_a_heap_that_is_no_more_goes_on_with_the_next_and_who_has_put_something_is_told() {
    with_heap(|service| async move {
        commit(&service, 3).await;
        assert_eq!(seen(&service, 1, None).await.expect("it is there"), 2);
        put(&service, 2).await.expect("there is room");
        let part = HeapAsk::Put { lengths: vec![4], from: 0, more: true };
        said(&service, 4, part, b"half").await.expect("there is room");
        // As where it is opened anew, those who have it are not asked.
        service.target.delete_heap(NAME).await.expect("it was there");
        let options = HeapOptions::default();
        service.target.create_heap(NAME, HeapSettings::default(), options).await.expect("another one");
        assert_eq!(seen(&service, 1, None).await.expect("the other one is"), 1);
        put(&service, 1).await.expect("there is room");
        let rest = HeapAsk::Put { lengths: vec![4], from: 4, more: false };
        for error in [
            put(&service, 2).await.expect_err("what was put is gone"),
            said(&service, 4, rest, b"more").await.expect_err("what came of the record was for the other one"),
        ] {
            assert!(error.kind == Kind::Missing && error.message.contains("was deleted"), "{error}");
        }
        said(&service, 2, HeapAsk::Abort, &[]).await.expect("it is undone");
        put(&service, 2).await.expect("there is room");
    });
}

#[test]
fn a_commit_that_was_looked_at_and_is_not_asked_about_for_a_minute_is_let_go_of() {
    with_heap(|service| async move {
        commit(&service, 1).await;
        assert_eq!(seen(&service, 2, Some(2)).await.expect("it is the last one"), 2);
        for _ in 0..3 {
            commit(&service, 1).await;
        }
        let now = || service.env.clock.now();
        assert_eq!(seen(&service, 2, Some(2)).await.expect("it is looked at"), 2);
        service.heaps.let_looks_go(now() + Duration::from_secs(30));
        assert_eq!(seen(&service, 2, Some(2)).await.expect("it was asked about not long ago"), 2);
        service.heaps.let_looks_go(now() + Duration::from_secs(60));
        assert_eq!(seen(&service, 2, Some(2)).await.expect_err("its room is that of others").kind, Kind::Missing);
        assert_eq!(seen(&service, 2, Some(5)).await.expect("it is the last one"), 5);
    });
}

#[test]
fn who_stops_in_the_middle_of_a_large_record_keeps_room_from_others_for_a_minute_and_cannot_commit_without_it() {
    with_heap(|service| async move {
        let part = |from| HeapAsk::Put { lengths: vec![4], from, more: true };
        put(&service, 1).await.expect("there is room");
        said(&service, 1, part(0), b"half").await.expect("there is room");
        // As if others had all the rest.
        service.heaps.begun.set(512 << 20);
        assert_eq!(said(&service, 2, part(0), b"half").await.expect_err("there is no room").kind, Kind::Busy);
        let (mut others, now) = (Begun::new(&service.heaps.begun), service.env.clock.now());
        assert_eq!(service.heaps.add(&mut others, b"half", now).expect_err("it goes on, perhaps").kind, Kind::Busy);
        service.heaps.add(&mut others, b"half", now + PATIENCE).expect("it does not go on");
        service.heaps.begun.set(4);
        for ask in [part(4), part(0), HeapAsk::Commit { root: NewRoot::Same }] {
            let payload = if matches!(ask, HeapAsk::Put { .. }) { &b"more"[..] } else { &[] };
            let error = said(&service, 1, ask, payload).await.expect_err("a part of it is gone");
            assert!(error.kind == Kind::Busy && error.message.contains("given up"), "{error}");
        }
        said(&service, 1, HeapAsk::Abort, &[]).await.expect("it is undone");
        commit(&service, 1).await;
    });
}
