//! Medians of all rounds, and how they compare with those of the heap: as a table, or as JSON.

use crate::Options;
use crate::measure::{Figures, Store};
use forebay_model::{Error, Result};
use serde_json::{Value, json};

/// What is compared: its name in the JSON, its title, and how it is had.
type Figure = (&'static str, &'static str, fn(&Figures) -> f64);
const FIGURES: [Figure; 4] = [
    ("puts_per_second", "puts/s", Figures::puts_per_second),
    ("cpu_microseconds_per_put", "CPU us/put", Figures::cpu_per_put),
    ("store_bytes", "store MiB", |figures| figures.store.0 as f64),
    ("write_amplification", "written/put", Figures::amplification),
];

/// The middle of them; of two, between both.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 0 => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

/// Shows all.
pub fn show(options: &Options, figures: &[(Store, Vec<Figures>)]) -> Result<()> {
    let medians = |rounds: &[Figures]| FIGURES.map(|(_, _, of)| median(rounds.iter().map(of).collect()));
    let ours = figures.iter().find(|(store, _)| *store == Store::Heap).map(|(_, rounds)| medians(rounds));
    let ratio = |median: f64, at: usize| ours.map(|ours| median / ours[at].max(f64::MIN_POSITIVE));
    if options.json {
        let stores = figures.iter().map(|(store, rounds)| of_store(*store, rounds, &medians(rounds), ratio));
        let shown = json!({
            "load": format!("{:?}", options.load).to_lowercase(),
            "keys": options.keys,
            "per_commit": options.per_commit,
            "rounds": options.rounds,
            "cache_bytes": options.cache.0,
            "seed": options.seed,
            "stores": stores.collect::<Vec<Value>>(),
        });
        println!("{}", serde_json::to_string(&shown).map_err(|e| Error::usage(e.to_string()))?);
        return Ok(());
    }
    let titles = FIGURES.iter().map(|(_, title, _)| format!("{title:>14}{:>8}", "x heap"));
    println!("medians of {} rounds\n{:10}{}", options.rounds, "store", titles.collect::<String>());
    for (store, rounds) in figures {
        let cells = medians(rounds).into_iter().enumerate().map(|(at, median)| {
            let shown = if FIGURES[at].0 == "store_bytes" { median / f64::from(1 << 20) } else { median };
            let digits = if shown >= 1000.0 { 0 } else { 2 };
            let ratio = ratio(median, at).map_or(String::new(), |ratio| format!("{ratio:.2}"));
            format!("{shown:>14.digits$}{ratio:>8}")
        });
        println!("{:10}{}", store.name(), cells.collect::<String>());
    }
    Ok(())
}

fn of_store(
    store: Store,
    rounds: &[Figures],
    medians: &[f64; FIGURES.len()],
    ratio: impl Fn(f64, usize) -> Option<f64>,
) -> Value {
    let mut shown = json!({ "store": store.name() });
    for (at, (name, _, of)) in FIGURES.iter().enumerate() {
        shown[*name] = json!(medians[at]);
        shown[format!("{name}_of_heap")] = json!(ratio(medians[at], at));
        shown[format!("{name}_rounds")] = rounds.iter().map(of).collect();
    }
    shown["puts"] = json!(rounds.first().map(|round| round.puts));
    shown["put_bytes"] = json!(rounds.first().map(|round| round.put_bytes.0));
    shown
}
