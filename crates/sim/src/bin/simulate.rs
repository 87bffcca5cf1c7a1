//! Lives of rings and their sufferings on bad disks by seed, for as many seeds as asked for:
//! `simulate [SEED] [--seeds N]`; with `--promise` rings with a promise beside everything else. A failing seed panics with
//! its number and how to replay it.

use forebay_sim::damage::{self, suffer};
use forebay_sim::life::{self, live};
use forebay_sim::promise::survey;

/// Lives of one ring.
const LIVES: u32 = 5;
/// Rounds of damage to one ring.
const ROUNDS: u32 = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().ok();
    let seeds = arguments.iter().position(|a| a == "--seeds").and_then(|at| arguments.get(at + 1)).and_then(number);
    let first = arguments.first().and_then(number);
    let (from, count) = match (first, seeds) {
        (Some(seed), seeds) => (seed, seeds.unwrap_or(1)),
        (None, Some(seeds)) => (0, seeds),
        (None, None) => {
            eprintln!("usage: simulate [SEED] [--seeds N] [--promise]");
            std::process::exit(2);
        }
    };
    if arguments.iter().any(|argument| argument == "--promise") {
        let mut kept = survey::Tally::default();
        (from..from + count).for_each(|seed| kept.add(survey::keep(seed)));
        return println!("{count} seeds from {from}: {kept:?}");
    }
    let (mut lives, mut damage) = (life::Tally::default(), damage::Tally::default());
    for seed in from..from + count {
        lives.add(&live(seed, life::disk(seed), LIVES));
        damage.add(&suffer(seed, damage::disk(seed), ROUNDS));
    }
    println!("{count} seeds from {from}: lives {lives:?}, damage {damage:?}");
}
