//! `forebay volume`: what objects, or files of a cluster on the network, may take together; which writes go to logs, and how files
//! are striped.

mod files;

use super::several::each_target;
use crate::args::{self, StripingArgs};
use crate::context::Context;
use crate::show::human;
use clap::{Args, Subcommand};
use forebay_client::Cluster;
use forebay_client::objects::{ObjectInfo, Place, Quota, VolumeUse, name_of};
use forebay_model::object::{DEFAULT_VOLUME, DEFAULT_VOLUME_NAME, NAMES};
use forebay_model::settings::{LOGGING, Logging, PAGE};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result, TargetId};
use serde_json::{Value, json};

/// What to do with volumes.
#[derive(Subcommand)]
pub enum VolumeCommand {
    /// Make a volume on every target, or a directory that is a volume of a cluster on the network
    Create(CreateArgs),
    /// List volumes: what is in them, and what they may have
    List,
    /// Give a volume another quota, on every target; what is not named stays as it is
    Quota(LimitedArgs),
    /// Show which writes of a volume go to logs, or choose, on every target; or how files of one on the network are striped
    Policy(PolicyArgs),
    /// Remove an empty volume, from every target
    Rm(VolumeArgs),
}

/// A volume.
#[derive(Args)]
pub struct VolumeArgs {
    /// Its number from 1 on; `default` is that of objects with names. On the network: its number, or its directory, such as /data
    volume: String,
}

impl VolumeArgs {
    /// The number of a volume of objects.
    fn number(&self) -> Result<u64> {
        match self.volume.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ if self.volume == DEFAULT_VOLUME_NAME => Ok(DEFAULT_VOLUME),
            _ => Err(Error::usage(format!(
                "'{}' is no volume; give a number from 1 on, or {DEFAULT_VOLUME_NAME}",
                self.volume
            ))),
        }
    }
}

/// A volume that is made.
#[derive(Args)]
pub struct CreateArgs {
    /// What it may hold.
    #[command(flatten)]
    limited: LimitedArgs,
    /// Who may do what in its directory, on the network, in octal; 755, if nothing is said
    #[arg(long, value_name = "MODE", value_parser = args::mode)]
    mode: Option<u32>,
    /// How its files are striped, on the network; as those beside it, where nothing else is said.
    #[command(flatten)]
    striping: StripingArgs,
}

/// A volume, which of its writes go to logs, and how its files are striped.
#[derive(Args)]
pub struct PolicyArgs {
    /// The volume.
    #[command(flatten)]
    which: VolumeArgs,
    /// Durable writes of up to this go to a log; `always`: all that fit one, and they stay there while there is room;
    /// `inherit`: as the target has it. An object that has a choice of its own keeps it
    #[arg(long, value_name = "SIZE", value_parser = logged)]
    logged: Option<Logged>,
    /// How files are striped that are made from now on, on the network.
    #[command(flatten)]
    striping: StripingArgs,
}

/// A volume's choice, or none.
#[derive(Debug, Clone, Copy)]
struct Logged(Option<Logging>);

fn logged(text: &str) -> Result<Logged> {
    match text {
        "always" => Ok(Logged(Some(Logging::Always))),
        "inherit" => Ok(Logged(None)),
        size => Bytes::parse(size).map(|size| Logged(Some(Logging::UpTo(size)))),
    }
}

/// A volume and what it may hold on each target.
#[derive(Args)]
pub struct LimitedArgs {
    /// The volume.
    #[command(flatten)]
    which: VolumeArgs,
    /// Refuse what would take more than this; or `none`
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    hard: Option<Bytes>,
    /// Warn beyond this; on the network, refuse when it was passed for a week; or `none`
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    soft: Option<Bytes>,
    /// Refuse more objects, or files and directories, than this; or `none`
    #[arg(long, visible_alias = "hard-files", value_name = "N", value_parser = count)]
    hard_objects: Option<u64>,
    /// Warn beyond so many objects; refuse when so many files and directories were passed for a week; or `none`
    #[arg(long, visible_alias = "soft-files", value_name = "N", value_parser = count)]
    soft_objects: Option<u64>,
}

impl LimitedArgs {
    /// The quota as it was before, but for what is named.
    fn quota(&self, before: Quota) -> Result<Quota> {
        let quota = Quota {
            soft_bytes: self.soft.unwrap_or(before.soft_bytes),
            hard_bytes: self.hard.unwrap_or(before.hard_bytes),
            soft_objects: self.soft_objects.unwrap_or(before.soft_objects),
            hard_objects: self.hard_objects.unwrap_or(before.hard_objects),
        };
        let none = Quota::default();
        if quota.soft_bytes != none.soft_bytes && quota.soft_bytes > quota.hard_bytes
            || quota.soft_objects != none.soft_objects && quota.soft_objects > quota.hard_objects
        {
            return Err(Error::usage("a warning beyond what is refused never comes; let --soft be less than --hard"));
        }
        Ok(quota)
    }
}

fn bytes(text: &str) -> Result<Bytes> {
    if text == "none" { Ok(Quota::default().hard_bytes) } else { Bytes::parse(text) }
}

fn count(text: &str) -> Result<u64> {
    if text == "none" {
        return Ok(Quota::default().hard_objects);
    }
    text.parse().map_err(|_| Error::usage(format!("'{text}' is not a number of objects; write it like 1000, or none")))
}

/// Does it.
pub fn run(context: &mut Context, command: VolumeCommand) -> Result<()> {
    if let Some(client) = context.remote()? {
        return files::run(context, &client, command);
    }
    context.with_cluster(|context, cluster| match command {
        VolumeCommand::Create(args) => create(context, cluster, &args),
        VolumeCommand::List => list(context, cluster),
        VolumeCommand::Quota(args) => quota(context, cluster, &args),
        VolumeCommand::Policy(args) => policy(context, cluster, &args),
        VolumeCommand::Rm(args) => remove(context, cluster, args.number()?),
    })
}

/// [`Kind::Usage`] if something is said that only volumes of files have.
fn refuse_striping(is_any: bool) -> Result<()> {
    match is_any {
        true => Err(Error::usage(
            "objects lie on one target each, and have no mode; leave out --raid, --targets, --unit and --mode, or give --cluster \
             forebay://HOST:PORT",
        )),
        false => Ok(()),
    }
}

fn targets(cluster: &Cluster) -> Result<Vec<TargetId>> {
    Ok(cluster.info()?.targets.into_iter().map(|target| target.id).collect())
}

fn at(target: TargetId, volume: u64) -> Place {
    Place { target, id: ObjectId::volume(volume) }
}

/// The volume on every target that has it.
fn find(cluster: &Cluster, volume: u64) -> Result<Vec<(TargetId, ObjectInfo)>> {
    let (objects, mut found) = (cluster.objects(), Vec::new());
    for target in targets(cluster)? {
        match objects.stat(at(target, volume), Some(NAMES)) {
            Err(error) if error.kind == Kind::Missing => {}
            info => found.push((target, info?)),
        }
    }
    if found.is_empty() {
        return Err(Error::missing(format!("there is no volume {volume}; `forebay volume list` lists what there is")));
    }
    Ok(found)
}

fn create(context: &mut Context, cluster: &Cluster, args: &CreateArgs) -> Result<()> {
    refuse_striping(args.striping.is_any() || args.mode.is_some())?;
    let (volume, quota) = (args.limited.which.number()?, args.limited.quota(Quota::default())?);
    let created =
        each_target(targets(cluster)?, |target| match cluster.objects().create_volume(target, volume, quota) {
            Err(error) if error.kind == Kind::Exists => Ok(false),
            created => created.map(|()| true),
        })?;
    if !created.contains(&true) {
        return Err(Error::exists(format!("there is a volume {volume} already; `forebay volume quota` changes it")));
    }
    show(context, cluster, volume)
}

fn quota(context: &mut Context, cluster: &Cluster, args: &LimitedArgs) -> Result<()> {
    let volume = args.which.number()?;
    let quota = |(target, info): (TargetId, ObjectInfo)| {
        let before = info.head.volume.map(|held| held.quota).unwrap_or_default();
        args.quota(before).map(|quota| (target, quota))
    };
    // A quota that makes no sense on one of them is given to none.
    let quotas = find(cluster, volume)?.into_iter().map(quota).collect::<Result<Vec<_>>>()?;
    each_target(quotas, |(target, quota)| cluster.objects().set_quota(target, volume, quota))?;
    show(context, cluster, volume)
}

fn policy(context: &mut Context, cluster: &Cluster, args: &PolicyArgs) -> Result<()> {
    refuse_striping(args.striping.is_any())?;
    let volume = args.which.number()?;
    let found: Vec<TargetId> = find(cluster, volume)?.into_iter().map(|(target, _)| target).collect();
    if let Some(Logged(chosen)) = args.logged {
        each_target(found.clone(), |target| {
            let change = vec![(PAGE, LOGGING, chosen.map(Logging::encode))];
            cluster.objects().set_attributes(at(target, volume), change)
        })?;
    }
    for target in found {
        let attributes = cluster.objects().attributes(at(target, volume), PAGE)?;
        let value = attributes.iter().find(|(number, _)| *number == LOGGING);
        let logging = value.and_then(|(_, value)| Logging::decode(value));
        if context.json {
            let (bytes, always) = match logging {
                Some(Logging::UpTo(most)) => (Some(most.0), false),
                Some(Logging::Always) => (None, true),
                None => (None, false),
            };
            context.out.json(&json!({
                "volume": volume, "target": target.to_string(), "logged_up_to_bytes": bytes, "logged_always": always,
            }))?;
            continue;
        }
        let goes = match logging {
            Some(Logging::UpTo(most)) => format!("writes of up to {most} go to logs"),
            Some(Logging::Always) => "all writes that fit go to logs, and stay there while there is room".to_string(),
            None => "as the target has it (`forebay target settings`)".to_string(),
        };
        context.out.line(format_args!("volume {volume} on {target}: {goes}"))?;
    }
    Ok(())
}

fn remove(context: &mut Context, cluster: &Cluster, volume: u64) -> Result<()> {
    let found = find(cluster, volume)?;
    let holds = |info: &ObjectInfo| info.head.volume.map_or(0, |held| held.objects);
    let objects: u64 = found.iter().map(|(_, info)| holds(info)).sum();
    if objects > 0 {
        let held = human::some(objects, "object");
        return Err(Error::usage(format!("volume {volume} holds {held}; remove them first (nothing was changed)")));
    }
    each_target(found, |(target, _)| cluster.objects().remove(at(target, volume)))?;
    if context.json {
        return context.out.json(&json!({ "removed_volume": volume }));
    }
    context.out.line(format_args!("Removed volume {volume}."))
}

fn show(context: &mut Context, cluster: &Cluster, volume: u64) -> Result<()> {
    let found = find(cluster, volume)?;
    table(context, &found)
}

fn list(context: &mut Context, cluster: &Cluster) -> Result<()> {
    let mut found = Vec::new();
    for target in targets(cluster)? {
        let mut from = Some(1);
        while let Some(first) = from {
            let (volumes, next) = cluster.objects().list(target, 0, first, Some(NAMES))?;
            found.extend(volumes.into_iter().map(|info| (target, info)));
            from = next.filter(|next| *next > first);
        }
    }
    if found.is_empty() && !context.json {
        return context.out.line("No volume yet; the first `forebay put` makes the default one.");
    }
    table(context, &found)
}

fn table(context: &mut Context, found: &[(TargetId, ObjectInfo)]) -> Result<()> {
    if context.json {
        return found.iter().try_for_each(|(target, info)| context.out.json(&object(*target, info)));
    }
    let mut table =
        human::table(&["volume", "name", "target", "objects", "space", "warned beyond", "refused beyond"], &[]);
    for (target, info) in found {
        let VolumeUse { objects, used, quota } = held(info);
        let limit = |bytes: Bytes, objects: u64| match (unless_none(bytes.0), unless_none(objects)) {
            (None, None) => "-".to_string(),
            (Some(_), None) => bytes.to_string(),
            (None, Some(_)) => human::some(objects, "object"),
            (Some(_), Some(_)) => format!("{bytes}, {}", human::some(objects, "object")),
        };
        table.add_row([
            info.id.volume.to_string(),
            name_of(info).unwrap_or_default(),
            target.to_string(),
            objects.to_string(),
            used.to_string(),
            limit(quota.soft_bytes, quota.soft_objects),
            limit(quota.hard_bytes, quota.hard_objects),
        ]);
    }
    human::lines(&table).iter().try_for_each(|line| context.out.line(line))
}

fn held(info: &ObjectInfo) -> VolumeUse {
    info.head.volume.unwrap_or(VolumeUse { objects: 0, used: Bytes::ZERO, quota: Quota::default() })
}

/// A limit, if it is one.
pub(super) fn unless_none(limit: u64) -> Option<u64> {
    (limit != u64::MAX).then_some(limit)
}

fn object(target: TargetId, info: &ObjectInfo) -> Value {
    let VolumeUse { objects, used, quota } = held(info);
    json!({
        "volume": info.id.volume, "name": name_of(info), "target": target.to_string(), "objects": objects,
        "used_bytes": used.0, "soft_bytes": unless_none(quota.soft_bytes.0), "hard_bytes": unless_none(quota.hard_bytes.0),
        "soft_objects": unless_none(quota.soft_objects), "hard_objects": unless_none(quota.hard_objects),
    })
}
