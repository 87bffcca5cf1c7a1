//! Makes a cluster in a directory.
//!
//! Invariant: unless it is forced, nothing that somebody may want is written over, and all devices are looked at before
//! the first of them is written.

use crate::occupied::nothing_to_lose;
use crate::settings::{self, Settings};
use forebay_env::real::{self, OpenMode, Opened, file};
use forebay_env::{Geometry, PlainZones};
use forebay_model::{Bytes, Error, Kind, Profile, Result, TargetId};
use forebay_target::Target;
use forebay_target::layout::Layout;
use forebay_target::profile::{MeasureOptions, measure as measure_profile};
use forebay_wire::command::AddTarget;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The target of a cluster that is made of one file.
const FILE: &str = "target.0";

/// How devices are measured when they are formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Not at all: promises rest on a cautious guess.
    Guess,
    /// For about so long each.
    For(Duration),
    /// For as long as suits each, and so long at most.
    AtMost(Duration),
}

impl Measure {
    /// For how long a device is measured, if `usual` suits it; `None`: not at all.
    pub(crate) fn budget(self, usual: Duration) -> Option<Duration> {
        match self {
            Measure::Guess => None,
            Measure::For(budget) => Some(budget),
            Measure::AtMost(most) => Some(usual.min(most)),
        }
    }
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
    /// Format over what is there: a cluster, targets of another one, file systems, partitions.
    pub force: bool,
    /// Where tracks of the devices do not overlap, if others do and the devices hide it: logs go there.
    pub plain_zones: Option<PlainZones>,
}

impl FormatOptions {
    /// A cluster of one file, where nothing is yet.
    pub fn file(size: Bytes, measure: Measure) -> FormatOptions {
        FormatOptions { size: Some(size), ..FormatOptions::devices(Vec::new(), measure) }
    }

    /// A cluster of devices that hold nothing yet.
    pub fn devices(devices: Vec<PathBuf>, measure: Measure) -> FormatOptions {
        FormatOptions { size: None, devices, measure, force: false, plain_zones: None }
    }
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

/// Makes a cluster in the directory `dir`, which is created if need be. Nothing that was on its targets is kept. If it
/// comes to nothing, what was there is as it was, down to the directories that were made on the way.
pub fn format(dir: impl AsRef<Path>, options: &FormatOptions) -> Result<Vec<Formatted>> {
    let dir = dir.as_ref();
    if options.size.is_some() != options.devices.is_empty() {
        return Err(Error::usage(
            "a cluster is made of one file of a given size, or of named devices: give one of both",
        ));
    }
    let parts = dir.ancestors().filter(|part| !part.as_os_str().is_empty());
    let missing: Vec<&Path> = parts.take_while(|part| !file::exists(part)).collect();
    file::make_directory(dir).and_then(|()| in_directory(&file::absolute(dir)?, options)).inspect_err(|_| {
        for part in missing {
            // One that is in use by now stays, and what matters is why there is no cluster.
            let _ = file::remove_empty_directory(part);
        }
    })
}

fn in_directory(dir: &Path, options: &FormatOptions) -> Result<Vec<Formatted>> {
    let known = file::exists(settings::lock(dir));
    let Some(_lock) = file::Lock::try_take(settings::lock(dir))? else {
        return Err(Error::busy(format!("a process has the cluster in {} open; end it first", dir.display())));
    };
    locked(dir, options).inspect_err(|_| {
        if !known {
            // As above. Nobody else wants the lock of a directory that is no cluster.
            let _ = file::remove(settings::lock(dir));
        }
    })
}

fn locked(dir: &Path, options: &FormatOptions) -> Result<Vec<Formatted>> {
    if settings::exist(dir) && !options.force {
        return Err(Error::exists(format!(
            "{} is a cluster already, and formatting would end all that is in it; force it if that is meant",
            dir.display()
        )));
    }
    let targets = match options.size {
        Some(size) => {
            layout(size, options)?;
            vec![(PathBuf::from(FILE), fresh_file(&dir.join(FILE), size, options.force)?)]
        }
        None => {
            let devices = options.devices.iter().map(|path| device(path, options)).collect::<Result<Vec<_>>>()?;
            // What a file lacks of its space, others may have taken when it is written.
            devices.iter().try_for_each(|(_, opened)| opened.set_space_aside())?;
            devices
        }
    };
    let mut formatted = Vec::new();
    for (path, opened) in targets {
        let done = one(path, opened, options).inspect_err(|_| {
            if options.size.is_some() {
                // What matters is why it cannot be a target; a file that stays is in the way, no more.
                let _ = file::remove(dir.join(FILE));
            }
        });
        formatted.push(done?);
    }
    let settings = Settings {
        targets: formatted.iter().map(|f| f.device.clone()).collect(),
        ids: formatted.iter().map(|f| f.target).collect(),
    };
    settings.write(dir)?;
    Ok(formatted)
}

/// Makes a target for a cluster that is there, of a file or device that is none of its targets yet.
pub(crate) fn another(dir: &Path, asked: &AddTarget, known: &Settings) -> Result<Formatted> {
    let path = PathBuf::from(&asked.path);
    let options =
        FormatOptions { size: asked.size, force: asked.force, ..FormatOptions::devices(Vec::new(), Measure::Guess) };
    if known.targets.iter().any(|target| dir.join(target) == path) {
        return Err(Error::exists(format!("{} is a target of this cluster already", path.display())));
    }
    // As `cluster.toml` names it.
    let named = path.strip_prefix(dir).map_or_else(|_| path.clone(), Path::to_path_buf);
    let Some(size) = asked.size else {
        let (_, opened) = device(&path, &options)?;
        opened.set_space_aside()?;
        return one(named, opened, &options);
    };
    layout(size, &options)?;
    let made = fresh_file(&path, size, asked.force)?;
    one(named, made, &options).inspect_err(|_| {
        // What matters is why it cannot be a target; a file that stays is in the way, no more.
        let _ = file::remove(&path);
    })
}

fn fresh_file(path: &Path, size: Bytes, force: bool) -> Result<Opened> {
    if force && file::exists(path) {
        if !file::is_file(path) {
            return Err(Error::usage(format!(
                "{} is no file, so none of {size} can take its place; leave the size out to use a device as it is",
                path.display()
            )));
        }
        // What somebody has open stays, by whatever path it is named.
        if let Err(error) = real::open(path, OpenMode::Exclusive)
            && error.kind == Kind::Busy
        {
            return Err(error);
        }
        let old = file::File::open(path)?.size()?;
        let room = file::available(path)? + old;
        if room < size {
            return Err(Error::full(format!(
                "{} needs {size}, and its file system has {room} for it, the {old} that it has now included; \
                 ask for less or make room (nothing was changed)",
                path.display()
            )));
        }
        file::remove(path)?;
    }
    real::create_file(path, size)
}

/// A named device, opened. All of them are looked at before the first is changed.
fn device(path: &Path, options: &FormatOptions) -> Result<(PathBuf, Opened)> {
    let path = file::absolute(path)?;
    let opened = real::open(&path, OpenMode::Exclusive)?;
    let Geometry { size, name, .. } = opened.geometry();
    layout(*size, options).map_err(|e| e.of(name))?;
    let opened = if options.force { opened } else { nothing_to_lose(opened, "formatting")? };
    Ok((path, opened))
}

/// Where things will lie on a device of `size`.
fn layout(size: Bytes, options: &FormatOptions) -> Result<Layout> {
    match options.plain_zones {
        Some(zones) => Layout::with_plain_zones(size, zones),
        None => Layout::for_device(size),
    }
}

/// Formats one device on a loop of this thread.
fn one(path: PathBuf, opened: Opened, options: &FormatOptions) -> Result<Formatted> {
    let (size, measure) = (opened.geometry().size, options.measure);
    let layout = layout(size, options)?;
    let (target, profile) = real::run(real::Options { device: opened }, move |env| async move {
        let (size, rotates) = (env.device.geometry().size, env.device.geometry().rotates);
        let usual = MeasureOptions::for_extent(size, rotates, true);
        let profile = match measure.budget(usual.budget) {
            None => Profile::guess(size, rotates),
            Some(budget) => {
                let options = MeasureOptions { budget, ..usual };
                measure_profile(&env, Bytes::ZERO..size, options, &mut |_| ()).await?
            }
        };
        Target::format_as(env.clone(), profile.clone(), layout).await?;
        let (superblock, _, _) = Target::inspect(env).await?;
        Ok((superblock.target, profile))
    })??;
    Ok(Formatted { target, device: path, size, profile })
}
