//! The names that the manager has are those of the model, and it waits for nobody who is gone.

use crate::cluster::life::model::Owned;
use crate::cluster::{ClientMachine, Cluster};
use forebay_client::control::Control;
use forebay_wire::control::files::After;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Question, Reply};
use std::collections::BTreeMap;
use std::time::Duration;

/// Panics if a directory has other names than it should, or an entry another size.
pub(in crate::cluster) fn check(cluster: &Cluster, machine: &ClientMachine, owned: &Owned) {
    let (files, directory) = (machine.files.clone(), owned.directory.clone());
    let (listed, _) = cluster.world().run(async move { files.list(&directory, "").await.expect("it is there") });
    let there: BTreeMap<&str, (FileId, u64)> = listed
        .iter()
        .map(|one| {
            let size = one.attributes.as_ref().expect("they were asked for").size;
            (one.name.as_str(), (one.file, size.0))
        })
        .collect();
    let known = owned.names.iter().map(|(name, key)| {
        let known = &owned.files[key];
        (name.as_str(), (known.file.expect("nothing is undecided"), known.settled.len() as u64))
    });
    assert_eq!(there, known.collect(), "the names, numbers and sizes in {}", owned.directory);
}

/// Panics if a file is open to write for somebody, or cannot be mended that somebody left; how many there were.
pub(in crate::cluster) fn check_left(cluster: &Cluster, machine: &ClientMachine) -> u64 {
    let (control, files, clock) = (machine.control.clone(), machine.files.clone(), cluster.world().clock());
    cluster.world().run(async move {
        let after = After { file: FileId(0), most: 1000 };
        let mut rounds = 0;
        loop {
            let open = control.ask(Question::OpenFiles(after)).await.expect("the manager is there");
            let Reply::OpenFiles(open) = open else { panic!("{open:?}") };
            if open.files.is_empty() {
                break;
            }
            // Who keeps them may be at one just now.
            rounds += 1;
            assert!(rounds < 60, "nobody writes, and yet: {:?}", open.files);
            clock.sleep(Duration::from_secs(1)).await;
        }
        let mut mended = 0;
        let mending = files.mend_left(|file, found| {
            found.unwrap_or_else(|error| panic!("{file} cannot be mended: {error}"));
            mended += 1;
        });
        mending.await.expect("the manager is there");
        let left = control.ask(Question::Unscrubbed(after)).await.expect("the manager is there");
        let Reply::Unscrubbed(left) = left else { panic!("{left:?}") };
        assert!(left.files.is_empty(), "left, and not mended: {:?}", left.files);
        mended
    })
}
