//! Heaps of a cluster on the network: entries of its tree, each on one target.
//!
//! The manager says where a heap lies and who may use it; all else is asked of its target. Tasks of one loop use [`NetworkHeaps`]
//! and [`Transaction`]; threads that block have [`super::Heaps`] over [`blocking`].

pub(crate) mod blocking;
mod lanes;
mod transaction;

pub(crate) use lanes::Lanes;
pub use transaction::Transaction;

use super::HeapList;
use crate::control::{Control, done, strange};
use crate::files::walk::Walk;
use crate::nodes::{Nodes, Request};
use crate::way::{Way, until_free};
use forebay_model::heap::HeapSettings;
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::command::Reply;
use forebay_wire::control::files::{CreateHeap, Grant, MOST_REFUSALS, OpenHeap};
use forebay_wire::control::names::{FileId, FileKind, Place, RemoveFile, Stat};
use forebay_wire::control::{self, Change, Question};
use forebay_wire::heap::network::{NetworkAsk, NetworkRequest, name_of};
use forebay_wire::heap::{HeapInfo, HeapName};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The mode of heaps that are made.
pub const HEAP_MODE: u32 = 0o644;

/// The heaps of a cluster, for one user.
#[derive(Clone)]
pub struct NetworkHeaps {
    nodes: Nodes,
    control: Rc<dyn Control>,
    /// For transactions.
    lanes: Rc<Lanes>,
}

impl NetworkHeaps {
    /// Reached by these ways.
    pub(crate) fn new(nodes: Nodes, control: Rc<dyn Control>, lanes: Rc<Lanes>) -> NetworkHeaps {
        NetworkHeaps { nodes, control, lanes }
    }

    /// Makes a heap under a name that is free, on the first target that does not refuse it: the manager names others for those
    /// that do. If there are none, nothing is left, and the error is of the last one that did.
    pub async fn create(&self, path: &str, mode: u32, settings: HeapSettings) -> Result<HeapInfo> {
        let (mut refused_by, mut refusal) = (Vec::new(), None);
        loop {
            let create = CreateHeap { place: Place::path(path), mode, refused_by: refused_by.clone() };
            let way = match self.control.change(Change::CreateHeap(create)).await.map_err(|error| error.of(path)) {
                Ok(control::Reply::Grant(grant)) => self.way(path, grant)?,
                Ok(other) => return Err(strange(&other)),
                // The manager knows of no other one: what the last said is what is to be known.
                Err(error) if error.kind == Kind::Full => return Err(refusal.unwrap_or(error)),
                Err(error) => return Err(error),
            };
            let made = match ask(&way, NetworkAsk::Create(settings)).await {
                // It was asked twice: nobody else makes one of this number.
                Err(error) if error.kind == Kind::Exists => ask(&way, NetworkAsk::Info).await,
                made => made,
            };
            let error = match made {
                Ok(info) => return Ok(info),
                Err(error) => error,
            };
            // An entry whose heap may be there or not is of no use; if this fails as well, anybody may remove it.
            let removed = self.remove_entry(path, way.file()).await;
            if !matches!(error.kind, Kind::Refused | Kind::Full) || refused_by.len() == MOST_REFUSALS {
                return Err(error);
            }
            removed?;
            refused_by.push(way.target());
            refusal = Some(error);
        }
    }

    /// Deletes a heap with everything in it, also one that is lost.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let stat = Question::Stat(Stat { place: Place::path(path) });
        let (file, kind) = match self.control.ask(stat).await.map_err(|error| error.of(path))? {
            control::Reply::Entry(entry) => (entry.file, entry.attributes.kind),
            other => return Err(strange(&other)),
        };
        if kind != FileKind::Heap {
            return Err(Error::usage(format!("{path} is no heap; remove it with `forebay rm`")));
        }
        self.remove_entry(path, file).await
    }

    async fn remove_entry(&self, path: &str, only: FileId) -> Result<()> {
        let remove = Change::RemoveFile(RemoveFile { place: Place::path(path), only: Some(only) });
        done(&self.control.change(remove).await.map_err(|error| error.of(path))?)
    }

    /// What a heap says of itself.
    pub async fn info(&self, path: &str) -> Result<HeapInfo> {
        ask(&self.open(path, false).await?, NetworkAsk::Info).await
    }

    /// All heaps that this user may find and use; those that are lost, or whose target cannot be asked, apart. Such a target is
    /// asked once.
    pub async fn list(&self) -> Result<HeapList> {
        let (mut list, mut away) = (HeapList::default(), BTreeMap::new());
        let mut walk = Walk::new(self.control.clone());
        while let Some((name, entry)) = walk.next().await? {
            if entry.kind != FileKind::Heap {
                continue;
            }
            match self.info_unless(&name, &mut away).await {
                Ok(info) => list.heaps.push(HeapName { name, target: info.target, space: info.space }),
                // It is somebody else's, or was removed meanwhile.
                Err(error) if matches!(error.kind, Kind::Forbidden | Kind::Missing) => {}
                Err(error) => list.lost.push((name, error)),
            }
        }
        Ok(list)
    }

    /// What a heap says of itself, unless its target is one of those that are away.
    async fn info_unless(&self, path: &str, away: &mut BTreeMap<TargetId, Error>) -> Result<HeapInfo> {
        let way = self.open(path, false).await?;
        if let Some(error) = away.get(&way.target()) {
            return Err(error.clone());
        }
        ask(&way, NetworkAsk::Info).await.inspect_err(|error| {
            if error.kind == Kind::Disconnected {
                away.insert(way.target(), error.clone());
            }
        })
    }

    /// The target on which a heap lies that this user may use.
    pub async fn target(&self, path: &str) -> Result<TargetId> {
        match self.open(path, false).await {
            // Who may put records need not be allowed to get any.
            Err(error) if error.kind == Kind::Forbidden => {
                self.open(path, true).await.map_or(Err(error), |way| Ok(way.target()))
            }
            opened => Ok(opened?.target()),
        }
    }

    /// A transaction with a heap, which begins with what is asked first.
    pub fn begin(&self, path: &str) -> Transaction {
        let (nodes, seat) = self.lanes.take(&self.nodes);
        Transaction::new(NetworkHeaps { nodes, ..self.clone() }, seat, path)
    }

    /// The way to a heap: to put records and free them, or to get them.
    async fn open(&self, path: &str, write: bool) -> Result<Way> {
        let ask = async || self.control.ask(Question::OpenHeap(OpenHeap { place: Place::path(path), write })).await;
        match until_free(&self.nodes, ask).await.map_err(|error| error.of(path))? {
            control::Reply::Grant(grant) => self.way(path, grant),
            other => Err(strange(&other)),
        }
    }

    fn way(&self, path: &str, grant: Grant) -> Result<Way> {
        let way = Way::all(&self.nodes, &self.control, path, grant).pop();
        way.ok_or_else(|| Error::damaged("the manager granted a heap that lies nowhere: use the same release"))
    }
}

/// Asks about a heap as a whole.
async fn ask(way: &Way, ask: NetworkAsk) -> Result<HeapInfo> {
    let about = |target, heap| about(target, heap, ask.clone(), 0);
    let (answer, ..) = way.ask_about(about, true).await.map_err(|error| way.with_name(error, name_of))?;
    match forebay_wire::read_body(&answer.body)? {
        Reply::Heap(info) => Ok(HeapInfo { name: way.path().to_string(), ..*info }),
        other => Err(crate::cluster::unexpected(&other)),
    }
}

fn about(target: TargetId, heap: ObjectId, ask: NetworkAsk, most: usize) -> Result<Request> {
    let request = NetworkRequest { target, heap, ask };
    Ok(Request { command: request.command(), body: request.body()?, payload: Vec::new(), most })
}
