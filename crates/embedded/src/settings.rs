//! The file that makes a directory a cluster, and the names of what lies beside it.
//!
//! `cluster.toml`:
//!
//! ```toml
//! version = 1
//! targets = ["target.0", "/dev/sdb"]
//! ids = ["5be0cd19137e2179a54ff53a5f1d36f1", "9b05688c2b3e6c1f1f83d9abfb41bd6b"]
//! ```
//!
//! A target without a path from the root lies in the directory. The ids tell targets from those of other clusters; a
//! file without them is read as well, and then every target is welcome.

use forebay_env::real::file::{self, Lock};
use forebay_model::{Error, Kind, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of `cluster.toml` written here.
const VERSION: u32 = 1;
/// What the file begins with.
const PREAMBLE: &str = "# A cluster of Forebay. Its targets, in order; one without a path from the root lies here.\n";

/// What a cluster is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The files and devices that are its targets, as `cluster.toml` names them.
    pub targets: Vec<PathBuf>,
    /// Their ids, in the same order; none where the file does not tell.
    pub ids: Vec<TargetId>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    targets: Vec<String>,
    #[serde(default)]
    ids: Vec<String>,
}

/// The version alone, so that a later one can be told whatever else it has.
#[derive(Deserialize)]
struct Beginning {
    version: u32,
}

impl Settings {
    /// Reads what makes `dir` a cluster.
    pub fn read(dir: &Path) -> Result<Settings> {
        let name = dir.display();
        if !file::exists(dir) {
            return Err(Error::missing(format!(
                "there is no directory {name}; make a cluster with `forebay format --cluster {name} --size 10GiB`"
            )));
        }
        let path = toml(dir);
        let text = file::read_text(&path).map_err(|error| match error.kind {
            Kind::Missing if file::is_directory(dir) => Error::missing(format!(
                "{name} is not a cluster: it has no cluster.toml; make one with \
                 `forebay format --cluster {name} --size 10GiB`"
            )),
            Kind::Missing => Error::usage(format!("{name} is not a directory, so it cannot be a cluster")),
            _ => error,
        })?;
        let bad = |reason: String| Error::damaged(format!("{} cannot be read: {reason}", path.display()));
        let reason = |e: toml::de::Error| e.message().to_string();
        let Beginning { version } = toml::from_str(&text).map_err(|e| bad(reason(e)))?;
        if version != VERSION {
            return Err(Error::version(format!(
                "{} has version {version} and this Forebay knows {VERSION}; use a newer one",
                path.display()
            )));
        }
        let Text { targets, ids, .. } = toml::from_str(&text).map_err(|e| bad(reason(e)))?;
        if targets.is_empty() {
            return Err(bad("it names no targets".to_string()));
        }
        if !ids.is_empty() && ids.len() != targets.len() {
            return Err(bad(format!("it names {} targets and {} ids; each has its own", targets.len(), ids.len())));
        }
        let id = |text: String| {
            let number = u128::from_str_radix(&text, 16).map_err(|_| bad(format!("'{text}' is no id of a target")));
            number.map(TargetId)
        };
        let ids = ids.into_iter().map(id).collect::<Result<_>>()?;
        Ok(Settings { targets: targets.into_iter().map(PathBuf::from).collect(), ids })
    }

    /// Makes `dir` a cluster.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let name = |path: &PathBuf| {
            let text = path.to_str().map(str::to_string);
            text.ok_or_else(|| Error::usage(format!("{} is not UTF-8; give the target another name", path.display())))
        };
        let targets = self.targets.iter().map(name).collect::<Result<Vec<String>>>()?;
        let ids = self.ids.iter().map(TargetId::to_string).collect();
        let text = toml::to_string(&Text { version: VERSION, targets, ids })
            .map_err(|e| Error::usage(format!("the settings of {} cannot be written: {e}", dir.display())))?;
        file::replace(toml(dir), format!("{PREAMBLE}{text}").as_bytes())
    }
}

/// Whether `dir` is a cluster, as far as its looks go.
pub(crate) fn exist(dir: &Path) -> bool {
    file::exists(toml(dir))
}

fn toml(dir: &Path) -> PathBuf {
    dir.join("cluster.toml")
}

/// The file that the owner of the targets locks.
pub(crate) fn lock(dir: &Path) -> PathBuf {
    dir.join("owner.lock")
}

/// Takes the lock of the owner of the cluster in `dir`, if nobody has it.
pub(crate) fn try_own(dir: &Path) -> Result<Option<Lock>> {
    // The door has no kind for it: EACCES, as the system words it.
    let is_denied = |error: &Error| error.message.contains("(os error 13)");
    Lock::try_take(lock(dir)).map_err(|error| match is_denied(&error) {
        true => Error::new(
            error.kind,
            format!("the cluster in {} belongs to another user; run as that user, or as root ({error})", dir.display()),
        ),
        false => error,
    })
}

/// Where the owner listens.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("forebay.sock")
}
