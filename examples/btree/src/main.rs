//! `cargo run -p forebay-btree -- FILE`: a tree of what stands in front of lines, in a heap on a file that is made for it
//! and removed at the end. Shows what a commit keeps, what an abort undoes, and what is there after opening again.

use forebay_btree::{Tree, TreeOptions};
use forebay_env::Env;
use forebay_env::real::{self, OpenMode, Options, file};
use forebay_model::heap::HeapSettings;
use forebay_model::{Bytes, Error, Profile, Result};
use forebay_target::Target;
use forebay_target::heap::HeapOptions;
use std::path::Path;
use std::process::ExitCode;

/// The heap's name.
const NAME: &str = "/planets";
const PLANETS: [(&str, &str); 8] = [
    ("mercury", "0.39 au"),
    ("venus", "0.72 au"),
    ("earth", "1 au"),
    ("mars", "1.52 au"),
    ("jupiter", "5.2 au"),
    ("saturn", "9.54 au"),
    ("uranus", "19.2 au"),
    ("neptune", "30.06 au"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path] = &arguments[..] else {
        eprintln!("usage: forebay-btree FILE    a file to make, which is removed again at the end");
        return ExitCode::from(2);
    };
    match show(Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-btree: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(path: &Path) -> Result<()> {
    let device = real::create_file(path, Bytes::gib(1))?;
    let shown = real::run(Options { device }, write).and_then(|written| written).and_then(|()| {
        let device = real::open(path, OpenMode::Exclusive)?;
        real::run(Options { device }, read)?
    });
    file::remove(path)?;
    shown
}

/// A new target, a heap on it, a tree in that.
async fn write(env: Env) -> Result<()> {
    Target::format(env.clone(), Profile::guess(env.device.geometry().size, false)).await?;
    let target = Target::open(env).await?;
    let heap = target.create_heap(NAME, HeapSettings::default(), HeapOptions::default()).await?;
    let mut tree = Tree::open(heap, TreeOptions::default()).await?;
    for (planet, distance) in PLANETS {
        tree.insert(planet.as_bytes(), distance.as_bytes()).await?;
    }
    tree.commit().await?;
    println!("committed {} planets: {:?}", PLANETS.len(), tree.verify().await?);
    tree.insert(b"vulcan", b"0.2 au").await?;
    tree.remove(b"earth").await?;
    tree.abort().await?;
    println!("removed earth, and aborted: {}", text(tree.get(b"earth").await?.as_deref()));
    tree.insert(b"pluto", b"39.5 au").await?;
    println!("inserted pluto, and committed nothing");
    target.close().await
}

/// What is there when the target is opened again.
async fn read(env: Env) -> Result<()> {
    let target = Target::open(env).await?;
    let heap = target.heap(NAME, HeapOptions::default()).await?;
    let mut tree = Tree::open(heap, TreeOptions::default()).await?;
    println!("opened again; pluto: {}", text(tree.get(b"pluto").await?.as_deref()));
    println!("from m to s:");
    tree.range(b"m", Some(b"s"), |planet, distance| {
        println!("  {:10} {}", String::from_utf8_lossy(planet), text(Some(distance)));
        true
    })
    .await?;
    let keys = tree.verify().await?.keys;
    if keys != PLANETS.len() as u64 {
        return Err(Error::damaged(format!("there are {keys} keys, and {} were committed", PLANETS.len())));
    }
    target.close().await
}

fn text(value: Option<&[u8]>) -> String {
    value.map_or("is not there".to_string(), |value| String::from_utf8_lossy(value).into_owned())
}
