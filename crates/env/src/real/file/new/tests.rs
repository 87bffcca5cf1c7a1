use super::*;
use forebay_model::Kind;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_file_has_its_name_when_it_is_kept_and_otherwise_nothing_of_it_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for content in ["first", "second"] {
        let mut dropped = NewFile::begin(&path, true).unwrap();
        dropped.write_all(b"half of it").unwrap();
        let before = fs::read(&path).ok();
        drop(dropped);
        assert_eq!(fs::read(&path).ok(), before);
        let mut kept = NewFile::begin(&path, content == "second").unwrap();
        kept.writer().unwrap().write_all(content.as_bytes()).unwrap();
        kept.flush().unwrap();
        assert_eq!(fs::read(&path).ok(), before);
        kept.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), content.as_bytes());
        assert_eq!(names(folder.path()), ["file"]);
    }
}

#[test]
fn a_new_file_does_not_take_a_name_that_another_one_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let late = NewFile::begin(&path, false).unwrap();
    fs::write(&path, "of somebody else").unwrap();
    assert_eq!(late.keep().unwrap_err().kind, Kind::Exists);
    assert_eq!(NewFile::begin(&path, false).unwrap_err().kind, Kind::Exists);
    assert_eq!(
        (names(folder.path()), fs::read(&path).unwrap()),
        (vec!["file".to_string()], b"of somebody else".to_vec())
    );
}
