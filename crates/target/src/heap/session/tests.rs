use crate::Target;
use crate::fake::Fake;
use crate::heap::testing::{again, fresh, lies, used};
use crate::heap::view::MOST_SEEN;
use crate::heap::{Heap, HeapOptions};
use crate::verify::verify;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_model::{Bytes, Kind, Result};
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn heap(settings: HeapSettings) -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(128), settings, HeapOptions::default())
}

fn eager(keep: Duration) -> HeapSettings {
    HeapSettings { threshold: 1, keep, ..HeapSettings::default() }
}

/// Replaces the record by others, one in each commit.
fn replace(fake: &Fake, heap: &Rc<Heap>, mut id: RecordId, commits: u8) -> Vec<(u64, RecordId, u8)> {
    let replace_one = |fill: u8| {
        fake.run(heap.free(id)).unwrap();
        id = fake.run(heap.put(&[fill; 3000])).unwrap();
        (fake.run(heap.commit(Some(id))).unwrap(), id, fill)
    };
    (0..commits).map(replace_one).collect()
}

#[test]
fn a_session_keeps_seeing_its_commit_whatever_is_put_and_freed() {
    let (fake, _target, heap) = heap(eager(Duration::ZERO));
    let old = fake.run(heap.put(b"old")).unwrap();
    let large = fake.run(heap.put(&[7; 100_000])).unwrap();
    let seen = fake.run(heap.commit(Some(old))).unwrap();
    let session = heap.session();
    let later = fake.run(heap.put(b"later")).unwrap();
    fake.run(heap.free(large)).unwrap();
    replace(&fake, &heap, old, 20);
    assert_eq!((session.info().commit, session.root()), (seen, Some(old)));
    assert_eq!(fake.run(session.get(old)).unwrap(), b"old");
    assert_eq!(fake.run(session.get(large)).unwrap(), [7; 100_000]);
    let [a, b] = [old, later].map(|id| fake.run(session.get_many(&[id, large])).swap_remove(0).map_err(|e| e.kind));
    assert_eq!((a.unwrap(), b), (b"old".to_vec(), Err(Kind::Missing)));
    let error = fake.run(session.get(later)).unwrap_err();
    assert!(error.kind == Kind::Missing && error.message.contains(&format!("in commit {seen}")), "{error}");
    assert_eq!(fake.run(heap.get(old)).unwrap_err().kind, Kind::Missing);
    // When nobody looks any more, what it had is used again.
    let kept = |heap: &Rc<Heap>| heap.status().classes.iter().map(|class| class.kept).sum::<u64>();
    assert!(kept(&heap) >= 34);
    drop(session);
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    assert_eq!(kept(&heap), 0);
}

#[test]
fn as_long_as_it_is_kept_a_commit_can_be_read_also_after_a_kill() {
    let (fake, target, heap) = heap(eager(HOUR));
    let first = fake.run(heap.put(b"first")).unwrap();
    let begin = fake.run(heap.commit(Some(first))).unwrap();
    let commits = replace(&fake, &heap, first, 30);
    let check = |heap: &Rc<Heap>| {
        for (commit, id, fill) in &commits {
            let session = fake.run(heap.as_of(*commit)).unwrap();
            assert_eq!(session.root(), Some(*id));
            assert_eq!(fake.run(session.get(*id)).unwrap(), [*fill; 3000]);
            assert_eq!(fake.run(session.get(first)).unwrap_err().kind, Kind::Missing);
        }
        let session = fake.run(heap.as_of(begin)).unwrap();
        assert_eq!(fake.run(session.get(first)).unwrap(), b"first");
    };
    check(&heap);
    let (target, heap) = again(&fake, target, heap);
    check(&heap);
    // What they have is not written over.
    let (_, last, _) = *commits.last().unwrap();
    replace(&fake, &heap, last, 30);
    check(&heap);
    let history = fake.run(heap.history(None, 1000)).unwrap();
    let numbers: Vec<u64> = history.iter().map(|info| info.commit).collect();
    assert_eq!(numbers, (1..=heap.status().last.commit).rev().collect::<Vec<_>>());
    assert_eq!(fake.run(heap.history(Some(20), 3)).unwrap().iter().map(|i| i.commit).collect::<Vec<_>>(), [19, 18, 17]);
    for none in [0, heap.status().last.commit + 1] {
        let error = fake.run(heap.as_of(none)).err().unwrap();
        assert!(error.kind == Kind::Missing && error.message.contains("forebay heap history"), "{error}");
    }
    let (target, heap) = again(&fake, target, heap);
    assert!(heap.complaints().is_empty());
    check(&heap);
    // An hour later nobody has them any more, and nothing of them is left.
    fake.wait(HOUR);
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let status = heap.status();
    assert_eq!((status.oldest, status.archive_slots), (status.last.commit - 3, 3));
    assert_eq!(fake.run(heap.as_of(begin)).err().unwrap().kind, Kind::Missing);
    let (_target, heap) = again(&fake, target, heap);
    let used = used(&heap);
    assert_eq!(used, heap.status().archive_slots + 1);
}

#[test]
fn a_commit_stays_as_long_as_somebody_looks_at_it_though_its_time_is_over() {
    let (fake, _target, heap) = heap(eager(HOUR));
    let first = fake.run(heap.put(b"first")).unwrap();
    let begin = fake.run(heap.commit(Some(first))).unwrap();
    let commits = replace(&fake, &heap, first, 5);
    let session = fake.run(heap.as_of(begin)).unwrap();
    fake.wait(2 * HOUR);
    replace(&fake, &heap, commits[4].1, 5);
    assert_eq!(fake.run(session.get(first)).unwrap(), b"first");
    assert_eq!(heap.status().oldest, begin);
    let other = fake.run(heap.as_of(commits[2].0)).unwrap();
    assert_eq!(fake.run(other.get(commits[2].1)).unwrap(), [2; 3000]);
    drop((session, other));
    fake.run(heap.commit(None)).unwrap();
    assert_eq!(heap.status().oldest, commits[4].0);
}

#[test]
fn where_slots_are_written_once_every_commit_can_be_read_for_ever() {
    let (fake, target, heap) = heap(HeapSettings { mode: HeapMode::Worm, ..eager(Duration::ZERO) });
    let first = fake.run(heap.put(b"first")).unwrap();
    let begin = fake.run(heap.commit(Some(first))).unwrap();
    let commits = replace(&fake, &heap, first, 200);
    fake.wait(100 * HOUR);
    let (_target, heap) = again(&fake, target, heap);
    replace(&fake, &heap, commits.last().unwrap().1, 10);
    for (commit, id, fill) in &commits {
        let session = fake.run(heap.as_of(*commit)).unwrap();
        assert_eq!((session.root(), fake.run(session.get(*id)).unwrap()), (Some(*id), vec![*fill; 3000]));
    }
    let session = fake.run(heap.as_of(begin)).unwrap();
    assert_eq!(fake.run(session.get(first)).unwrap(), b"first");
    assert_eq!(fake.run(heap.history(None, 1000)).unwrap().len() as u64, heap.status().last.commit);
}

#[test]
fn history_that_is_damaged_is_told_and_the_rest_is_whole() {
    let (fake, target, heap) = heap(eager(HOUR));
    let first = fake.run(heap.put(b"first")).unwrap();
    fake.run(heap.commit(Some(first))).unwrap();
    let commits = replace(&fake, &heap, first, 10);
    let damaged = {
        let root = heap.work.borrow().last.clone();
        let kept = fake.run(heap.kept_root(&root, commits[4].0)).unwrap();
        let place = super::Root::place_at(&root.table, kept.pages[0].place);
        heap.work.borrow().space.runs(place, Bytes(4096))[0].0
    };
    fake.disk.flip(damaged);
    let (_target, heap) = again(&fake, target, heap);
    let complaints = heap.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("cannot be read any more"), "{complaints:?}");
    for (commit, id, fill) in &commits {
        match fake.run(heap.as_of(*commit)) {
            Ok(session) => assert_eq!(fake.run(session.get(*id)).unwrap(), [*fill; 3000]),
            Err(error) => assert!(error.kind == Kind::Missing && *commit <= commits[4].0, "{commit}: {error}"),
        }
    }
    assert_eq!(fake.run(heap.get(commits[9].1)).unwrap(), [9; 3000]);
}

#[test]
fn where_a_record_that_keeps_a_commit_is_damaged_those_of_older_ones_are_free_but_for_what_only_it_names() {
    // Of 12 those of 9 to 11 are named by its record alone; of 11 none is; of 16 all are.
    for (damaged, lost) in [(12, 3), (11, 0), (16, 15)] {
        let (fake, target, heap) = heap(eager(HOUR));
        let first = fake.run(heap.put(b"first")).unwrap();
        fake.run(heap.commit(Some(first))).unwrap();
        let last = replace(&fake, &heap, first, 20).pop().unwrap();
        let at = {
            let root = heap.work.borrow().last.clone();
            let next = fake.run(heap.kept_root(&root, damaged + 1)).unwrap();
            lies(&heap, next.towards(damaged).unwrap().1)
        };
        fake.disk.flip(at + Bytes(20));
        let (target, heap) = again(&fake, target, heap);
        let said = |heap: &Rc<Heap>, what: &str| heap.complaints().iter().any(|complaint| complaint.contains(what));
        let unfound = format!("{lost} slots in which commits");
        assert!(said(&heap, &format!("commits before {} cannot", damaged + 1)), "{:?}", heap.complaints());
        assert_eq!(said(&heap, &unfound), lost > 0, "{:?}", heap.complaints());
        fake.run(heap.commit(Some(last.1))).unwrap();
        let kept = last.0 - damaged;
        assert_eq!((heap.status().archive_slots, heap.status().oldest), (kept + lost, damaged + 1));
        assert_eq!(used(&heap), kept + lost + 1);
        fake.run(heap.commit(Some(last.1))).unwrap();
        // It is said for as long as they are there.
        let (target, heap) = again(&fake, target, heap);
        assert_eq!((heap.complaints().len(), said(&heap, &unfound)), (usize::from(lost > 0), lost > 0));
        let session = fake.run(heap.as_of(damaged + 1)).unwrap();
        assert_eq!(fake.run(session.get(session.root().unwrap())).unwrap(), [damaged as u8 - 2; 3000]);
        let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().heaps.remove(0);
        assert_eq!((found.leaked, found.damage), (lost, vec![]));
        drop(target);
    }
}

#[test]
fn all_who_look_at_a_commit_share_what_that_takes_and_too_much_is_refused() {
    let (fake, _target, heap) = heap(eager(HOUR));
    let first = fake.run(heap.put(b"first")).unwrap();
    let begin = fake.run(heap.commit(Some(first))).unwrap();
    let last = replace(&fake, &heap, first, 5).pop().unwrap();
    let seen = || heap.core.seen.get();
    assert_eq!(seen(), 0);
    let many: Vec<_> = (0..100).map(|_| fake.run(heap.as_of(begin)).unwrap()).collect();
    let of_one = seen();
    assert!(of_one >= 2 * 896, "{of_one}");
    assert!(many.iter().all(|session| fake.run(session.get(first)).unwrap() == b"first"));
    let newest = [fake.run(heap.as_of(last.0)).unwrap(), heap.session()];
    assert_eq!(seen(), 2 * of_one);
    assert!(newest.iter().all(|session| fake.run(session.get(last.1)).unwrap() == [4; 3000]));
    drop(newest);
    // Others look at as much as they may.
    heap.core.seen.set(MOST_SEEN);
    for commit in [last.0, last.0 - 1] {
        assert_eq!(fake.run(heap.as_of(commit)).err().unwrap().kind, Kind::Busy);
    }
    assert_eq!(fake.run(fake.run(heap.as_of(begin)).unwrap().get(first)).unwrap(), b"first", "it is looked at already");
    heap.core.seen.set(of_one);
    drop(many);
    assert_eq!((seen(), heap.work.borrow().views.len()), (0, 0));
    fake.run(heap.as_of(begin)).unwrap();
    assert_eq!(seen(), 0);
}

#[test]
fn a_target_that_kept_commits_fill_refuses_more_whole_and_goes_on_when_they_are_old() {
    let fake = Fake::new(Bytes::mib(16), false);
    let target = fake.target();
    let heap = fake.run(target.create_heap("/heap", eager(HOUR), HeapOptions::default())).unwrap();
    let mut id = fake.run(heap.put(&[0; 3000])).unwrap();
    fake.run(heap.commit(Some(id))).unwrap();
    let mut last = (0, id, 0);
    let full = loop {
        let fill = (last.0 % 251) as u8;
        let replaced: Result<_> = fake.run(async {
            heap.free(id).await?;
            id = heap.put(&[fill; 3000]).await?;
            Ok((heap.commit(Some(id)).await?, id, fill))
        });
        match replaced {
            Ok(replaced) => last = replaced,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind, Kind::Full, "{full}");
    fake.run(heap.abort()).unwrap();
    assert_eq!((heap.status().last.commit, heap.root()), (last.0, Some(last.1)));
    assert_eq!(used(&heap), heap.status().archive_slots + 1, "nothing of the commit that failed is left");
    assert_eq!(fake.run(heap.get(last.1)).unwrap(), [last.2; 3000]);
    fake.wait(HOUR);
    assert_eq!(fake.run(heap.commit(heap.root())).unwrap(), last.0 + 1);
    let commits = replace(&fake, &heap, last.1, 30);
    let (_target, heap) = again(&fake, target, heap);
    assert_eq!((heap.root(), heap.complaints()), (Some(commits[29].1), vec![]));
}

#[test]
fn a_heap_that_is_full_is_opened_and_read_and_says_what_it_can_keep() {
    for mode in [HeapMode::Worm, HeapMode::ReadWrite] {
        let fake = Fake::new(Bytes::mib(16), false);
        let target = fake.target();
        let settings = HeapSettings { mode, ..eager(HOUR) };
        let mut heap = fake.run(target.create_heap("/heap", settings, HeapOptions::default())).unwrap();
        let first = fake.run(heap.put(&[1; 3000])).unwrap();
        fake.run(heap.commit(Some(first))).unwrap();
        let full = loop {
            let one: Result<u64> = fake.run(async {
                heap.put(&[2; 3000]).await?;
                heap.commit(Some(first)).await
            });
            if let Err(error) = one {
                break error;
            }
        };
        assert_eq!(full.kind, Kind::Full);
        let last = heap.status().last.commit;
        let mut target = target;
        for _ in 0..100 {
            (target, heap) = again(&fake, target, heap);
            assert_eq!((heap.status().last.commit, heap.root(), heap.complaints()), (last, Some(first), vec![]));
        }
        assert_eq!(fake.run(heap.get(first)).unwrap(), [1; 3000]);
        let session = fake.run(heap.as_of(2)).unwrap();
        assert_eq!(fake.run(session.get(first)).unwrap(), [1; 3000]);
        drop(session);
        if mode == HeapMode::ReadWrite {
            fake.wait(HOUR);
            fake.run(heap.commit(Some(first))).unwrap();
        }
        drop((target, heap));
    }
}

#[test]
fn where_the_slots_run_out_in_which_commits_are_kept_it_goes_on_when_older_ones_are_over() {
    let fake = Fake::new(Bytes::mib(16), false);
    let mut target = fake.target();
    let mut heap = fake.run(target.create_heap("/heap", eager(HOUR), HeapOptions::default())).unwrap();
    let root = fake.run(heap.put(&[1; 3000])).unwrap();
    fake.run(heap.commit(Some(root))).unwrap();
    for length in [8000, 4000, 3000, 2000, 1000, 700, 500, 300, 180, 110, 50] {
        for at_once in [200, 20, 1] {
            let some = || -> Result<u64> {
                (0..at_once).try_for_each(|_| fake.run(heap.put(&vec![3; length])).map(drop))?;
                fake.run(heap.commit(Some(root)))
            };
            while some().is_ok() {}
            fake.run(heap.abort()).unwrap();
        }
    }
    let last = heap.status().last.commit;
    assert_eq!(fake.run(heap.commit(Some(root))).unwrap_err().kind, Kind::Full);
    // As if it took larger slots to keep the next commits: there are none, and these are not given away for them.
    let reserved = heap.work.borrow().reserved.len();
    let tables = heap.work.borrow().last.table.len();
    heap.work.borrow_mut().last.table.extend([5_000_000; 300]);
    fake.run(heap.reserve()).unwrap();
    heap.work.borrow_mut().last.table.truncate(tables);
    assert_eq!((reserved, heap.work.borrow().reserved.len()), (8, 8));
    for round in 0..30 {
        fake.wait(HOUR);
        let commit = fake.run(heap.commit(Some(root)));
        assert_eq!(commit.map_err(|e| (round, e)), Ok(last + 1 + round));
        if round % 7 == 3 {
            (target, heap) = again(&fake, target, heap);
        }
    }
    drop((target, heap));
}

#[test]
fn who_keeps_looking_at_a_commit_takes_no_room_for_what_others_commit() {
    let table_after = |looks: bool| {
        let (fake, _target, heap) = heap(eager(Duration::ZERO));
        let id = fake.run(heap.put(b"first")).unwrap();
        let seen = fake.run(heap.commit(Some(id))).unwrap();
        let session = looks.then(|| fake.run(heap.as_of(seen)).unwrap());
        replace(&fake, &heap, id, 100);
        assert!(session.is_none_or(|session| fake.run(session.get(id)).unwrap() == b"first"));
        heap.work.borrow().allocation.table().len()
    };
    assert_eq!(table_after(true), table_after(false));
}
