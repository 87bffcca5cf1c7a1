//! `forebay volume` of a cluster on the network: trees of files that share a quota, and how their files are striped.

use super::{CreateArgs, LimitedArgs, PolicyArgs, VolumeArgs, VolumeCommand, unless_none};
use crate::context::Context;
use crate::show::{human, json};
use forebay_client::files::blocking::FilesClient;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::access::ROOT_USER;
use forebay_wire::control::names::Place;
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota, SetVolume, Volume};
use serde_json::{Value, json};

/// The mode of the directory of a volume, if nothing is said.
const MODE: u32 = 0o755;
/// The group that it belongs to.
const GROUP: u32 = 0;

/// Does it.
pub(super) fn run(context: &mut Context, files: &FilesClient, command: VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create(args) => create(context, files, &args),
        VolumeCommand::List => table(context, files, &files.volumes().list()?),
        VolumeCommand::Quota(args) => quota(context, files, &args),
        VolumeCommand::Policy(args) => policy(context, files, &args),
        VolumeCommand::Rm(args) => remove(context, files, &args),
    }
}

impl LimitedArgs {
    /// The quota of files as it was before, but for what is named.
    fn quota_of_files(&self, before: Quota) -> Quota {
        let bytes = |said: Option<Bytes>, before| said.map_or(before, |said| unless_none(said.0).map(Bytes));
        let files = |said: Option<u64>, before| said.map_or(before, unless_none);
        Quota {
            soft_bytes: bytes(self.soft, before.soft_bytes),
            hard_bytes: bytes(self.hard, before.hard_bytes),
            soft_files: files(self.soft_objects, before.soft_files),
            hard_files: files(self.hard_objects, before.hard_files),
        }
    }
}

impl VolumeArgs {
    /// The volume of that number, or with that directory as its root.
    fn find(&self, files: &FilesClient) -> Result<Volume> {
        let said = &self.volume;
        if let Ok(number) = said.parse::<u64>() {
            let found = files.volumes().list()?.into_iter().find(|volume| volume.volume == number);
            return found.ok_or_else(|| {
                Error::missing(format!("there is no volume {number}; `forebay volume list` lists what there is"))
            });
        }
        let path = self.directory()?;
        let (file, found) = (files.stat(path)?.file, files.volumes().of(path)?);
        match found.root == file {
            true => Ok(found),
            false => Err(Error::usage(format!(
                "{path} is in volume {}, and not a volume itself; give that number, or make one with `forebay volume create`",
                found.volume
            ))),
        }
    }

    /// What was said, which has to be a directory.
    fn directory(&self) -> Result<&str> {
        match self.volume.starts_with('/') {
            true => Ok(&self.volume),
            false => Err(Error::usage(format!(
                "'{}' is no volume of a cluster on the network; name its directory, such as /data",
                self.volume
            ))),
        }
    }
}

fn create(context: &mut Context, files: &FilesClient, args: &CreateArgs) -> Result<()> {
    let path = args.limited.which.directory()?;
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    let policy = args.striping.policy(files.volumes().of(above)?.policy);
    let (mode, quota) = (args.mode.unwrap_or(MODE), args.limited.quota_of_files(Quota::default()));
    let place = Place::path(path);
    let made = CreateVolume { place, mode, owner: ROOT_USER, group: GROUP, quota, policy };
    table(context, files, &[files.volumes().create(made)?])
}

fn quota(context: &mut Context, files: &FilesClient, args: &LimitedArgs) -> Result<()> {
    let Volume { volume, quota, .. } = args.which.find(files)?;
    let quota = Some(args.quota_of_files(quota));
    table(context, files, &[files.volumes().set(SetVolume { volume, quota, policy: None })?])
}

fn policy(context: &mut Context, files: &FilesClient, args: &PolicyArgs) -> Result<()> {
    if args.logged.is_some() {
        return Err(Error::usage(
            "which writes go to logs is chosen where the objects of a directory are; leave out --logged",
        ));
    }
    let before = args.which.find(files)?;
    if !args.striping.is_any() {
        return table(context, files, &[before]);
    }
    let policy = Some(args.striping.policy(before.policy));
    table(context, files, &[files.volumes().set(SetVolume { volume: before.volume, quota: None, policy })?])
}

fn remove(context: &mut Context, files: &FilesClient, args: &VolumeArgs) -> Result<()> {
    let Volume { volume, root, .. } = args.find(files)?;
    files.volumes().remove(&files.volumes().path(root)?)?;
    match context.json {
        true => context.out.json(&json!({ "removed_volume": volume })),
        false => context.out.line(format_args!("Removed volume {volume}.")),
    }
}

fn table(context: &mut Context, files: &FilesClient, volumes: &[Volume]) -> Result<()> {
    // Who may not look into the directories above one sees its number alone.
    let path = |volume: &Volume| files.volumes().path(volume.root).ok();
    if context.json {
        return volumes.iter().try_for_each(|volume| context.out.json(&object(volume, path(volume))));
    }
    let mut table = human::table(
        &["volume", "directory", "files", "bytes", "warned beyond", "refused beyond", "passed since", "new files"],
        &[],
    );
    for volume in volumes {
        let quota = volume.quota;
        let limit = |bytes: Option<Bytes>, files: Option<u64>| {
            let (bytes, files) = (bytes.map(|bytes| bytes.to_string()), files.map(|files| human::some(files, "file")));
            let said: Vec<String> = bytes.into_iter().chain(files).collect();
            if said.is_empty() { "-".to_string() } else { said.join(", ") }
        };
        table.add_row([
            volume.volume.to_string(),
            path(volume).unwrap_or_else(|| "-".to_string()),
            volume.files.to_string(),
            volume.bytes.to_string(),
            limit(quota.soft_bytes, quota.soft_files),
            limit(quota.hard_bytes, quota.hard_files),
            volume.over_since.map_or_else(|| "-".to_string(), human::clock),
            striped(volume.policy),
        ]);
    }
    human::lines(&table).iter().try_for_each(|line| context.out.line(line))
}

/// How files are striped, for people.
fn striped(Policy { raid, unit, targets }: Policy) -> String {
    match targets {
        0 => format!("{raid}, all targets, units of {unit}"),
        most => format!("{raid}, {} at most, units of {unit}", human::some(u64::from(most), "target")),
    }
}

fn object(volume: &Volume, path: Option<String>) -> Value {
    let Volume { quota, policy, .. } = volume;
    let raid = match policy.raid {
        Raid::Zero => 0,
        Raid::One(_) => 1,
        Raid::Five => 5,
    };
    json!({
        "volume": volume.volume, "name": path, "files": volume.files, "used_bytes": volume.bytes.0,
        "soft_bytes": quota.soft_bytes.map(|bytes| bytes.0), "hard_bytes": quota.hard_bytes.map(|bytes| bytes.0),
        "soft_files": quota.soft_files, "hard_files": quota.hard_files, "over_since": volume.over_since.map(json::time),
        "raid": raid, "copies": policy.raid.copies(), "unit_bytes": policy.unit.0, "targets": policy.targets,
    })
}
