use super::Chain;
use crate::Target;
use crate::fake::Fake;
use crate::heap::allocation::Slot;
use crate::heap::slot::Role;
use crate::heap::testing::{self, fresh, used};
use crate::heap::view::Eye;
use crate::heap::{Heap, HeapOptions};
use crate::verify::verify;
use forebay_model::heap::HeapSettings;
use forebay_model::{Bytes, Kind};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn heap(keep: Duration) -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(128), HeapSettings { threshold: 1, keep, ..HeapSettings::default() }, HeapOptions::default())
}

/// After a kill, and a look at whether anything is leaked or used twice.
fn again(fake: &Fake, target: Rc<Target>, heap: Rc<Heap>) -> (Rc<Target>, Rc<Heap>) {
    let (target, heap) = testing::again(fake, target, heap);
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap();
    assert_eq!((found.heaps[0].leaked, found.heaps[0].twice, &found.heaps[0].damage), (0, 0, &vec![]));
    (target, heap)
}

#[test]
fn ids_of_parts_and_of_what_keeps_commits_are_nobodys_to_name() {
    let (fake, target, heap) = heap(Duration::from_secs(3600));
    let large = fake.run(heap.put(&[1; 50_000])).unwrap();
    (0..3).for_each(|_| assert!(fake.run(heap.commit(Some(large))).is_ok()));
    let list = Chain::decode(large, &fake.run(heap.bring(&Eye::Live, large, Role::Record)).unwrap()).unwrap();
    let kept = heap.work.borrow().last.towards(2).unwrap().1;
    let slots = used(&heap);
    let refused = |heap: &Rc<Heap>| {
        let writer = heap.writer();
        let last = heap.status().last.commit;
        for inner in [list.parts[0], list.parts[6], kept] {
            for error in [
                fake.run(heap.get(inner)).unwrap_err(),
                fake.run(heap.get_many(&[large, inner])).pop().unwrap().unwrap_err(),
                fake.run(heap.free(inner)).unwrap_err(),
                fake.run(heap.free_many(&[inner, large])).unwrap_err(),
                fake.run(heap.commit(Some(inner))).unwrap_err(),
                fake.run(writer.free_many(&[large, inner])).unwrap_err(),
                fake.run(heap.session().get(inner)).unwrap_err(),
            ] {
                assert_eq!(error.kind, Kind::Missing, "{error}");
            }
        }
        assert_eq!((used(heap), heap.status().last.commit), (slots, last));
        assert_eq!(fake.run(heap.get(large)).unwrap(), [1; 50_000]);
    };
    refused(&heap);
    let (_target, heap) = again(&fake, target, heap);
    refused(&heap);
}

#[test]
fn a_large_record_is_in_a_commit_as_a_whole_or_not_whatever_comes_between_its_parts() {
    for aborts in [false, true] {
        let (fake, target, heap) = heap(Duration::ZERO);
        let kept = fake.run(heap.put(b"kept")).unwrap();
        fake.run(heap.commit(Some(kept))).unwrap();
        // It takes more than there is, so that its parts wait for space and for what is written.
        let bytes: Vec<u8> = (0..20_000_000u32).map(|at| (at >> 8) as u8).collect();
        let (put, between) = fake.run(async {
            let (env, one, other, content) = (fake.env(), heap.clone(), heap.clone(), bytes.clone());
            let was_put = Rc::new(Cell::new(false));
            let is_put = was_put.clone();
            let put = fake.env().spawner.spawn(async move {
                let put = one.put(&content).await;
                is_put.set(true);
                put
            });
            let between = fake.env().spawner.spawn(async move {
                let mut between = 0;
                while !was_put.get() {
                    between += 1;
                    match aborts {
                        true => {
                            other.abort().await.unwrap();
                            env.clock.sleep_until(env.clock.now() + Duration::from_micros(300)).await;
                        }
                        false => assert!(other.commit(other.root()).await.is_ok()),
                    }
                }
                between
            });
            (put.await, between.await)
        });
        let large = put.unwrap();
        assert!(between > 10, "{between}");
        assert_eq!(fake.run(heap.get(large)).unwrap(), bytes);
        let (target, heap) = match aborts {
            true => {
                fake.run(heap.commit(Some(large))).unwrap();
                again(&fake, target, heap)
            }
            // What of it was there at the last of those commits?
            false => again(&fake, target, heap),
        };
        match fake.run(heap.get(large)) {
            Ok(found) => assert_eq!(found, bytes),
            Err(error) => assert!(error.kind == Kind::Missing && used(&heap) == 1 && !aborts, "{error}"),
        }
        drop(target);
    }
}

#[test]
fn a_large_record_whose_put_is_given_up_leaves_nothing() {
    let (fake, _target, heap) = heap(Duration::ZERO);
    let id = fake.run(heap.put(&[1; 100_000])).unwrap();
    let slots = used(&heap);
    fake.run(async {
        let bytes = vec![2; 30_000_000];
        let mut put = Box::pin(heap.put(&bytes));
        let mut polls = 0;
        std::future::poll_fn(|context| {
            polls += 1;
            let is_over = put.as_mut().poll(context).is_ready();
            assert!(!is_over, "it waits for space at least");
            if polls == 1 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    assert_eq!(used(&heap), slots);
    assert_eq!(heap.work.borrow().allocation.get(Slot::of(id).allocator).hidden(), 0);
    fake.run(heap.commit(Some(id))).unwrap();
    assert_eq!(fake.run(heap.get(id)).unwrap(), [1; 100_000]);
}

#[test]
fn the_parts_of_a_large_record_are_read_at_the_same_time() {
    let (fake, target, heap) = heap(Duration::ZERO);
    let bytes: Vec<u8> = (0..10_000_000u32).map(|at| (at >> 8) as u8).collect();
    let id = fake.run(heap.put(&bytes)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let (_target, heap) = again(&fake, target, heap);
    fake.disk.most_reads();
    assert_eq!(fake.run(heap.get(id)).unwrap(), bytes);
    let most = fake.disk.most_reads();
    assert!(most > 1, "one after the other");
}
