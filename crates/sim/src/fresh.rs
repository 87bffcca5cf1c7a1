//! A target on a disk that is new, with a volume: where whatever is done with objects begins.

use forebay_env::Env;
use forebay_model::{Bytes, Profile, Result};
use forebay_target::Target;
use forebay_target::object::rows::Quota;
use forebay_target::profile::{MeasureOptions, measure};
use std::rc::Rc;
use std::time::Duration;

/// Formats the device, which is as `profile` says, and opens it with one volume.
pub(crate) async fn target(env: Env, profile: Profile, volume: u64) -> Result<Rc<Target>> {
    Target::format(env.clone(), profile).await?;
    let target = Target::open(env).await?;
    target.objects().create_volume(volume, Quota::default()).await?;
    Ok(target)
}

/// What is thought of the device before anything is measured.
pub(crate) fn guessed(env: &Env) -> Profile {
    let geometry = env.device.geometry();
    Profile::guess(geometry.size, geometry.rotates)
}

/// How long a simulated disk is measured.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What measuring for so long says of all of the device.
pub(crate) async fn measured(env: &Env, budget: Duration) -> Result<Profile> {
    let geometry = env.device.geometry();
    let usual = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
    let options = MeasureOptions { budget, ..usual };
    measure(env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await
}
