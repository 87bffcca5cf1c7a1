//! What can be asked on the command line.

use crate::args::span;
use crate::commands::{
    attributes, check, demo, export, files, format, gaps, get, heap, keys, manager, nbd, node, object, pin, plan,
    profile, put, query, record, ring,
};
use crate::commands::{scrub, serve, status, target, user, volume};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Records streams that cannot be sent again, at a guaranteed rate, in a fixed space.
#[derive(Parser)]
#[command(name = "forebay", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Args)]
pub struct Global {
    /// The cluster: a directory, or forebay://HOST:PORT
    #[arg(long, global = true, value_name = "CLUSTER", env = "FOREBAY_CLUSTER")]
    pub cluster: Option<PathBuf>,
    /// Whether the command line names it, and not only the environment.
    #[arg(skip)]
    pub is_cluster_said: bool,
    /// The file with the access key for a cluster on the network
    #[arg(long, global = true, value_name = "FILE", env = "FOREBAY_ACCESS_KEY")]
    pub access_key: Option<PathBuf>,
    /// The certificates of those who may vouch for a cluster on the network, such as authority.pem of `forebay keys make`;
    /// without, it is reached on this machine alone
    #[arg(long, global = true, value_name = "FILE", env = "FOREBAY_CA")]
    pub ca: Option<PathBuf>,
    /// How long to wait for a process that has the cluster and does not answer
    #[arg(long, global = true, value_name = "TIME", value_parser = span, default_value = "30s")]
    pub wait: Duration,
    /// Answer in JSON, one value a line
    #[arg(long, global = true)]
    pub json: bool,
}

/// What can be done.
#[derive(Subcommand)]
pub enum Command {
    /// Make a cluster in a directory: a preallocated file, or block devices
    Format(format::FormatArgs),
    /// Measure a device: bandwidth and latency by position
    Profile(profile::ProfileArgs),
    /// Can this disk promise a rate, for how long a history, and where?
    Plan(plan::PlanArgs),
    /// Create, list, show, delete, resize and relate rings
    #[command(subcommand)]
    Ring(ring::RingCommand),
    /// Record into a ring from an interface, a capture, UDP, standard input or a generator
    Record(Box<record::RecordArgs>),
    /// Follow what is recorded from now on
    Tail(query::TailArgs),
    /// Look back into a ring
    Query(query::QueryArgs),
    /// Write what a query finds into a file
    Export(export::ExportArgs),
    /// Preserve a time range where it lies
    Pin(pin::PinArgs),
    /// Let go of a pin
    Unpin(pin::UnpinArgs),
    /// List pins
    Pins(pin::PinsArgs),
    /// List what could not be stored, and why
    Gaps(gaps::GapsArgs),
    /// Keep a file, or standard input, as an object with a name or as a file of a cluster on the network
    Put(put::PutArgs),
    /// Write an object or a file of a cluster, or a part of it, to a file or standard output
    Get(get::GetArgs),
    /// List objects, rings and heaps, or a directory of a cluster on the network
    Ls(object::LsArgs),
    /// Make a directory of files
    Mkdir(files::MkdirArgs),
    /// Give a file or directory another name
    Mv(files::MvArgs),
    /// Say who may do what with a file, directory or ring of a cluster on the network
    Chmod(attributes::ChmodArgs),
    /// Give a file, directory or ring of a cluster on the network to another user or group
    Chown(attributes::ChownArgs),
    /// Take back what was given out for a file of a cluster on the network, or for everything: who uses it opens it again
    Revoke(attributes::RevokeArgs),
    /// Serve a directory to other machines' programs, with files, until stopped; or join a cluster with it, as a node
    Serve(serve::ServeArgs),
    /// Make certificates; list, make and revoke access keys; roll the keys of targets
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Make, change, list and remove users of a cluster on the network
    #[command(subcommand)]
    User(user::UserCommand),
    /// Say who may be a node of a cluster on the network, and list nodes
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Make what the manager of a cluster on the network knows anew, from its targets
    #[command(subcommand)]
    Manager(manager::ManagerCommand),
    /// Everything about one object, file, directory or ring
    Stat(object::StatArgs),
    /// Make an object of what another one is now; they share what neither writes to
    Snapshot(object::SnapshotArgs),
    /// Remove an object, a file or ring of a cluster on the network, or an empty directory
    Rm(object::RmArgs),
    /// Create, list and remove volumes, limit what their objects or files take, and say which writes go to logs, or how files are
    /// striped
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// List, drain, fail and return targets of a cluster on the network; choose how targets keep objects: what goes to logs,
    /// and memory for reading ahead
    #[command(subcommand)]
    Target(target::TargetCommand),
    /// Create heaps of small records under ids; put, get, free and commit records
    #[command(subcommand)]
    Heap(heap::HeapCommand),
    /// Serve an object, or a file of a cluster on the network, as a block device over NBD, until stopped
    Nbd(nbd::NbdArgs),
    /// Rings, promises, losses, headroom and health; of a cluster on the network its nodes and targets, too
    Status(status::StatusArgs),
    /// The same, refreshed
    Top(status::TopArgs),
    /// Look over a device without changing anything
    Check(check::CheckArgs),
    /// Read all that a cluster keeps and compare it with its checksums, beside all other work
    Scrub(scrub::ScrubArgs),
    /// Measure what is promised, beside the device's limit
    #[command(subcommand)]
    Bench(crate::bench::BenchCommand),
    /// See it all at work in two minutes, in a temporary place
    Demo(demo::DemoArgs),
}
