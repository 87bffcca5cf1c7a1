//! How fast a manager in a file makes names, without and with copies of what it knows. Measures, so it is run by itself:
//! `cargo test --release -p forebay-serve --lib -- --ignored --nocapture how_fast`.

use super::recovered::nodes;
use super::*;
use crate::join::{JoinOptions, Joined};
use crate::manager::ManagerHost;
use forebay_env::real;
use forebay_env::together::all;
use forebay_manager::Principal;
use forebay_wire::control::names::{MakeDirectory, Place};

/// Who makes names at the same time.
const CALLERS: u64 = 64;
const EACH: u64 = 400;

/// Names that callers make in a second, each one after the other.
fn made(manager: &ManagerHost, directory: &str) -> u64 {
    let (desk, root) = (manager.desk().expect("it is open"), manager.root());
    let make = |client: u64, sequence: u64, path: String| {
        let change = Change::MakeDirectory(MakeDirectory { place: Place::path(path), mode: 0o755 });
        (Principal { client, ..root.clone() }, Call { sequence, change })
    };
    let (by, call) = make(root.client, 1, directory.to_string());
    desk.change_blocking(by, call).expect("it is made");
    let begun = Instant::now();
    let calls: Vec<Vec<_>> = (1..=CALLERS)
        .map(|caller| {
            (1..=EACH).map(|nth| make(root.client ^ caller, nth, format!("{directory}/{caller}-{nth}"))).collect()
        })
        .collect();
    real::run_network(move |_| async move {
        let caller = async |calls: Vec<(Principal, Call)>| {
            for (by, call) in calls {
                desk.change(by, call).await.expect("it is made");
            }
        };
        all(calls.into_iter().map(caller)).await;
    })
    .expect("it runs");
    (CALLERS as f64 * EACH as f64 / begun.elapsed().as_secs_f64()) as u64
}

#[test]
#[ignore = "measures: figures of the machine"]
fn how_fast_names_are_made_with_copies_on_targets_here_and_on_other_nodes() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let place = |name: &str| {
        let place = dir.path().join(name);
        std::fs::create_dir(&place).expect("a directory");
        place
    };
    let (here, away, joining) = (place("here"), place("away"), place("joining"));
    let beside = Server::start(&here, &nodes(&here, 3), &options()).expect("it starts");
    let alone = Server::start(&away, &[], &options()).expect("it starts");
    for round in 1..=3 {
        println!("{} a second in no copy", made(alone.rack.manager(), &format!("/none {round}")));
        println!("{} a second, in three copies in the process", made(beside.rack.manager(), &format!("/here {round}")));
    }
    let join = |dir: &PathBuf| {
        let joined = JoinOptions {
            manager: alone.control().to_string(),
            key: Some(away.join(ROOT_KEY)),
            data: "127.0.0.1:0".into(),
            status: None,
            address: None,
            tls: None,
            taken: forebay_node::network::Bounds::default().into(),
            patience: Duration::from_secs(60),
            warned: |_| {},
            told: |_| {},
            rebuilding: None,
        };
        let joined = Joined::start(dir, joined).expect("it joins");
        assert!(joined.ready().expect("it is served"));
        joined
    };
    let joined: Vec<Joined> = nodes(&joining, 3).iter().map(join).collect();
    for round in 1..=3 {
        println!("{} a second, in three copies on other nodes", made(alone.rack.manager(), &format!("/away {round}")));
        println!(
            "{} a second, in three copies in the process",
            made(beside.rack.manager(), &format!("/beside {round}"))
        );
    }
    drop(joined);
    alone.close().expect("it ends");
    beside.close().expect("it ends");
}
