//! A profile as a picture: in the terminal, and as SVG. Pure; what is drawn is the profile and nothing else.

use forebay_model::{Bytes, Profile, Rate};
use std::fmt::Write;

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// Block elements.
    Unicode,
    /// Plain letters, for terminals and logs that know nothing else.
    Ascii,
}

/// Columns left of the picture: a rate and the axis.
const MARGIN: usize = 12;
/// The least that anything can be seen in.
const LEAST: (usize, usize) = (MARGIN + 20, 8);

/// Rates by position in `width` columns and `height` lines: an area for writes, dots for reads where they are faster.
pub fn terminal_curve(profile: &Profile, width: usize, height: usize, charset: Charset) -> String {
    let (width, height) = (width.max(LEAST.0), height.max(LEAST.1));
    let (columns, rows) = (width - MARGIN, height - 3);
    let extent = Extent::of(profile);
    let (top, step) = axis(profile, rows.min(12) as u64 / 2);
    let level = |rate: Rate| rate.0 as f64 / top.0 as f64 * rows as f64;
    let at = |column: usize| extent.at((column as f64 + 0.5) / columns as f64);
    let writes: Vec<f64> = (0..columns).map(|c| level(between(profile, at(c), |p| p.write))).collect();
    let reads: Vec<f64> = (0..columns).map(|c| level(between(profile, at(c), |p| p.read))).collect();
    let vertical = if charset == Charset::Unicode { '\u{2502}' } else { '|' };
    let mut out = String::new();
    for row in (0..rows).rev() {
        let label = axis_label(top, step, row, rows);
        let _ = write!(out, "{label:>10} {vertical}");
        let line: String = (0..columns).map(|c| cell(writes[c], reads[c], row, charset)).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let (corner, horizontal) = if charset == Charset::Unicode { ('\u{2514}', '\u{2500}') } else { ('+', '-') };
    let _ = writeln!(out, "{:>10} {corner}{}", "0", horizontal.to_string().repeat(columns));
    out.push_str(&positions(&extent, columns));
    let (area, dot) = if charset == Charset::Unicode { ('\u{2588}', '\u{2022}') } else { ('#', 'o') };
    let derived = if profile.writes_measured { "" } else { " (from reads)" };
    let _ = writeln!(out, "{:MARGIN$}{area} write{derived}  {dot} read, where faster", "");
    out
}

/// One character: how much of this row the area fills, or the dot.
fn cell(write: f64, read: f64, row: usize, charset: Charset) -> char {
    let filled = (write - row as f64).clamp(0.0, 1.0);
    let eighths = (filled * 8.0).round() as u32;
    let is_read = read.ceil() as usize == row + 1 && read > write + 0.25;
    match charset {
        // U+2581 to U+2588 are one to eight eighths of a cell from below.
        Charset::Unicode if eighths > 0 => char::from_u32(0x2580 + eighths).unwrap_or('#'),
        Charset::Unicode if is_read => '\u{2022}',
        Charset::Ascii if filled >= 0.5 => '#',
        Charset::Ascii if is_read => 'o',
        _ => ' ',
    }
}

/// The round rate at the upper edge of a row, if there is one.
fn axis_label(top: Rate, step: Rate, row: usize, rows: usize) -> String {
    let ticks = (1..=top.0 / step.0.max(1)).map(|n| Rate(step.0 * n));
    let edge = |rate: &Rate| (rate.0 as f64 / top.0 as f64 * rows as f64).round() as usize;
    ticks.into_iter().find(|rate| edge(rate) == row + 1).map_or_else(String::new, |rate| short(&rate.to_string()))
}

/// The line below the axis: where it begins, its middle, and where it ends.
fn positions(extent: &Extent, columns: usize) -> String {
    let (start, middle, end) = (extent.at(0.0).to_string(), extent.at(0.5).to_string(), extent.at(1.0).to_string());
    let mut line = vec![' '; MARGIN + columns];
    let mut put = |at: usize, text: &str| {
        for (i, character) in text.chars().enumerate().filter(|(i, _)| at + i < MARGIN + columns) {
            line[at + i] = character;
        }
    };
    put(MARGIN, &start);
    if columns > 40 {
        put(MARGIN + columns / 2 - middle.len() / 2, &middle);
    }
    put(MARGIN + columns - end.len().min(columns), &end);
    let mut text: String = line.into_iter().collect();
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The positions that a profile covers.
struct Extent {
    from: Bytes,
    to: Bytes,
}

impl Extent {
    fn of(profile: &Profile) -> Extent {
        let from = profile.points.first().map_or(Bytes::ZERO, |p| p.offset);
        let to = profile.points.last().map_or(Bytes::ZERO, |p| p.offset);
        Extent { from, to: to.max(from + Bytes(1)) }
    }

    fn at(&self, share: f64) -> Bytes {
        self.from + Bytes(((self.to - self.from).0 as f64 * share) as u64)
    }

    fn share(&self, offset: Bytes) -> f64 {
        offset.saturating_sub(self.from).0 as f64 / (self.to - self.from).0 as f64
    }
}

/// The curve between the points, for the eye: promises use the floor.
fn between(profile: &Profile, offset: Bytes, rate: impl Fn(&forebay_model::profile::Point) -> Rate) -> Rate {
    let after = profile.points.partition_point(|p| p.offset <= offset).clamp(1, profile.points.len().max(2) - 1);
    let (Some(a), Some(b)) = (profile.points.get(after - 1), profile.points.get(after)) else {
        return profile.points.first().map_or(Rate(0), rate);
    };
    let share = offset.saturating_sub(a.offset).0 as f64 / (b.offset - a.offset).0.max(1) as f64;
    let (from, to) = (rate(a).0 as f64, rate(b).0 as f64);
    Rate((from + (to - from) * share.clamp(0.0, 1.0)) as u64)
}

/// A round rate above the whole curve, and the round step that makes it up in about `ticks`.
fn axis(profile: &Profile, ticks: u64) -> (Rate, Rate) {
    let highest = profile.points.iter().map(|p| p.write.max(p.read).0).max().unwrap_or(1).max(1);
    let step = round_step(highest as f64, ticks) as u64;
    (Rate(highest.div_ceil(step) * step), Rate(step))
}

/// 1, 2 or 5 times a power of ten, so that about `ticks` of it make up `whole`.
fn round_step(whole: f64, ticks: u64) -> f64 {
    let rough = (whole / ticks.max(1) as f64).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power)
}

const SVG: (f64, f64) = (860.0, 460.0);
/// The plot's edges: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (86.0, 64.0, 830.0, 380.0);
const WRITE_COLOUR: &str = "#c2410c";
const READ_COLOUR: &str = "#1d4ed8";

/// The same as a picture of its own, with axes and units. `title` is what people call the device.
pub fn svg_curve(profile: &Profile, title: &str) -> String {
    let extent = Extent::of(profile);
    let (left, upper, right, lower) = PLOT;
    let (top, step) = axis(profile, 6);
    let x = |offset: Bytes| left + extent.share(offset) * (right - left);
    let y = |rate: Rate| lower - rate.0 as f64 / top.0 as f64 * (lower - upper);
    let mut svg = String::new();
    let (width, height) = SVG;
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1f2937\">\n<title>{0}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"{left}\" y=\"30\" font-size=\"18\" font-weight=\"bold\">{0}</text>",
        escape(&format!("Bandwidth by position: {title}"))
    );
    grid(&mut svg, &extent, top, step, &x, &y);
    for (colour, dash, rate) in [
        (READ_COLOUR, " stroke-dasharray=\"7 4\"", (|p| p.read) as fn(&forebay_model::profile::Point) -> Rate),
        (WRITE_COLOUR, "", |p| p.write),
    ] {
        let points: Vec<String> =
            profile.points.iter().map(|p| format!("{:.1},{:.1}", x(p.offset), y(rate(p)))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash} points=\"{}\"/>",
            points.join(" ")
        );
    }
    legend(&mut svg, profile);
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, extent: &Extent, top: Rate, step: Rate, x: &dyn Fn(Bytes) -> f64, y: &dyn Fn(Rate) -> f64) {
    let (left, upper, right, lower) = PLOT;
    for n in 0..=top.0 / step.0 {
        let rate = Rate(step.0 * n);
        let at = y(rate);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#d1d5db\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.5,
            if n == 0 { "0".to_owned() } else { short(&rate.to_string()) }
        );
    }
    let unit = [Bytes(1 << 40), Bytes::gib(1), Bytes::mib(1), Bytes::kib(1)];
    let unit = unit.into_iter().find(|unit| extent.to.0 >= unit.0 * 3).unwrap_or(Bytes(1));
    let whole = (extent.to - extent.from).0 as f64 / unit.0 as f64;
    let every = round_step(whole, 8) * unit.0 as f64;
    let first = (extent.from.0 as f64 / every).ceil() as u64;
    for n in first..=(extent.to.0 as f64 / every) as u64 {
        let offset = Bytes((n as f64 * every) as u64);
        let at = x(offset);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{upper}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#e5e7eb\"/>\n<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{offset}</text>",
            lower + 5.0,
            lower + 22.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{left},{upper} V{lower} H{right}\" fill=\"none\" stroke=\"#1f2937\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">position on the device</text>\n<text transform=\"translate(20 {:.1}) rotate(-90)\" text-anchor=\"middle\">rate</text>",
        (left + right) / 2.0,
        lower + 44.0,
        (upper + lower) / 2.0
    );
}

fn legend(svg: &mut String, profile: &Profile) {
    let (left, upper, right, lower) = PLOT;
    let at = upper - 14.0;
    let write = if profile.writes_measured { "write" } else { "write, taken from reads" };
    for (n, (colour, dash, text)) in
        [(WRITE_COLOUR, "", write), (READ_COLOUR, " stroke-dasharray=\"7 4\"", "read")].into_iter().enumerate()
    {
        let from = left + 200.0 * n as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{from}\" y1=\"{at}\" x2=\"{}\" y2=\"{at}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\n<text x=\"{}\" y=\"{}\">{text}</text>",
            from + 28.0,
            from + 35.0,
            at + 4.5
        );
    }
    let ms = |time: std::time::Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let _ = writeln!(
        svg,
        "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#6b7280\">positioning at worst: {} near, {} across; flush {}; stall {}</text>",
        lower + 66.0,
        ms(profile.short_seek),
        ms(profile.full_seek),
        ms(profile.flush),
        ms(profile.stall)
    );
}

/// Without decimals that say nothing: `100.0 MB/s` is `100 MB/s`.
fn short(text: &str) -> String {
    text.replace(".00 ", " ").replace(".0 ", " ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
