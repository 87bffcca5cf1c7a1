use super::*;

fn parse(line: &str) -> Option<Asked> {
    Asked::parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
}

#[test]
fn what_replays_a_seed_asks_for_that_seed_alone() {
    for (line, subject) in [
        ("--seeds 9", Subject::Rings),
        ("4 --seeds 9 --promise", Subject::Promises),
        ("--cluster --seeds 9", Subject::Clusters),
        ("--cluster 4 --short --seeds 9", Subject::ShortClusters),
    ] {
        let asked = parse(line).unwrap();
        assert_eq!((asked.subject, asked.count), (subject, 9), "{line}");
        assert_eq!(asked.from, if line.contains('4') { 4 } else { 0 }, "{line}");
        let replay = asked.replay(17);
        let again = parse(replay.strip_prefix("cargo x sim").unwrap());
        assert_eq!(again, Some(Asked { subject, from: 17, count: 1 }), "{replay}");
    }
}

#[test]
fn what_is_not_understood_is_not_taken_for_something_else() {
    for line in ["", "--cluster", "--seeds", "--seeds x", "17 --short", "17 --promise --cluster", "17 --fast", "x"] {
        assert_eq!(parse(line), None, "{line}");
    }
}
