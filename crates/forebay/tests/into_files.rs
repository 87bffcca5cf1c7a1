//! What `get` and `export` write into: a file is whole or as it was, and what is no file stays what it is.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::{Child, Command, Output, Stdio};

/// A cluster with an object and a ring, which another process has: so nothing but the file is written by who is limited.
fn served() -> (Place, Child) {
    let place = Place::formatted("256MiB");
    fs::write(place.path("content"), vec![7; 3 << 20]).unwrap();
    place.ok(&["put", "content", "/x"]);
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    place.ok(&["record", "/r", "--generate", "max,10000", "--count", "300"]);
    place.ok(&["ring", "create", "/other", "--capacity", "32MiB"]);
    let mut owner = place.start(&["record", "/other", "--stdin", "lines"]);
    BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    (place, owner)
}

/// Runs it where no file may have more than 1 MiB.
fn limited(place: &Place, args: &[&str]) -> Output {
    let program = place.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"]).arg(program.get_program());
    command.args(program.get_args()).env("FOREBAY_CLUSTER", place.cluster()).current_dir(place.path("."));
    command.stdin(Stdio::null()).output().unwrap()
}

fn names(place: &Place) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(place.path(".")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const GET: [&str; 3] = ["get", "/x", "out"];
const EXPORT: [&str; 6] = ["export", "/r", "--format", "raw", "--to", "out"];

#[test]
fn what_cannot_be_written_whole_leaves_the_file_as_it_was_or_absent() {
    let (place, mut owner) = served();
    let before = names(&place);
    for command in [&GET[..], &EXPORT] {
        let output = limited(&place, command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("out"), "{command:?}: {said}");
        assert_eq!(names(&place), before, "{command:?}");
        fs::write(place.path("out"), "as it was").unwrap();
        fs::set_permissions(place.path("out"), fs::Permissions::from_mode(0o640)).unwrap();
        let replacing = [command, &["--force"]].concat();
        let output = limited(&place, &replacing);
        assert_eq!(output.status.code(), Some(1), "{replacing:?}");
        assert_eq!(fs::read(place.path("out")).unwrap(), b"as it was", "{replacing:?}");
        // Nobody is to read more of it than before.
        place.ok(&replacing);
        assert!(fs::read(place.path("out")).unwrap().len() >= 3_000_000, "{replacing:?}");
        assert_eq!(fs::metadata(place.path("out")).unwrap().permissions().mode() & 0o777, 0o640);
        fs::remove_file(place.path("out")).unwrap();
        assert_eq!(names(&place), before, "{command:?}");
        place.ok(command);
        place.refused(command, 1, &["out exists already", "--force"]);
        fs::remove_file(place.path("out")).unwrap();
    }
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}

#[test]
fn what_is_no_file_is_written_into_and_stays_what_it_is() {
    let (place, mut owner) = served();
    fs::write(place.path("behind"), "as it was").unwrap();
    for command in [&GET[..], &EXPORT] {
        let command = [command, &["--force"]].concat();
        symlink("behind", place.path("out")).unwrap();
        assert_eq!(limited(&place, &command).status.code(), Some(1), "{command:?}");
        assert!(fs::symlink_metadata(place.path("out")).unwrap().is_symlink(), "{command:?}");
        place.ok(&command);
        assert!(fs::symlink_metadata(place.path("out")).unwrap().is_symlink(), "{command:?}");
        assert!(fs::read(place.path("behind")).unwrap().len() >= 3_000_000, "{command:?}");
        fs::remove_file(place.path("out")).unwrap();

        assert!(Command::new("mkfifo").arg(place.path("out")).status().unwrap().success());
        for all in [false, true] {
            let writing = place.start(&command);
            let mut pipe = fs::File::open(place.path("out")).unwrap();
            if all {
                assert!(pipe.read_to_end(&mut Vec::new()).unwrap() >= 3_000_000);
            }
            // Who reads no more of it is no reason to remove it.
            drop(pipe);
            assert_eq!(writing.wait_with_output().unwrap().status.success(), all, "{command:?}");
            assert!(fs::symlink_metadata(place.path("out")).unwrap().file_type().is_fifo(), "{command:?}");
        }
        fs::remove_file(place.path("out")).unwrap();
        let nowhere: Vec<&str> = command.iter().map(|word| if *word == "out" { "/dev/null" } else { word }).collect();
        place.ok(&nowhere);
    }
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}
