use crate::Target;
use crate::fake::Fake;
use crate::heap::tags::Tags;
use crate::heap::testing::{again, fresh, used};
use crate::heap::{Heap, HeapOptions, Writer};
use crate::seeds::each;
use crate::verify::verify;
use forebay_env::yield_now;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Kind, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

fn heap() -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(64), HeapSettings { threshold: 1, ..HeapSettings::default() }, HeapOptions::default())
}

/// A committed record that a writer has freed, and then another one.
fn freed_twice(fake: &Fake, heap: &Rc<Heap>) -> (RecordId, Writer) {
    let id = fake.run(heap.put(&[1; 3000])).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let writer = heap.writer();
    fake.run(writer.free(id)).unwrap();
    fake.run(heap.free(id)).unwrap();
    (id, writer)
}

#[test]
fn what_a_writer_does_is_its_own_until_it_is_merged() {
    let (fake, _target, heap) = heap();
    let theirs = fake.run(heap.put(b"theirs")).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let writer = heap.writer();
    let mine = fake.run(writer.put(b"mine")).unwrap();
    let large = fake.run(writer.put(&[3; 50_000])).unwrap();
    fake.run(writer.free(theirs)).unwrap();
    assert_eq!(fake.run(writer.get(mine)).unwrap(), b"mine");
    assert_eq!(fake.run(writer.get_many(&[large])).remove(0).unwrap(), [3; 50_000]);
    assert_eq!(fake.run(writer.get(theirs)).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(writer.free(theirs)).unwrap_err().kind, Kind::Missing, "freed twice");
    for other in [fake.run(heap.get(mine)), fake.run(heap.writer().get(large))] {
        assert_eq!(other.unwrap_err().kind, Kind::Missing);
    }
    assert_eq!(fake.run(heap.free(mine)).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(heap.commit(Some(mine))).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(heap.get(theirs)).unwrap(), b"theirs");
    // The commit of another takes none of it.
    fake.run(heap.commit(None)).unwrap();
    assert_eq!(used(&heap), 1);
    fake.run(writer.merge()).unwrap();
    assert_eq!(writer.changes(), 0);
    assert_eq!(fake.run(heap.get(mine)).unwrap(), b"mine");
    assert_eq!(fake.run(heap.get(theirs)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn what_a_writer_did_not_merge_is_undone_by_itself_and_by_a_kill() {
    let (fake, target, heap) = heap();
    let theirs = fake.run(heap.put(b"theirs")).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let writer = heap.writer();
    for n in 0..5000u32 {
        fake.run(writer.put(&[n as u8; 3000])).unwrap();
    }
    fake.run(writer.free(theirs)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    writer.abort();
    assert_eq!(fake.run(writer.get(theirs)).unwrap(), b"theirs");
    let kept = fake.run(writer.put(b"kept")).unwrap();
    fake.run(writer.commit(Some(kept))).unwrap();
    let gone = fake.run(writer.put(b"gone")).unwrap();
    drop(writer);
    assert_eq!((used(&heap), heap.root()), (2, Some(kept)));
    let last = heap.writer();
    let lost = fake.run(last.put(b"lost")).unwrap();
    fake.run(heap.commit(None)).unwrap();
    drop(last);
    drop((target, heap));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let heap = fake.run(target.heap("/heap", HeapOptions::default())).unwrap();
    assert_eq!(fake.run(heap.get(kept)).unwrap(), b"kept");
    for id in [gone, lost] {
        assert_eq!(fake.run(heap.get(id)).unwrap_err().kind, Kind::Missing);
    }
    assert_eq!(used(&heap), 2);
}

#[test]
fn of_two_who_free_the_same_record_the_second_is_refused_and_changes_nothing() {
    let (fake, _target, heap) = heap();
    let both = fake.run(heap.put(b"both")).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let [one, other] = [heap.writer(), heap.writer()];
    let extra = fake.run(other.put(b"extra")).unwrap();
    for writer in [&one, &other] {
        fake.run(writer.free(both)).unwrap();
    }
    fake.run(one.merge()).unwrap();
    assert_eq!(fake.run(other.commit(Some(extra))).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(heap.get(extra)).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(other.get(extra)).unwrap(), b"extra", "it can still be aborted, or merged without");
}

#[test]
fn an_abort_of_what_is_for_all_leaves_writers_what_is_theirs() {
    let (fake, _target, heap) = heap();
    let writer = heap.writer();
    let mine = fake.run(writer.put(b"mine")).unwrap();
    let common = fake.run(heap.put(b"common")).unwrap();
    fake.run(heap.abort()).unwrap();
    assert_eq!(fake.run(heap.get(common)).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(writer.get(mine)).unwrap(), b"mine");
    fake.run(writer.commit(Some(mine))).unwrap();
    assert_eq!((used(&heap), fake.run(heap.get(mine)).unwrap()), (1, b"mine".to_vec()));
}

#[test]
fn records_are_freed_all_or_none_and_the_cold_ones_are_read_together() {
    let (fake, target, heap) = heap();
    let mut ids: Vec<RecordId> = (0..3000u32).map(|n| fake.run(heap.put(&n.to_le_bytes())).unwrap()).collect();
    ids.push(fake.run(heap.put(&[1; 100_000])).unwrap());
    ids.push(fake.run(heap.put(&[2; 10_000_000])).unwrap());
    let stale = fake.run(heap.put(b"stale")).unwrap();
    fake.run(heap.free(stale)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    drop((target, heap));
    let target = fake.run(Target::open(fake.env())).unwrap();
    let heap = fake.run(target.heap("/heap", HeapOptions::default())).unwrap();
    let all = used(&heap);
    let writer = heap.writer();
    fake.disk.log();
    fake.run(heap.writer().free_many(&ids)).unwrap();
    let reads = fake.disk.log().len();
    assert!(reads < 10, "{reads} reads");
    for (odd, word) in [(stale, "freed"), (ids[7], "twice")] {
        let batch: Vec<RecordId> = ids.iter().copied().chain([odd]).collect();
        for error in [fake.run(heap.free_many(&batch)), fake.run(writer.free_many(&batch))].map(|all| all.unwrap_err())
        {
            assert!(error.kind == Kind::Missing && error.message.contains(word), "{error}");
            assert!(error.message.contains(&odd.to_string()), "{error}");
        }
        assert_eq!((used(&heap), writer.changes()), (all, 0));
    }
    let own = fake.run(writer.put(&[3; 20_000])).unwrap();
    assert_eq!(writer.changes(), 1);
    ids.push(own);
    fake.run(writer.free_many(&ids)).unwrap();
    assert_eq!(writer.changes(), ids.len() - 1, "its own is gone");
    writer.abort();
    ids.pop();
    fake.run(heap.free_many(&ids)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    assert_eq!(used(&heap), 0);
}

#[test]
fn what_another_one_has_freed_is_noticed_though_its_slot_has_another_record_that_nobody_knows() {
    let (fake, _target, heap) = heap();
    let (id, writer) = freed_twice(&fake, &heap);
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let new = fake.run(heap.put(&[2; 3000])).unwrap();
    assert_eq!((new.allocator(), new.slot()), (id.allocator(), id.slot()));
    // So many others were read that it is forgotten which record is there.
    heap.work.borrow_mut().tags = Tags::new();
    let late = fake.run(writer.merge()).unwrap_err();
    assert!(late.kind == Kind::Missing && late.message.contains(&id.to_string()), "{late}");
    assert_eq!(fake.run(heap.get(new)).unwrap(), [2; 3000]);
    writer.abort();
    fake.run(writer.merge()).unwrap();
}

#[test]
fn what_another_one_has_freed_and_an_abort_has_undone_is_the_writers_to_free() {
    let (fake, _target, heap) = heap();
    let (id, writer) = freed_twice(&fake, &heap);
    assert_eq!(fake.run(writer.merge()).unwrap_err().kind, Kind::Missing);
    fake.run(heap.abort()).unwrap();
    fake.run(writer.merge()).unwrap();
    assert_eq!(fake.run(heap.get(id)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn what_an_abort_undoes_is_not_a_writers_to_free_any_more() {
    let (fake, _target, heap) = heap();
    let id = fake.run(heap.put(&[1; 30_000])).unwrap();
    let writer = heap.writer();
    fake.run(writer.free(id)).unwrap();
    fake.run(heap.abort()).unwrap();
    assert_eq!(fake.run(writer.merge()).unwrap_err().kind, Kind::Missing);
    assert_eq!(used(&heap), 0);
}

/// What is in a heap, and all ids that there ever were.
#[derive(Default)]
struct Model {
    records: BTreeMap<RecordId, Vec<u8>>,
    ids: Vec<RecordId>,
}

impl Model {
    fn put(&mut self, id: RecordId, bytes: Vec<u8>) {
        assert!(self.records.insert(id, bytes).is_none(), "{id} is there twice");
        self.ids.push(id);
    }

    /// Some of all ids, most of them of the last that were put, none twice.
    fn some(&self, numbers: &mut impl Iterator<Item = u64>) -> Vec<RecordId> {
        let mut number = || numbers.next().unwrap() as usize;
        let count = 1 + number() % 12;
        let from = if number() % 3 == 0 { 0 } else { self.ids.len() - self.ids.len().min(300) };
        let mut some: Vec<RecordId> = (0..count).map(|_| self.ids[from + number() % (self.ids.len() - from)]).collect();
        some.sort_unstable();
        some.dedup();
        some
    }

    /// What was said to somebody who freed these just now.
    fn freed(&mut self, ids: &[RecordId], said: &Result<()>) {
        match said {
            Ok(()) => ids.iter().for_each(|id| assert!(self.records.remove(id).is_some(), "{id} was freed twice")),
            Err(error) => {
                assert_eq!(error.kind, Kind::Missing, "{error}");
                assert!(ids.iter().any(|id| !self.records.contains_key(id)), "all are there: {error}");
            }
        }
    }
}

fn content(n: u64) -> Vec<u8> {
    let length = if n.is_multiple_of(20) { 9000 + n % 30_000 } else { 1 + n % 900 };
    vec![n as u8; length as usize]
}

#[test]
fn many_are_freed_at_once_beside_commits_of_others_as_a_plain_model_says() {
    each(10, |random| {
        let (fake, target, heap) = heap();
        let model = Rc::new(RefCell::new(Model::default()));
        for _ in 0..1000 {
            let bytes = content(random.next());
            model.borrow_mut().put(fake.run(heap.put(&bytes)).unwrap(), bytes);
        }
        fake.run(heap.commit(None)).unwrap();
        // Nothing is known of them by now: they are read when they are to be freed, beside all else.
        let (target, heap) = again(&fake, target, heap);
        let numbers = || (0..2000).map(|_| random.next()).collect::<Vec<u64>>().into_iter().cycle();
        let (spawner, over) = (fake.env().spawner, Rc::new(Cell::new(false)));
        fake.run(async {
            let freeing: Vec<_> = (0..4)
                .map(|nth| {
                    let (heap, model, mut numbers) = (heap.clone(), model.clone(), numbers());
                    spawner.spawn(async move {
                        for _ in 0..60 {
                            let ids = model.borrow().some(&mut numbers);
                            let said = match nth {
                                0 => {
                                    let writer = heap.writer();
                                    match writer.free_many(&ids).await {
                                        Ok(()) => {
                                            yield_now().await;
                                            writer.merge().await
                                        }
                                        refused => refused,
                                    }
                                }
                                _ => heap.free_many(&ids).await,
                            };
                            model.borrow_mut().freed(&ids, &said);
                            // What was read lately is not known for ever.
                            if numbers.next().unwrap().is_multiple_of(4) {
                                heap.work.borrow_mut().tags = Tags::new();
                            }
                        }
                    })
                })
                .collect();
            let committing = {
                let (heap, model, mut numbers, over) = (heap.clone(), model.clone(), numbers(), over.clone());
                spawner.spawn(async move {
                    let mut commits = 0;
                    while !over.get() {
                        for _ in 0..numbers.next().unwrap() % 30 {
                            let bytes = content(numbers.next().unwrap());
                            let id = heap.put(&bytes).await.unwrap();
                            model.borrow_mut().put(id, bytes);
                        }
                        heap.commit(None).await.unwrap();
                        commits += 1;
                    }
                    commits
                })
            };
            for one in freeing {
                one.await;
            }
            over.set(true);
            assert!(committing.await > 20);
        });
        fake.run(heap.commit(None)).unwrap();
        let (_target, heap) = again(&fake, target, heap);
        let model = model.borrow();
        for id in &model.ids {
            match (fake.run(heap.get(*id)), model.records.get(id)) {
                (Ok(bytes), Some(there)) => assert_eq!(&bytes, there),
                (Err(error), None) => assert_eq!(error.kind, Kind::Missing, "{error}"),
                (got, there) => panic!("{id}: {:?}, and {}", got.map(|bytes| bytes.len()), there.is_some()),
            }
        }
        let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().heaps.remove(0);
        assert_eq!((found.records, found.leaked, found.twice), (model.records.len() as u64, 0, 0));
        assert_eq!((found.damage, found.slots), (vec![], used(&heap)));
    });
}
