use crate::principal::Principal;
use crate::testing::{Stage, close, report, root, user};
use forebay_model::Kind;
use forebay_wire::control::files::{After, ClientGone, OpenToWrite, Scrubbed};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

const ALL: After = After { file: FileId(0), most: 4096 };

fn open(stage: &mut Stage, client: u64, file: FileId) {
    let by = Principal::root(client);
    stage
        .change(
            &by,
            Change::OpenToWrite(OpenToWrite {
                place: Place::of(file),
                alone: false,
                upkeep: false,
                yields: false,
                cached: false,
            }),
        )
        .unwrap();
}

/// Files and clients that write them.
fn writers(stage: &mut Stage) -> Vec<(u64, u64)> {
    let Reply::OpenFiles(open) = stage.ask(&root(), &Question::OpenFiles(ALL)).unwrap() else { panic!("no files") };
    open.files.iter().map(|it| (it.file.0, it.client)).collect()
}

fn to_scrub(stage: &mut Stage) -> Vec<FileId> {
    let Reply::Unscrubbed(left) = stage.ask(&root(), &Question::Unscrubbed(ALL)).unwrap() else { panic!("no files") };
    left.files
}

#[test]
fn what_is_open_to_write_is_known_after_a_restart_until_it_is_closed() {
    let mut stage = Stage::new();
    let file = stage.file(&root(), "a", 0o644).unwrap();
    open(&mut stage, 1, file);
    open(&mut stage, 2, file);
    open(&mut stage, 2, file);
    stage.restart();
    assert_eq!(writers(&mut stage), [(file.0, 1), (file.0, 2)]);
    let close = Change::Close(close(file));
    stage.change(&Principal::root(1), close.clone()).unwrap();
    assert_eq!(stage.change(&Principal::root(1), close.clone()).unwrap_err().kind, Kind::Missing);
    stage.restart();
    assert_eq!(writers(&mut stage), [(file.0, 2)]);
    stage.change(&Principal::root(2), close).unwrap();
    assert!(writers(&mut stage).is_empty() && to_scrub(&mut stage).is_empty());
}

#[test]
fn a_client_that_is_silent_for_too_long_is_gone_and_what_it_wrote_is_scrubbed() {
    let mut stage = Stage::new();
    let file = stage.file(&root(), "a", 0o644).unwrap();
    let other = stage.file(&root(), "b", 0o644).unwrap();
    open(&mut stage, 2, file);
    open(&mut stage, 3, file);
    open(&mut stage, 3, other);
    stage.pass(Duration::from_secs(590));
    // Whoever asks for anything at all is there. A restart gives everybody the whole time again.
    stage.ask(&Principal::root(2), &Question::Volumes).unwrap();
    assert!(stage.manager.tick(stage.now).unwrap().left.is_empty());
    stage.restart();
    assert!(stage.manager.tick(stage.now).unwrap().left.is_empty());
    stage.pass(Duration::from_secs(599));
    stage.ask(&Principal::root(2), &Question::Volumes).unwrap();
    assert!(stage.manager.tick(stage.now).unwrap().left.is_empty());
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.manager.tick(stage.now).unwrap().left, [file, other]);
    stage.restart();
    assert_eq!(writers(&mut stage), [(file.0, 2)]);
    assert_eq!(to_scrub(&mut stage), [file, other]);
    let close = Change::Close(close(file));
    assert_eq!(stage.change(&Principal::root(3), close).unwrap_err().kind, Kind::Missing);
    let scrubbed = |file| Change::Scrubbed(Scrubbed { file });
    assert_eq!(stage.change(&user(5), scrubbed(file)).unwrap_err().kind, Kind::Forbidden);
    stage.root(scrubbed(file)).unwrap();
    assert_eq!(stage.root(scrubbed(file)).unwrap_err().kind, Kind::Missing);
    assert_eq!(to_scrub(&mut stage), [other]);
}

#[test]
fn outcome_41_a_wall_clock_that_is_set_takes_nobody_for_gone_and_keeps_nobody() {
    let hour = Duration::from_secs(3600);
    for forward in [true, false] {
        let mut stage = Stage::new();
        let file = stage.file(&root(), "a", 0o644).unwrap();
        open(&mut stage, 3, file);
        stage.report(&report(1)).unwrap();
        stage.pass(Duration::from_secs(9));
        stage.now.wall = if forward { stage.now.wall.after(hour) } else { stage.now.wall.before(hour) };
        let ticked = stage.manager.tick(stage.now).unwrap();
        assert!(ticked.left.is_empty() && ticked.down.is_empty(), "forward: {forward}");
        stage.pass(Duration::from_secs(590));
        assert!(stage.manager.tick(stage.now).unwrap().left.is_empty(), "forward: {forward}");
        stage.pass(Duration::from_secs(2));
        assert_eq!(stage.manager.tick(stage.now).unwrap().left, [file], "forward: {forward}");
    }
}

#[test]
fn a_client_that_becomes_late_while_a_long_list_is_looked_through_is_gone_with_the_next_round() {
    let mut stage = Stage::new();
    let first = stage.file(&root(), "first", 0o644).unwrap();
    open(&mut stage, 2, first);
    for number in 0..1030 {
        let file = stage.file(&root(), &format!("f{number}"), 0o644).unwrap();
        open(&mut stage, 3, file);
    }
    stage.pass(Duration::from_secs(300));
    assert!(stage.manager.tick(stage.now).unwrap().left.is_empty(), "the first part, and nobody is late");
    stage.pass(Duration::from_secs(301));
    stage.ask(&Principal::root(3), &Question::Volumes).unwrap();
    assert!(stage.manager.tick(stage.now).unwrap().left.is_empty(), "the second part, in which it has nothing");
    assert_eq!(stage.manager.tick(stage.now).unwrap().left, [first]);
}

#[test]
fn a_client_that_is_said_to_be_gone_leaves_as_many_files_at_a_time_as_one_step_holds() {
    let mut stage = Stage::new();
    for number in 0..150 {
        let file = stage.file(&root(), &format!("f{number}"), 0o644).unwrap();
        open(&mut stage, 2 + number % 2, file);
    }
    let gone = Change::ClientGone(ClientGone { client: 3 });
    assert_eq!(stage.change(&user(5), gone.clone()).unwrap_err().kind, Kind::Forbidden);
    let mut parts = Vec::new();
    loop {
        let Reply::Unscrubbed(left) = stage.root(gone.clone()).unwrap() else { panic!("no files") };
        parts.push(left.files.len());
        if !left.more {
            break;
        }
    }
    assert_eq!(parts.iter().sum::<usize>(), 75);
    assert_eq!(parts.len(), 2);
    assert!(writers(&mut stage).iter().all(|(_, client)| *client == 2));
    assert_eq!(to_scrub(&mut stage).len(), 75);
}

#[test]
fn sixty_four_clients_write_a_file_and_no_more() {
    let mut stage = Stage::new();
    let file = stage.file(&root(), "a", 0o644).unwrap();
    (0..64).for_each(|client| open(&mut stage, 10 + client, file));
    let open = Change::OpenToWrite(OpenToWrite {
        place: Place::of(file),
        alone: false,
        upkeep: false,
        yields: false,
        cached: false,
    });
    assert_eq!(stage.change(&Principal::root(99), open.clone()).unwrap_err().kind, Kind::Busy);
    assert!(stage.change(&Principal::root(10), open).is_ok());
}

#[test]
fn a_node_that_reports_is_up_and_a_tick_in_which_nothing_is_due_costs_nothing() {
    let mut stage = Stage::new();
    stage.pass(Duration::from_secs(29));
    let commits = stage.engine.commits();
    assert_eq!(stage.manager.tick(stage.now).unwrap(), Default::default());
    (1..=4).for_each(|node| drop(stage.report(&report(node)).unwrap()));
    stage.pass(Duration::from_secs(29));
    assert_eq!(stage.engine.commits(), commits);
    assert_eq!(stage.manager.tick(stage.now).unwrap().down, [5]);
    assert_eq!(stage.engine.commits(), commits + 1);
    stage.restart();
    stage.manager.tick(stage.now).unwrap();
    stage.pass(Duration::from_secs(31));
    assert_eq!(stage.manager.tick(stage.now).unwrap().down, [1, 2, 3, 4]);
}
