use crate::seeds::each;
use crate::testing::{Stage, root, user};
use forebay_model::{Kind, Result};
use forebay_wire::control::names::{FileKind, List, Page, Place, RemoveFile};
use forebay_wire::control::{Change, Question, Reply};
use std::collections::BTreeSet;

fn list(stage: &mut Stage, path: &str, after: &str, most: u32) -> Result<Page> {
    let list = List { place: Place::path(path), after: after.into(), most, attributes: false };
    match stage.ask(&root(), &Question::List(list))? {
        Reply::Page(page) => Ok(page),
        other => panic!("{other:?} is no page"),
    }
}

#[test]
fn a_list_is_ordered_by_bytes_and_goes_on_behind_any_name() {
    let mut stage = Stage::new();
    stage.directory(&root(), "d", 0o755).unwrap();
    let mut names = ["b", "a", "B", "a\u{1}", "ab", "\u{ff}", "a-", "z"];
    for name in names {
        stage.directory(&root(), &format!("d/{name}"), 0o755).unwrap();
    }
    // A directory of the next number has nothing to do with it.
    stage.directory(&root(), "d/z/inner", 0o755).unwrap();
    names.sort();
    for most in [1, 3, 8, 9, u32::MAX] {
        let (mut after, mut found) = (String::new(), Vec::new());
        loop {
            let page = list(&mut stage, "d", &after, most).unwrap();
            assert!(page.entries.len() <= most as usize);
            found.extend(page.entries.iter().map(|listed| listed.name.clone()));
            if !page.more {
                break;
            }
            after = found.last().unwrap().clone();
        }
        assert_eq!(found, names, "{most} at a time");
    }
    let page = list(&mut stage, "d", "aa", 1).unwrap();
    assert_eq!((page.entries[0].name.as_str(), page.entries[0].kind, page.more), ("ab", FileKind::Directory, true));
    assert!(list(&mut stage, "d/b", "", 9).unwrap().entries.is_empty());
    assert_eq!(list(&mut stage, "d", "", 0).unwrap().entries.len(), 1);
}

#[test]
fn what_is_there_all_the_time_is_listed_once_whatever_else_comes_and_goes() {
    each(20, |chance| {
        let mut stage = Stage::new();
        let name = |number: u64| format!("{:03}", number.wrapping_mul(77) % 200);
        for number in (0..200).step_by(2) {
            stage.file(&root(), &name(number), 0o644).unwrap();
        }
        let (mut after, mut found) = (String::new(), Vec::new());
        loop {
            let page = list(&mut stage, "", &after, 1 + chance.below(9) as u32).unwrap();
            found.extend(page.entries.iter().map(|listed| listed.name.clone()));
            if !page.more {
                break;
            }
            after = found.last().unwrap().clone();
            for _ in 0..chance.below(6) {
                let other = name(chance.below(100) * 2 + 1);
                if stage.file(&root(), &other, 0o644).is_err() {
                    stage.root(Change::RemoveFile(RemoveFile::at(Place::path(other)))).unwrap();
                }
            }
        }
        let different: BTreeSet<&String> = found.iter().collect();
        assert_eq!(different.len(), found.len());
        assert!((0..200).step_by(2).all(|number| different.contains(&name(number))));
    });
}

#[test]
fn a_directory_is_listed_by_whom_its_mode_allows_and_a_file_by_nobody() {
    let mut stage = Stage::new();
    stage.directory(&root(), "d", 0o744).unwrap();
    stage.file(&root(), "d/f", 0o644).unwrap();
    let ask = |stage: &mut Stage, path: &str, attributes| {
        let list = List { place: Place::path(path), after: String::new(), most: 9, attributes };
        stage.ask(&user(5), &Question::List(list)).map(drop).map_err(|error| error.kind)
    };
    assert_eq!(ask(&mut stage, "d", false), Ok(()));
    assert_eq!(ask(&mut stage, "d", true), Err(Kind::Forbidden));
    stage.directory(&root(), "e", 0o711).unwrap();
    assert_eq!(ask(&mut stage, "e", false), Err(Kind::Forbidden));
    assert_eq!(list(&mut stage, "d/f", "", 9).unwrap_err().kind, Kind::Usage);
}
