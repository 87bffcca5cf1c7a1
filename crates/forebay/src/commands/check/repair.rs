//! `forebay check --write`: opens a target that nobody uses, which mends copies of superblock and checkpoint, and puts
//! right what the rows of its objects say against one another.

use crate::show::live::Live;
use forebay_env::real::{self, OpenMode};
use forebay_model::{Error, Result};
use forebay_target::Target;
use std::path::Path;

/// Puts right what can be on `device`; what was, in sentences.
pub fn run(device: &Path, mut live: Live) -> Result<Vec<String>> {
    let opened = real::open(device, OpenMode::Exclusive)?;
    let name = device.display().to_string();
    let done = real::run(real::Options { device: opened }, move |env| async move {
        let geometry = env.device.geometry();
        let (superblock, ..) = Target::inspect(env.clone()).await?;
        superblock.check_size(geometry.size, &geometry.name)?;
        let target = Target::open(env).await?;
        let mut progress = |done, total| live.progress(format_args!("looking over {name}"), done, total);
        let found = target.objects().repair(&mut progress).await?;
        let complaints = target.complaints();
        target.close().await?;
        let right = found.contradictions.into_iter().filter(|contradiction| contradiction.repairable);
        Ok::<_, Error>(complaints.into_iter().chain(right.map(|contradiction| contradiction.what)).collect())
    })?;
    done.map_err(|error| super::named(error, &device.display().to_string()))
}
