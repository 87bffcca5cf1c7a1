use super::{Targets, look};
use crate::copies::VOLUME;
use crate::copies::tests::{Shelf, copies, done, said, there};
use crate::testing::{Stage, root};
use forebay_model::layout::LARGEST;
use forebay_model::object::{LENGTHS, ObjectHead, OnPage};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectInfo, ObjectReply};
use std::rc::Rc;

/// What targets have on a shelf, where a byte of an object of one of them is damaged.
struct Shelved {
    shelf: Rc<Shelf>,
    targets: Vec<TargetId>,
    damaged: (TargetId, u64, u64),
}

impl Targets for Shelved {
    fn targets(&self) -> Vec<TargetId> {
        self.targets.clone()
    }

    async fn ask(&self, target: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        match ask {
            Ask::List { volume: VOLUME, .. } => {
                let of_shelf = |(object, bytes): (u64, Vec<u8>)| info(VOLUME, object, bytes.len() as u64);
                let objects = self.shelf.written(target).into_iter().map(of_shelf).collect();
                Ok(ObjectReply::List { objects, next: None }.into())
            }
            Ask::List { .. } => Ok(ObjectReply::List { objects: Vec::new(), next: None }.into()),
            Ask::Read { id, offset, length } => {
                let range = offset..offset + u64::from(length);
                let (damaged, object, at) = self.damaged;
                if (damaged, object) == (target, id.object) && range.contains(&at) {
                    return Err(Error::damaged("its checksum is wrong"));
                }
                let bytes = self.shelf.written(target).remove(&id.object).unwrap();
                let payload = bytes[range.start as usize..range.end as usize].to_vec().into();
                Ok(ObjectAnswer { payload, ..ObjectReply::Bytes.into() })
            }
            other => panic!("{other:?}"),
        }
    }
}

fn info(volume: u64, object: u64, size: u64) -> ObjectInfo {
    let at = Timestamp(0);
    let (created, modified, changed) = (at, at, at);
    let head = ObjectHead { size, created, modified, changed, version: 1, used: Bytes(size), volume: None };
    ObjectInfo { id: ObjectId { volume, object }, head, attributes: Vec::new() }
}

/// A target with an object that says so much of the length of its file.
struct Saying(OnPage);

impl Targets for Saying {
    fn targets(&self) -> Vec<TargetId> {
        vec![TargetId(1)]
    }

    async fn ask(&self, _: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        let objects = match ask {
            Ask::List { volume: 0, .. } => vec![info(1, 0, 0)],
            Ask::List { volume: 1, page: Some(LENGTHS), .. } => {
                vec![ObjectInfo { attributes: self.0.clone(), ..info(1, 1 << 12, 5) }]
            }
            Ask::List { volume: 1, .. } => vec![info(1, 1 << 12, 5)],
            Ask::List { .. } => Vec::new(),
            other => panic!("{other:?}"),
        };
        Ok(ObjectReply::List { objects, next: None }.into())
    }
}

#[test]
fn a_length_that_no_file_has_is_not_taken_for_one() {
    let said = |cuts: u64, size: u64| [cuts.to_le_bytes(), size.to_le_bytes()].concat();
    let all = vec![(1, said(1, 5)), (2, said(4, u64::MAX)), (3, said(3, LARGEST.0 + 1)), (4, said(2, LARGEST.0))];
    for (lengths, expected) in [(all.clone(), Some((2, LARGEST))), (all[1..3].to_vec(), None)] {
        let seen = done(look(&Saying(lengths), |_| ())).unwrap();
        assert_eq!(seen.components.iter().map(|it| it.said).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn what_is_before_damage_counts_and_it_is_whole_where_another_target_has_the_rest() {
    let mut stage = Stage::new();
    let shelf = Shelf::with(2);
    let mut writing = copies(&shelf, stage.now);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    for number in 0..200 {
        stage.file(&root(), &format!("more-{number}"), 0o644).unwrap();
        done(writing.keep(&mut stage.manager)).unwrap();
    }
    let all = shelf.written(TargetId(1));
    let (object, last) = all.last_key_value().unwrap();
    assert!(last.len() > 8500, "{} bytes", last.len());
    let at = last.len() as u64 - 200;
    for (targets, is_whole) in [(vec![1, 2], true), (vec![1], false)] {
        let targets: Vec<TargetId> = targets.into_iter().map(TargetId).collect();
        let seen = done(look(&Shelved { shelf: shelf.clone(), targets, damaged: (TargetId(1), *object, at) }, |_| ()))
            .unwrap();
        assert_eq!(seen.chain.is_whole(), is_whole);
        assert!(seen.chain.counts() && seen.chain.damaged().into_iter().eq([TargetId(1)]));
        let (said, there) = (said(&seen.chain), there(&stage));
        assert_eq!(said == there, is_whole);
        // Records have some hundred bytes, and what was read at once of the damaged end is less than 2 KiB.
        let named = said.iter().filter(|(key, _)| key.starts_with(b"D")).count();
        assert!(named > 194, "{named} files");
    }
}
