//! Volumes, as messages.

use super::messages;
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota, RemoveVolume, SetVolume, Volume};

messages! {
    Policy as Policy { raid, unit, targets }
    Quota as Quota { soft_bytes, hard_bytes, soft_files, hard_files }
    Volume as Volume { volume, root, quota, policy, bytes, files, over_since }
    CreateVolume as CreateVolume { place, mode, owner, group, quota, policy }
    SetVolume as SetVolume { volume, quota, policy }
    RemoveVolume as RemoveVolume { place }
}
