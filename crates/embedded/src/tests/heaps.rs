//! Heaps, for the process that has the targets and for one that talks to it.

mod users;

use super::{enter, fresh};
use forebay_client::Cluster;
use forebay_client::heaps::{Heap, HeapSettings, LARGEST_RECORD, NewRoot, RecordId};
use forebay_model::{Error, Kind};

pub(super) const HEAP: &str = "/pages";

fn record(n: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| ((at ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

pub(super) fn create(cluster: &Cluster) -> Heap {
    cluster.heaps().create(HEAP, HeapSettings::default()).expect("created");
    cluster.heaps().open(HEAP).expect("opened")
}

pub(super) fn used(cluster: &Cluster, name: &str) -> u64 {
    cluster.heaps().info(name).expect("a heap").classes.iter().map(|class| class.used).sum()
}

#[test]
fn records_are_put_got_and_freed_alike_by_the_owner_and_by_its_guest() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    for (name, cluster) in [("/own", &owner), ("/guest", &guest)] {
        let heaps = cluster.heaps();
        let settings = HeapSettings { threshold: 1, ..HeapSettings::default() };
        let made = heaps.create(name, settings).expect("created");
        assert_eq!((made.name.as_str(), made.last.root), (name, None));
        let mut heap = heaps.open(name).expect("opened");
        let sizes = [1, 64, 1500, 8182, 8183, 100_000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (9 << 20) + 5, 3];
        let records: Vec<Vec<u8>> = sizes.iter().zip(1..).map(|(size, n)| record(n, *size)).collect();
        records.iter().for_each(|record| heap.send(record).expect("taken in"));
        let ids = heap.settle().expect("put");
        assert_eq!(ids.len(), sizes.len());
        let mut found = Vec::new();
        let mut all_are_there = |heap: &mut Heap| {
            found.clear();
            heap.get_each(&ids, None, |id, record| {
                found.push((id, record?));
                Ok(())
            })
            .expect("they are there");
            assert!(found.iter().map(|(id, _)| id).eq(&ids));
            assert!(found.iter().map(|(_, record)| record).eq(&records));
        };
        all_are_there(&mut heap);
        let commit = heap.commit(NewRoot::Record(ids[2])).expect("committed");
        assert_eq!(commit, made.last.commit + 1);
        let mut other = heaps.open(name).expect("opened");
        all_are_there(&mut other);
        assert_eq!(other.root(None), Ok((commit, Some((ids[2], records[2].clone())))));
        assert_eq!(other.root(Some(commit)), Ok((commit, Some((ids[2], records[2].clone())))));
        let older = other.root(Some(commit - 1)).expect_err("not so far");
        assert_eq!(older.kind, Kind::Missing, "{older}");
        heap.free(&ids[3..]).expect("freed");
        assert_eq!(heap.get(ids[3]).expect_err("it is freed").kind, Kind::Missing);
        assert_eq!(other.get(ids[3]).as_ref(), Ok(&records[3]), "not for others before the commit");
        assert_eq!(heap.commit(NewRoot::Same), Ok(commit + 1));
        assert_eq!(other.get(ids[3]).expect_err("it is freed").kind, Kind::Missing);
        assert_eq!(used(cluster, name), 3);
        assert_eq!(heap.commit(NewRoot::None), Ok(commit + 2));
        assert_eq!(other.root(None), Ok((commit + 2, None)));
    }
    let mut names: Vec<String> = guest.heaps().list().expect("heaps").heaps.into_iter().map(|heap| heap.name).collect();
    names.sort();
    assert_eq!(names, ["/guest", "/own"]);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn what_is_not_committed_is_undone_by_an_abort_and_by_the_end_of_the_connection() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut heap = create(&owner);
    let kept: Vec<RecordId> = (0..3).map(|n| heap.put(&record(n, 500)).expect("put")).collect();
    heap.commit(NewRoot::Same).expect("committed");
    for cluster in [&owner, &guest] {
        let mut heap = cluster.heaps().open(HEAP).expect("opened");
        let id = heap.put(b"undone").expect("put");
        heap.free(&kept[..1]).expect("freed");
        heap.abort().expect("aborted");
        assert_eq!(heap.get(id).expect_err("it was undone").kind, Kind::Missing);
        assert_eq!(heap.get(kept[0]), Ok(record(0, 500)));
        assert_eq!(used(cluster, HEAP), 3);
        heap.put(b"undone, too").expect("put");
        heap.free(&kept[1..2]).expect("freed");
        drop(heap);
        let mut other = cluster.heaps().open(HEAP).expect("opened");
        other.free(&kept[1..2]).expect("it is there");
        other.abort().expect("aborted");
        assert_eq!(used(cluster, HEAP), 3);
    }
    drop(heap);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
    let cluster = enter(dir.path());
    assert_eq!(used(&cluster, HEAP), 3);
    cluster.close().expect("closed");
}

#[test]
fn of_two_who_free_a_record_the_second_is_refused_at_its_commit_and_a_half_batch_is_nobody_elses_commit() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut one = create(&owner);
    let mut other = guest.heaps().open(HEAP).expect("opened");
    let large = record(5, 100_000);
    let kept = [one.put(b"kept").expect("put"), one.put(&large).expect("put"), one.put(b"too").expect("put")];
    one.commit(NewRoot::Same).expect("committed");
    let half = one.put(b"half a batch").expect("put");
    one.free(&kept[..2]).expect("freed");
    assert_eq!(other.get(half).expect_err("it is not committed").kind, Kind::Missing);
    other.free(&kept[1..]).expect("it is there");
    let whole = other.put(b"whole").expect("put");
    let commit = other.commit(NewRoot::Same).expect("committed");
    assert_eq!(other.get(kept[0]), Ok(b"kept".to_vec()), "it is not the other's to free");
    assert_eq!(one.get(whole), Ok(b"whole".to_vec()));
    for _ in 0..2 {
        let late = one.commit(NewRoot::Record(half)).expect_err("one is freed already");
        assert!(late.kind == Kind::Missing && late.message.contains(&kept[1].to_string()), "{late}");
        assert_eq!(other.get(half).expect_err("it is not committed").kind, Kind::Missing);
        assert_eq!(other.root(None), Ok((commit, None)));
    }
    assert_eq!(one.get(half), Ok(b"half a batch".to_vec()), "nothing was changed");
    one.abort().expect("aborted");
    assert_eq!(one.get(half).expect_err("it was undone").kind, Kind::Missing);
    other.free(&kept[..1]).expect("freed");
    other.commit(NewRoot::Same).expect("committed");
    assert_eq!(one.free(&kept[..1]).expect_err("it is gone").kind, Kind::Missing);
    assert_eq!(used(&guest, HEAP), 1);
    drop((one, other));
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn what_is_read_as_of_a_commit_stays_while_it_is_looked_at_and_goes_with_an_abort() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut heap = create(&owner);
    for cluster in [&owner, &guest] {
        let mut reader = cluster.heaps().open(HEAP).expect("opened");
        let records: Vec<Vec<u8>> = (0..2500).map(|n| record(n, 4000)).collect();
        let large = record(7, (9 << 20) + 5);
        records.iter().chain([&large]).for_each(|record| heap.send(record).expect("taken in"));
        let ids = heap.settle().expect("put");
        let then = heap.commit(NewRoot::Record(ids[2500])).expect("committed");
        let (mut seen, mut last) = (0, then);
        let take = |id, found: Result<Vec<u8>, Error>| {
            assert!(found.as_ref() == Ok(records.get(seen).unwrap_or(&large)), "{id}");
            // Nothing is kept but for whoever looks at it: it is freed, and what is put later takes no slot of it.
            if seen == 10 {
                heap.free(&ids)?;
                heap.commit(NewRoot::None)?;
            }
            if seen.is_multiple_of(500) {
                heap.put(&record(seen as u64, 4000))?;
                last = heap.commit(NewRoot::Same)?;
            }
            seen += 1;
            Ok(())
        };
        reader.get_each(&ids, Some(then), take).expect("it is being looked at");
        assert_eq!(seen, 2501);
        let (number, root) = reader.root(Some(then)).expect("still");
        assert!(number == then && root.is_some_and(|(id, bytes)| id == ids[2500] && bytes == large));
        assert_eq!(reader.get(ids[0]).expect_err("not any more").kind, Kind::Missing);
        let mut listed = Vec::new();
        let all = reader.history(u64::MAX, |commit| {
            listed.push(commit.commit);
            Ok(())
        });
        all.expect("commits");
        assert_eq!(listed, [last]);
        let mut other = cluster.heaps().open(HEAP).expect("opened");
        let gone = other.root(Some(then)).expect_err("nobody else looks at it");
        assert!(gone.kind == Kind::Missing && gone.message.contains("forebay heap history"), "{gone}");
    }
    drop(heap);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn commits_at_once_keep_the_root_that_another_one_names() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut one = create(&owner);
    let first = one.put(b"root").expect("put");
    let mut last = one.commit(NewRoot::Record(first)).expect("committed");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = guest.heaps().open(HEAP).expect("opened");
            for n in 0..60 {
                other.put(&record(n, 300)).expect("put");
                other.commit(NewRoot::Same).expect("committed");
            }
        });
        for n in 0..60 {
            let id = one.put(&record(n, 3000)).expect("put");
            let commit = one.commit(NewRoot::Record(id)).expect("committed");
            assert!(commit > last);
            last = commit;
            let (now, root) = one.root(None).expect("a root");
            assert!(now >= commit && root.is_some_and(|(root, _)| root == id), "commit {commit}");
        }
    });
    assert_eq!(used(&owner, HEAP), 121);
    drop(one);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn bad_ids_and_records_are_refused_with_their_kinds_and_change_nothing() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut first = create(&owner);
    let settings = HeapSettings::default();
    owner.heaps().create("/other", settings).expect("created");
    let mut other = owner.heaps().open("/other").expect("opened");
    let foreign = other.put(b"of another heap").expect("put");
    other.commit(NewRoot::Same).expect("committed");
    let stale = first.put(b"will be freed").expect("put");
    let root = first.put(b"the root").expect("put");
    first.commit(NewRoot::Record(root)).expect("committed");
    first.free(&[stale]).expect("freed");
    first.commit(NewRoot::Same).expect("committed");
    let forged = RecordId::from_number(root.number() ^ 1);
    let chained = RecordId::new(root.allocator(), root.slot(), root.tag(), true);
    let far = RecordId::from_number(u64::MAX);
    for cluster in [&owner, &guest] {
        let heaps = cluster.heaps();
        let before = heaps.info(HEAP).expect("a heap");
        let mut heap = heaps.open(HEAP).expect("opened");
        let good = heap.put(b"good").expect("put");
        for id in [stale, forged, chained, far, foreign, RecordId::from_number(0)] {
            for error in [
                heap.get(id).expect_err("get"),
                heap.free(&[good, id]).expect_err("free"),
                heap.commit(NewRoot::Record(id)).expect_err("a root"),
            ] {
                assert_eq!(error.kind, Kind::Missing, "{id}: {error}");
                assert!(error.message.contains(&id.to_string()), "{error}");
            }
        }
        let twice = heap.free(&[good, good]).expect_err("freed twice");
        assert!(twice.kind == Kind::Missing && twice.message.contains("twice"), "{twice}");
        assert_eq!(heap.get(good), Ok(b"good".to_vec()), "none of these freed it");
        heap.free(&[root]).expect("freed");
        assert_eq!(heap.free(&[root]).expect_err("freed before").kind, Kind::Missing);
        let rootless = heap.commit(NewRoot::Same).expect_err("the root is freed");
        assert!(rootless.kind == Kind::Usage && rootless.message.contains("name another root"), "{rootless}");
        for length in [0, LARGEST_RECORD + 1] {
            let error = heap.put(&vec![0; length]).expect_err("no record has so many bytes");
            assert!(error.kind == Kind::Usage && error.message.contains(&length.to_string()), "{error}");
        }
        heap.abort().expect("aborted");
        let after = heaps.info(HEAP).expect("a heap");
        assert_eq!((after.last, after.last.root, used(cluster, HEAP)), (before.last, Some(root), 1));
        let kind = |error: Error| error.kind;
        assert_eq!(heaps.create(HEAP, settings).map_err(kind).expect_err("it is there"), Kind::Exists);
        assert_eq!(heaps.info("/none").map_err(kind), Err(Kind::Missing));
        assert_eq!(heaps.open("/none").map(drop).map_err(kind), Err(Kind::Missing));
        assert_eq!(heaps.create("none", settings).map_err(kind).expect_err("no name"), Kind::Usage);
        cluster.objects().put("/object", true).expect("it begins").finish().expect("put");
        assert_eq!(heaps.create("/object", settings).map_err(kind).expect_err("an object"), Kind::Exists);
        assert_eq!(cluster.objects().put(HEAP, true).map(drop).map_err(kind), Err(Kind::Exists));
    }
    drop((first, other));
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn a_full_target_refuses_a_batch_as_a_whole_and_the_heap_stays_of_use() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut heap = create(&owner);
    let kept = heap.put(b"kept").expect("put");
    heap.commit(NewRoot::Record(kept)).expect("committed");
    for cluster in [&owner, &guest] {
        let mut heap = cluster.heaps().open(HEAP).expect("opened");
        let large = record(1, 1 << 20);
        let refused = (0..100).try_for_each(|_| heap.send(&large)).and_then(|()| heap.settle().map(drop));
        assert_eq!(refused.expect_err("it is full").kind, Kind::Full);
        let half = heap.commit(NewRoot::Same).expect_err("a part of it was refused");
        assert_eq!(half.kind, Kind::Usage, "{half}");
        heap.abort().expect("aborted");
        assert_eq!(used(cluster, HEAP), 1);
        let more = heap.put(b"more").expect("there is room for what has a place");
        heap.commit(NewRoot::Same).expect("committed");
        assert_eq!(heap.get(more), Ok(b"more".to_vec()));
        heap.free(&[more]).expect("freed");
        heap.commit(NewRoot::Same).expect("committed");
        assert_eq!(heap.root(None).expect("a root").1, Some((kept, b"kept".to_vec())));
    }
    drop(heap);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn a_batch_in_a_heap_that_is_deleted_is_refused_until_its_abort_also_if_another_has_the_name() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut old = create(&owner);
    let first = old.put(b"first").expect("put");
    let commit = old.commit(NewRoot::Record(first)).expect("committed");
    for cluster in [&guest, &owner] {
        let heaps = cluster.heaps();
        let (mut batch, mut looks) = (heaps.open(HEAP).expect("opened"), heaps.open(HEAP).expect("opened"));
        batch.put(b"half").expect("put");
        let (_, root) = looks.root(Some(commit)).expect("it is kept");
        owner.heaps().delete(HEAP).expect("deleted");
        let mut new = create(&owner);
        let other = new.put(b"other").expect("put");
        assert_eq!(new.commit(NewRoot::Record(other)), Ok(commit));
        let now = looks.root(Some(commit)).expect("that of the new one");
        assert_eq!(now.1, Some((other, b"other".to_vec())), "and not {root:?}");
        for refused in [batch.put(b"rest").map(drop), batch.commit(NewRoot::Same).map(drop)] {
            refused.expect_err("a half of it is gone");
        }
        batch.abort().expect("aborted");
        batch.put(b"again").expect("put");
        batch.commit(NewRoot::Same).expect("committed");
        assert_eq!(used(cluster, HEAP), 2);
        owner.heaps().delete(HEAP).expect("deleted");
        batch.abort().expect("there is nothing to abort");
        let mut new = create(&owner);
        let first = new.put(b"first").expect("put");
        assert_eq!(new.commit(NewRoot::Record(first)), Ok(commit));
    }
    drop(old);
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn a_transaction_whose_server_went_away_is_told_of_and_never_half_committed() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let mut heap = create(&owner);
    let kept = heap.put(b"kept").expect("put");
    heap.commit(NewRoot::Record(kept)).expect("committed");
    drop(heap);
    let mut heap = guest.heaps().open(HEAP).expect("opened");
    heap.put(b"lost").expect("put");
    owner.close().expect("closed");
    let lost = heap.put(b"after").expect_err("the transaction is gone");
    assert!(lost.kind == Kind::Disconnected && lost.message.contains("since the last commit"), "{lost}");
    assert_eq!(heap.commit(NewRoot::Same).expect_err("not a part of it").kind, Kind::Usage);
    heap.abort().expect("aborted");
    // The guest is the owner now, and what reads goes on by itself.
    assert_eq!(heap.get(kept), Ok(b"kept".to_vec()));
    let again = heap.put(b"again").expect("put");
    heap.commit(NewRoot::Record(again)).expect("committed");
    assert_eq!(used(&guest, HEAP), 2);
    drop(heap);
    guest.close().expect("closed");
}
