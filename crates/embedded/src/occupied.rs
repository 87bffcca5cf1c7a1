//! Whether there is anything on a device that somebody may want: asked before a device is written over.
//!
//! Invariant: looking changes nothing.

mod foreign;

use forebay_env::real::{self, Opened};
use forebay_model::{Bytes, Error, Result};
use forebay_target::layout::ROOTS;
use forebay_target::{Target, superblock};

/// Gives the device back if it holds nothing that is known, and refuses it otherwise: `doing`, as in "formatting",
/// would end that. A target of ours counts, also one that is damaged or of a newer version.
pub fn nothing_to_lose(opened: Opened, doing: &str) -> Result<Opened> {
    let size = opened.geometry().size;
    let head = opened.read_at(Bytes::ZERO, foreign::HEAD.min(size))?;
    if ROOTS.iter().any(|root| head.get(root.0 as usize..).is_some_and(|at| at.starts_with(&superblock::MAGIC))) {
        return Err(ours(opened, doing));
    }
    let tail = foreign::TAIL.min(size);
    let tail = opened.read_at(size - tail, tail)?;
    match foreign::find_at_end(&tail, size).or_else(|| foreign::find(&head)) {
        Some(found) => Err(Error::exists(format!(
            "{} holds {} (its signature is at byte {}), and {doing} would end all that is in it; force it if that is \
             meant",
            opened.geometry().name,
            found.what,
            found.at
        ))),
        None => Ok(opened),
    }
}

/// Why a device that is a target is not written over.
fn ours(opened: Opened, doing: &str) -> Error {
    let name = opened.geometry().name.clone();
    let found = real::run(real::Options { device: opened }, Target::inspect).flatten();
    let what = match found {
        Ok((superblock, catalog, _)) => {
            format!("formatted {}, {} rings", superblock.formatted, catalog.rings.len())
        }
        Err(error) => format!("if not a sound one: {error}"),
    };
    Error::exists(format!(
        "{name} is a target already ({what}), and {doing} would end all that is in it; force it if that is meant"
    ))
}
