//! Makes a cluster in a directory.

use crate::settings::{self, Settings};
use forebay_env::Env;
use forebay_env::real::{self, OpenMode, Opened, file};
use forebay_model::{Bytes, Error, Profile, Result, TargetId};
use forebay_target::Target;
use forebay_target::layout::Layout;
use forebay_target::profile::{MeasureOptions, measure as measure_profile};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How devices are measured when they are formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Not at all: promises rest on a cautious guess.
    Guess,
    /// For about so long each.
    For(Duration),
}

/// What a cluster is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// Makes a file of this size in the directory its only target; not together with `devices`.
    pub size: Option<Bytes>,
    /// Block devices or preallocated files that become its targets.
    pub devices: Vec<PathBuf>,
    /// How they are measured.
    pub measure: Measure,
    /// Format over what is there: a cluster, or targets of another one.
    pub force: bool,
}

/// A target that was formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formatted {
    /// Its id.
    pub target: TargetId,
    /// Its file or device.
    pub device: PathBuf,
    /// Bytes of it.
    pub size: Bytes,
    /// What was measured (or guessed) of it.
    pub profile: Profile,
}

/// Makes a cluster in the directory `dir`, which is created if need be. Nothing that was on its targets is kept.
pub fn format(dir: impl AsRef<Path>, options: &FormatOptions) -> Result<Vec<Formatted>> {
    let dir = dir.as_ref();
    if options.size.is_some() != options.devices.is_empty() {
        return Err(Error::usage(
            "a cluster is made of one file of a given size, or of named devices: give one of both",
        ));
    }
    file::make_directory(dir)?;
    let dir = file::absolute(dir)?;
    let Some(_lock) = file::Lock::try_take(settings::lock(&dir))? else {
        return Err(Error::busy(format!("a process has the cluster in {} open; end it first", dir.display())));
    };
    if settings::exist(&dir) && !options.force {
        return Err(Error::exists(format!(
            "{} is a cluster already, and formatting would end all that is in it; force it if that is meant",
            dir.display()
        )));
    }
    let targets = match options.size {
        Some(size) => {
            Layout::for_device(size)?;
            vec![(PathBuf::from("target.0"), fresh_file(&dir.join("target.0"), size, options.force)?)]
        }
        None => {
            let open = |path: &PathBuf| {
                let path = file::absolute(path)?;
                let opened = real::open(&path, OpenMode::Exclusive)?;
                Ok((path, opened))
            };
            options.devices.iter().map(open).collect::<Result<Vec<_>>>()?
        }
    };
    let mut formatted = Vec::new();
    for (path, opened) in targets {
        let done = one(path, opened, options).inspect_err(|_| {
            if options.size.is_some() {
                // What matters is why it cannot be a target; a file that stays is in the way, no more.
                let _ = file::remove(dir.join("target.0"));
            }
        });
        formatted.push(done?);
    }
    let settings = Settings { targets: formatted.iter().map(|f| f.device.clone()).collect() };
    settings.write(&dir)?;
    Ok(formatted)
}

fn fresh_file(path: &Path, size: Bytes, force: bool) -> Result<Opened> {
    if force {
        file::remove(path)?;
    }
    real::create_file(path, size)
}

/// Formats one device on a loop of this thread.
fn one(path: PathBuf, opened: Opened, options: &FormatOptions) -> Result<Formatted> {
    let geometry = opened.geometry().clone();
    Layout::for_device(geometry.size).map_err(|e| e.of(&geometry.name))?;
    let (measure, force) = (options.measure, options.force);
    let (target, profile) = real::run(real::Options { device: opened }, move |env| async move {
        if !force {
            refuse_formatted(env.clone()).await?;
        }
        let profile = match measure {
            Measure::Guess => Profile::guess(env.device.geometry().size, env.device.geometry().rotates),
            Measure::For(budget) => {
                let geometry = env.device.geometry();
                let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
                let options = MeasureOptions { budget: options.budget.min(budget), ..options };
                measure_profile(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await?
            }
        };
        Target::format(env.clone(), profile.clone()).await?;
        let (superblock, _, _) = Target::inspect(env).await?;
        Ok((superblock.target, profile))
    })??;
    Ok(Formatted { target, device: path, size: geometry.size, profile })
}

async fn refuse_formatted(env: Env) -> Result<()> {
    let name = env.device.geometry().name;
    match Target::inspect(env).await {
        Ok((superblock, catalog, _)) => Err(Error::exists(format!(
            "{name} is a target already (formatted {}, {} rings); force it if all of that may go",
            superblock.formatted,
            catalog.rings.len()
        ))),
        Err(_) => Ok(()),
    }
}
