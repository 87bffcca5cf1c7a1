use super::*;
use forebay_model::profile::Point;
use std::time::Duration;

fn falling(reads_over_writes: u64) -> Profile {
    let mut profile = Profile::guess(Bytes::gib(1400), true);
    profile.writes_measured = true;
    profile.points = (0..64)
        .map(|i| {
            let write = Rate(110_000_000 - i * 900_000 - if i > 51 { (i - 51) * 1_200_000 } else { 0 });
            let read = Rate(write.0 + reads_over_writes);
            Point { offset: Bytes::gib(1400 * i / 63), write, read, worst: Duration::from_millis(80) }
        })
        .collect();
    profile
}

#[test]
fn a_falling_curve_falls_in_the_terminal() {
    let text = terminal_curve(&falling(0), 72, 14, Charset::Ascii);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 14, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 72), "{text}");
    let area: Vec<usize> = lines[..11].iter().map(|line| line.matches('#').count()).collect();
    assert!(area.windows(2).all(|pair| pair[0] <= pair[1]), "{text}");
    assert!(area[0] < 60 && area[10] == 60, "{text}");
    assert!(lines[0].contains("150 MB/s"), "{text}");
    assert!(lines[12].contains("0 B") && lines[12].contains("1.4 TiB"), "{text}");
    assert!(text.is_ascii());
}

#[test]
fn reads_show_above_writes_where_they_are_faster() {
    let text = terminal_curve(&falling(60_000_000), 60, 16, Charset::Ascii);
    assert!(text.matches('o').count() > 30, "{text}");
    let same = terminal_curve(&falling(0), 60, 16, Charset::Unicode);
    assert_eq!(same.matches('\u{2022}').count(), 1, "only in the legend: {same}");
    assert!(same.contains('\u{2588}') && same.contains('\u{2514}'), "{same}");
}

#[test]
fn a_tiny_terminal_and_a_single_point_are_drawn_too() {
    let mut profile = falling(0);
    assert_eq!(terminal_curve(&profile, 0, 0, Charset::Unicode).lines().count(), 8);
    profile.points.truncate(1);
    assert!(terminal_curve(&profile, 40, 10, Charset::Ascii).contains('#'));
    assert!(svg_curve(&profile, "one").ends_with("</svg>\n"));
}

#[test]
fn the_picture_has_a_title_two_curves_and_units() {
    let svg = svg_curve(&falling(5_000_000), "/dev/<disk> & \"more\"");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(svg.contains("Bandwidth by position: /dev/&lt;disk&gt; &amp; &quot;more&quot;"));
    for text in ["100 MB/s", "GiB</text>", "position on the device", ">write<", ">read<", "across"] {
        assert!(svg.contains(text), "{text}");
    }
    let mut derived = falling(0);
    derived.writes_measured = false;
    assert!(svg_curve(&derived, "x").contains("taken from reads"));
}

#[test]
fn steps_of_an_axis_are_round() {
    assert_eq!(round_step(110e6, 6), 20e6);
    assert_eq!(round_step(100.0, 5), 20.0);
    assert_eq!(round_step(3.0, 6), 1.0);
}
