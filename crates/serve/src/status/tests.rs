#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::http::{Asked, parse};
use super::{FAMILIES, Family, Found, Sources, StatusServer, metrics, served, status};
use crate::node::NodeStatus;
use crate::survey::{Manager, Survey};
use crate::upkeep::{Counts, UpkeepOptions};
use crate::{Server, ServerOptions};
use forebay_embedded::{FormatOptions, Measure, format};
use forebay_env::mailbox::mailbox;
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::ring::{Losses, RingSpec, RingState, RingStatus};
use forebay_model::{Bytes, Cause, Error, Gap, Rate, TargetId, Timestamp};
use forebay_node::network::{Bounds, CutCounts, Moved, Refusals, TargetStatus};
use forebay_wire::command::{Activity, TargetInfo};
use forebay_wire::control::cluster::{Map, Node, Target, TargetState};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and ends");
    answer
}

/// A server of one target in a directory, which tells how it is.
fn telling(dir: &Path) -> Server {
    format(dir, &FormatOptions::file(Bytes::mib(64), Measure::Guess)).expect("a cluster");
    Server::start(
        dir,
        &[dir.to_path_buf()],
        &ServerOptions {
            data: "127.0.0.1:0".into(),
            control: "127.0.0.1:0".into(),
            tls: None,
            address: None,
            status: Some("127.0.0.1:0".into()),
            taken: Bounds::default().into(),
            raid: None,
            upkeep: UpkeepOptions::default(),
            kept: |_, _| {},
            warned: |_| {},
            told: |_| {},
        },
    )
    .expect("it starts")
}

/// The text of `/metrics`, and `/status`.
fn told(server: &Server) -> (String, serde_json::Value) {
    let at = server.status().expect("it tells").to_string();
    let body = |path: &str| {
        let answer = ask(&at, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        answer.split_once("\r\n\r\n").expect("a body").1.to_string()
    };
    (body("/metrics"), serde_json::from_str(&body("/status")).expect("JSON"))
}

#[test]
fn what_rings_take_keep_and_lack_is_told_and_what_their_target_does_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = telling(&dir.path().join("cluster"));
    let (before, _) = told(&server);
    assert!(!before.contains("forebay_ring_elements_total{"), "{before}");
    let files = server.files().expect("a way to it");
    let cluster = files.cluster(Duration::from_secs(30));
    let spec = RingSpec { guarantee: Rate::mb(1), block: Bytes::kib(64), ..RingSpec::new("/r", Bytes::mib(16)) };
    cluster.create_ring(spec).expect("there is room");
    let mut recorder = cluster.recorder("/r").expect("nobody records");
    let time = |second: i64| Timestamp(1_700_000_000_000_000_000 + second * 1_000_000_000);
    (0..10).for_each(|n| recorder.element(time(n), &[b"an element"], &[]).expect("room"));
    let gap = Gap { cause: Cause::Kernel, count: Some(7), first: time(9), last: time(9) };
    recorder.gap(gap).expect("room");
    recorder.close().expect("all is durable");
    cluster.pin("/r", "a secret", time(0), time(5)).expect("it is there");
    let (text, status) = told(&server);
    let target = &status["nodes"][0]["targets"][0];
    let ring = &target["rings"][0];
    let (id, name) = (target["target"].as_str().expect("an id"), ring["ring"].as_str().expect("a name"));
    let of = |family: &str, more: &str| {
        let begin = format!("forebay_{family}{{target=\"{id}\"{more}}} ");
        let line = text.lines().find(|line| line.starts_with(&begin));
        line.unwrap_or_else(|| panic!("{begin}: {text}"))[begin.len()..].parse::<u64>().expect("a number")
    };
    let of_ring = |family: &str, more: &str| of(&format!("ring_{family}"), &format!(",ring=\"{name}\"{more}"));
    assert_eq!((of_ring("elements_total", ""), of_ring("missed_deadlines_total", "")), (10, 0));
    assert_eq!(of_ring("lost_elements", ",cause=\"kernel\""), 7);
    assert_eq!((of_ring("gaps", ",cause=\"kernel\""), of_ring("gaps", ",cause=\"overflow\"")), (1, 0));
    assert_eq!((of_ring("state", ",state=\"ready\""), of_ring("state", ",state=\"full\"")), (1, 0));
    assert_eq!(of_ring("oldest_timestamp_seconds", ""), 1_700_000_000);
    assert_eq!((of_ring("newest_timestamp_seconds", ""), of_ring("history_seconds", "")), (1_700_000_009, 9));
    assert_eq!((of_ring("pins", ""), of_ring("pinned_segments", "")), (1, 1));
    assert_eq!(of_ring("guarantee_bytes_per_second", ""), 1_000_000);
    let written = of("target_io_bytes_total", ",class=\"guaranteed\",direction=\"written\"");
    assert!(written >= of_ring("written_bytes_total", "") && of_ring("written_bytes_total", "") > 0, "{text}");
    assert_eq!(of("target_io_bytes_total", ",class=\"guaranteed\",direction=\"read\""), 0);
    assert!(of("target_io_bytes_total", ",class=\"metadata\",direction=\"written\"") > 0, "{text}");
    assert_eq!(of("target_promised_bytes_per_second", ""), 1_000_000);
    assert!(of("target_headroom_bytes_per_second", "") > 0, "{text}");
    assert_eq!((&ring["elements"], &ring["losses"]["kernel"]["elements"]), (&10.into(), &7.into()), "{ring}");
    assert_eq!((&ring["state"], &ring["history_seconds"], &ring["pins"]), (&"ready".into(), &9.0.into(), &1.into()));
    assert_eq!(target["io"]["guaranteed"]["written_bytes"].as_u64(), Some(written));
    assert!(!text.contains("secret") && !status.to_string().contains("secret"), "what pins are called is nobody's");
    drop((cluster, files));
    server.close().expect("it ends");
}

#[test]
fn a_target_that_does_not_answer_takes_nothing_along_and_a_name_stays_within_its_label() {
    let answers = TargetStatus {
        info: TargetInfo {
            id: TargetId(2),
            device: "a disk".to_string(),
            openings: 1,
            size: Bytes::gib(1),
            rotates: true,
            group: Bytes::mib(64),
            free: Bytes::mib(64),
            largest_free: Bytes::mib(64),
            complaints: Vec::new(),
            failed: None,
            activity: Activity { slower: 3, throttled: 5, ..Activity::default() },
            map_memory: Bytes::ZERO,
            map_memory_limit: Bytes::ZERO,
            rings_made_anew: 0,
            recorded: None,
        },
        moved: vec![("normal", Moved { read: Bytes(70), written: Bytes(9) })],
        headroom: Rate(11),
        damaged: 6,
        mended: 4,
        rings: vec![ring("/a \"b\"\n\\")],
    };
    let silent = Error::disconnected("target 1 does not answer");
    let node = NodeStatus {
        targets: vec![(TargetId(1), Err(silent)), (TargetId(2), Ok(answers))],
        connections: 0,
        memory: Bytes::ZERO,
        refusals: Refusals::default(),
        cuts: CutCounts::default(),
    };
    let away = Err(Error::disconnected("it is away"));
    let found = Found { nodes: vec![(1, Ok(node))], survey: away, upkeep: None };
    let (text, status) = (metrics(&found), status(&found));
    let of = |number: u128| format!("target=\"{}\"", TargetId(number));
    for line in [
        format!("forebay_target_answers{{{}}} 0", of(1)),
        format!("forebay_target_answers{{{}}} 1", of(2)),
        format!("forebay_target_io_bytes_total{{{},class=\"normal\",direction=\"read\"}} 70", of(2)),
        format!("forebay_target_io_bytes_total{{{},class=\"normal\",direction=\"written\"}} 9", of(2)),
        format!("forebay_target_throttled_total{{{}}} 5", of(2)),
        format!("forebay_target_damaged_reads_total{{{}}} 6", of(2)),
        format!("forebay_target_mended_blocks_total{{{}}} 4", of(2)),
        format!("forebay_target_times_slower{{{}}} 3", of(2)),
        format!("forebay_target_headroom_bytes_per_second{{{}}} 11", of(2)),
        format!(r#"forebay_ring_missed_deadlines_total{{{},ring="/a \"b\"\n\\"}} 4"#, of(2)),
        format!(r#"forebay_ring_state{{{},ring="/a \"b\"\n\\",state="failed"}} 1"#, of(2)),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    assert!(!text.contains("forebay_ring_oldest_timestamp_seconds{"), "nothing is kept: {text}");
    let targets = &status["nodes"][0]["targets"];
    assert_eq!(targets[0], json!({ "target": TargetId(1).to_string(), "error": "target 1 does not answer" }));
    assert_eq!(
        (&targets[1]["io"]["normal"]["read_bytes"], &targets[1]["rings"][0]["oldest"]),
        (&70.into(), &json!(null))
    );
}

/// One that failed, with nothing in it.
fn ring(name: &str) -> RingStatus {
    RingStatus {
        spec: RingSpec::new(name, Bytes::mib(16)),
        state: RingState::Failed,
        segments: 0,
        pinned_segments: 0,
        first_sequence: 0,
        next_sequence: 0,
        readable_sequence: 0,
        oldest: None,
        newest: None,
        written: Bytes::ZERO,
        elements: 0,
        missed_deadlines: 4,
        losses: Losses::default(),
        staging_peak: Bytes::ZERO,
        staging: Bytes::ZERO,
        index_memory: Bytes::ZERO,
        memory_limit: Bytes::ZERO,
        recording: false,
        pins: Vec::new(),
        begins: 0,
    }
}

#[test]
fn whoever_asks_is_told_how_the_server_is_and_can_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = telling(&dir.path().join("cluster"));
    let at = server.status().expect("it tells").to_string();
    let metrics = ask(&at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    let (_, text) = metrics.split_once("\r\n\r\n").expect("a body");
    for line in ["forebay_manager_up 1", "forebay_node_up{node=\"1\"} 1", "forebay_cluster_node_up{node=\"1\"} 1"] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    // As the format of Prometheus has it: each family is explained once, and each value is a number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        value.parse::<u64>().expect("a number");
        let family = name.split('{').next().expect("a name");
        assert_eq!(text.matches(&format!("# TYPE {family} ")).count(), 1, "{family}");
    }
    let status = ask(&at, "GET /status?x=1 HTTP/1.1\r\n\r\n");
    let (_, body) = status.split_once("\r\n\r\n").expect("a body");
    let status: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(status["cluster"]["targets"][0]["state"], "up");
    assert_eq!(status["nodes"][0]["refused"]["forbidden"], 0);
    assert_eq!(status["nodes"][0]["cut"]["malformed"], 0);
    // What is no frame is counted by the node that it comes to.
    let node = status["cluster"]["nodes"][0]["address"].as_str().expect("an address");
    let mut stranger = TcpStream::connect(node).expect("it listens");
    stranger.write_all(&[0; 64]).expect("it hears");
    stranger.read_to_end(&mut Vec::new()).expect("it is told, and hung up on");
    let counted = "forebay_node_cut_connections_total{node=\"1\",why=\"malformed\"} 1";
    let text = ask(&at, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.lines().any(|one| one == counted), "{text}");
    for (request, said) in [
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /root.key HTTP/1.1\r\n\r\n", "404"),
        ("GET /../root.key HTTP/1.1\r\n\r\n", "404"),
        ("\x16\x03\x01\r\n\r\n", "400"),
    ] {
        let answer = ask(&at, request);
        assert_eq!(answer.get(9..12), Some(said), "{request}: {answer}");
    }
    let key = std::fs::read_to_string(server.key()).expect("the key of root");
    let secret = key.lines().last().expect("a secret").rsplit(' ').next().expect("a word");
    assert!(!metrics.contains(secret) && !body.contains(secret));
    server.close().expect("it ends");
}

#[test]
fn outcome_27_of_a_target_that_failed_it_is_said_why_and_what_is_still_to_be_rebuilt() {
    let why = "the target stopped after its device failed (write at 5)".to_string();
    let target = |number: u128, state, failed, left| Target {
        target: TargetId(number),
        node: 1,
        served: true,
        state,
        size: Bytes::gib(2),
        free: Bytes::gib(1),
        load: 0,
        key: 1,
        failed,
        left,
        slow: number == 3,
    };
    let targets = vec![
        target(1, TargetState::Failed, Some(why.clone()), Some(7)),
        target(2, TargetState::Draining, None, Some(0)),
        target(3, TargetState::Up, None, None),
    ];
    let reported = Some(Timestamp(0));
    let wall = reported.map(|at| at.before(std::time::Duration::from_secs(90)));
    let nodes = vec![Node { node: 1, user: 0, address: "n:1".to_string(), up: true, wall, reported }];
    let (copied_on, copied_wholly) = (vec![TargetId(1), TargetId(2)], true);
    let map = Map { cluster: 1, epoch: 5, least_epoch: 1, nodes, targets, copied_on, copied_wholly };
    let counts = Counts { repaired_bytes: 4096, scrubbed_files: 3, ..Counts::default() };
    let survey = Survey { map, volumes: None, degraded: Some(4), displaced: Some(0) };
    let found = Found { nodes: Vec::new(), survey: Ok(survey), upkeep: Some(counts) };
    let text = metrics(&found);
    let of = |name: &str, number: u128, value: u64| format!("{name}{{target=\"{}\"}} {value}", TargetId(number));
    for line in [
        of("forebay_target_failed", 1, 1),
        of("forebay_target_failed", 2, 0),
        of("forebay_target_in_use", 1, 0),
        of("forebay_target_in_use", 3, 1),
        of("forebay_target_slow", 2, 0),
        of("forebay_target_slow", 3, 1),
        of("forebay_target_components_left", 1, 7),
        of("forebay_target_components_left", 2, 0),
        "forebay_cluster_metadata_copies 2".to_string(),
        "forebay_cluster_metadata_copies_whole 1".to_string(),
        "forebay_cluster_degraded_files 4".to_string(),
        "forebay_cluster_displaced_files 0".to_string(),
        "forebay_upkeep_scrubbed_files_total 3".to_string(),
        "forebay_upkeep_repaired_bytes_total 4096".to_string(),
        "forebay_upkeep_lost_bytes_total 0".to_string(),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    let status = status(&found);
    let target = &status["cluster"]["targets"][0];
    assert_eq!((&target["state"], &target["failed"]), (&"failed".into(), &why.into()));
    assert_eq!(target["served"], true);
    assert!(target["clock_off"].as_str().expect("a text").contains("node 1 is 90 s behind the manager's"), "{target}");
    assert_eq!((&target["components_left"], &status["cluster"]["degraded_files"]), (&7.into(), &4.into()));
    let copied: Vec<String> = [1, 2].map(|target| TargetId(target).to_string()).into();
    assert_eq!(status["cluster"]["metadata_copies"], serde_json::json!({ "targets": copied, "whole": true }));
    assert_eq!((&status["upkeep"]["scrubbed_files"], &status["upkeep"]["moved_components"]), (&3.into(), &0.into()));
}

#[test]
fn a_request_is_taken_as_soon_as_it_is_whole_and_never_without_end() {
    let whole = b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    for length in 0..whole.len() {
        assert_eq!(parse(&whole[..length]), None, "{length} bytes");
    }
    assert_eq!(parse(whole), Some(Asked::Page("/status".to_string())));
    let long = [b"GET /status HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 9000]].concat();
    assert_eq!(parse(&long), Some(Asked::TooLong));
    let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"A: b\r\n".repeat(65)].concat();
    assert_eq!(parse(&many), Some(Asked::TooLong));
    assert_eq!(parse(b"\0\0\0\0"), Some(Asked::Malformed));
}

#[test]
fn the_page_has_each_metric_as_it_is_told_and_no_other() {
    let page = include_str!("../../../../docs/protocol/status.md");
    let row =
        |it: &Family| format!("| `{}` | {} | {} | {} |", it.name, it.kind, it.labels, it.help).replace("|  |", "| |");
    let rows: Vec<String> = FAMILIES.iter().chain(&served::FAMILIES).map(row).collect();
    let there: Vec<&str> = page.lines().filter(|line| line.starts_with("| `forebay_")).collect();
    assert_eq!(there, rows, "the table should be:\n{}", rows.join("\n"));
}

#[test]
fn who_does_not_answer_is_named_and_what_it_would_say_is_left_out() {
    let away = || Error::disconnected("it is away");
    let found = Found { nodes: vec![(7, Err(away()))], survey: Err(away()), upkeep: None };
    let status = status(&found);
    assert_eq!((&status["nodes"][0]["node"], &status["nodes"][0]["error"]), (&json!(7), &json!("it is away")));
    assert_eq!(status["cluster"]["error"], "it is away");
    let text = metrics(&found);
    assert!(text.contains("forebay_manager_up 0\n") && text.contains("forebay_node_up{node=\"7\"} 0\n"), "{text}");
    assert!(!text.contains("forebay_target") && !text.contains("forebay_cluster"), "{text}");
    assert!(!text.contains("forebay_upkeep") && status["upkeep"].is_null(), "{text}");
}

#[test]
fn a_manager_that_hangs_is_told_and_keeps_nobody_from_hearing_of_all_else() {
    let (errands, _nobody_looks) = mailbox();
    let by = Principal { user: 0, groups: vec![0], client: 0, key: None };
    let sources = Sources { nodes: Vec::new(), manager: Manager::Here(Desk::new(errands), by), upkeep: None };
    let server = StatusServer::start("127.0.0.1:0", sources).expect("it listens");
    let answer = ask(server.address(), "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.contains("forebay_manager_up 0\n"), "{answer}");
    let answer = ask(server.address(), "GET /status HTTP/1.1\r\n\r\n");
    assert!(answer.contains("the manager did not answer within 3s"), "{answer}");
}
