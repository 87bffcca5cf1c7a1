use super::*;

#[test]
fn mount_lines_give_number_point_and_source() {
    let text = "36 35 98:1 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                40 35 0:42 / /a\\040b\\134c rw shared:7 - btrfs /dev/sd\\011b rw\n\
                nonsense\n";
    let mounts = parse_mounts(text);
    assert_eq!(mounts.len(), 2);
    assert_eq!(mounts[0].number, Some(Number { major: 98, minor: 1 }));
    assert_eq!((mounts[0].point.as_str(), mounts[0].source.as_str()), ("/mnt2", "/dev/root"));
    assert_eq!((mounts[1].point.as_str(), mounts[1].source.as_str()), ("/a b\\c", "/dev/sd\tb"));
}

#[test]
fn escapes_that_are_none_stay_as_they_are() {
    for text in ["", "\\", "\\9", "\\04", "a\\", "\\400"] {
        assert_eq!(unescape(text), text);
    }
}

#[test]
fn numbers_that_make_no_sense_are_none() {
    for text in ["", "8", "8:", ":1", "a:b", "-1:2"] {
        assert_eq!(parse_number(text), None, "{text}");
    }
    assert_eq!(parse_number("8:1\n"), Some(Number { major: 8, minor: 1 }));
}

#[test]
fn the_disk_under_a_file_says_whether_it_rotates() {
    // Whatever the answer, the question about an ordinary file and about a number that nobody has must not fail.
    rotates(&fs::metadata("/proc/self/exe").unwrap());
    assert_eq!(rotational(Number { major: 0, minor: 0 }), None);
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let said = fs::read_to_string(entry.path().join("queue/rotational")).unwrap();
        let number = fs::read_to_string(entry.path().join("dev")).ok().as_deref().and_then(parse_number).unwrap();
        assert_eq!(rotational(number), Some(said.trim() == "1"));
    }
}
