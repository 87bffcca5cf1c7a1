use super::*;
use crate::cli::Global;
use crate::show::out::Out;
use forebay_embedded::{FormatOptions, Measure, Options};
use forebay_env::real::file::{self, File};
use forebay_model::ring::RingSpec;
use std::path::Path;
use std::time::Duration;

/// As many at once as `ls` has, which is more than there are here, and so few that there are many parts.
const AT_ONCE: [usize; 5] = [NAMES_AT_ONCE, 1, 2, 3, 10];

const RINGS: [&str; 3] = ["/0", "/5/ring", "/last"];

/// Objects with names, rings before them, among them and behind them, and bytes without a name: three beside a name that
/// has others, and one.
fn cluster(dir: &Path) -> (Cluster, Vec<String>) {
    forebay_embedded::format(dir, &FormatOptions::file(Bytes::mib(256), Measure::Guess)).unwrap();
    let cluster = forebay_embedded::open(dir, Options::default()).unwrap();
    for name in RINGS {
        cluster.create_ring(RingSpec::new(name, Bytes::mib(16))).unwrap();
    }
    let names: Vec<String> = (0..40).map(|n| format!("/{}/{}", 1 + n % 9, n * 7919 % 100)).collect();
    for name in &names {
        cluster.objects().put(name, false).unwrap().finish().unwrap();
    }
    (cluster, names)
}

/// The lines that `ls` writes.
fn listed(dir: &Path, cluster: &Cluster, json: bool, prefix: &str, most: usize) -> Vec<String> {
    let path = dir.join("listed");
    let global =
        Global { cluster: None, is_cluster_said: false, access_key: None, ca: None, wait: Duration::ZERO, json };
    let mut context = Context::new(global).unwrap();
    context.out = Out::over(File::create(&path).unwrap());
    let list = if json { list_json } else { list };
    list(&mut context, cluster, prefix, most).unwrap();
    context.out.flush().unwrap();
    file::read_text(path).unwrap().lines().map(String::from).collect()
}

#[test]
fn what_is_listed_in_parts_is_all_of_it_in_order_under_one_heading() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, names) = cluster(&folder.path().join("cluster"));
    let objects = cluster.objects();
    let puts = [&names[7], &names[7], &names[7], "/new"].map(|name| objects.put(name, true).unwrap());
    let mut count = 0;
    let tally = |_: &Listing| {
        count += 1;
        Ok(())
    };
    parts(&cluster, "/", 2, tally).unwrap();
    assert!(count > 15, "{count} parts are many");

    for (prefix, most) in ["/", "/5", "/new"].into_iter().flat_map(|prefix| AT_ONCE.map(|most| (prefix, most))) {
        let under = |name: &str| forebay_client::objects::is_under(name, prefix);
        let all = names.iter().map(|name| (name.as_str(), "object")).chain(RINGS.map(|name| (name, "ring")));
        let mut expected: Vec<_> = all.filter(|(name, _)| under(name)).collect();
        expected.sort_unstable();

        let lines = listed(folder.path(), &cluster, false, prefix, most);
        let rows = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows: Vec<_> = rows.map(|words| (words[0], words[1])).collect();
        match prefix {
            "/new" => assert_eq!(rows, [("Nothing", "here;")], "{most} at once"),
            _ => assert_eq!((rows[0], &rows[1..]), (("name", "what"), &expected[..]), "{prefix}, {most} at once"),
        }

        let lines = listed(folder.path(), &cluster, true, prefix, most);
        let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (unfinished, mut named): (Vec<_>, Vec<_>) = values
            .iter()
            .map(|value| (value["name"].as_str().unwrap(), value["type"].as_str().unwrap()))
            .partition(|(_, what)| *what == "unfinished");
        named.sort_unstable();
        assert_eq!(named, expected, "{prefix}, {most} at once");
        let of = |name: &str| unfinished.iter().filter(|(found, _)| *found == name).count();
        assert_eq!(of("/new"), usize::from(under("/new")), "{prefix}, {most} at once");
        // Of one name no more than are asked for at once.
        let due = if under(&names[7]) { 3.min(most) } else { 0 };
        assert_eq!(of(&names[7]), due, "{prefix}, {most} at once: {unfinished:?}");
    }
    drop(puts);
    cluster.close().unwrap();
}
