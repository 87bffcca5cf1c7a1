//! What is asked of a heap of a target over the network, where a heap is an object of a volume and each command shows a
//! capability for it.
//!
//! The commands are those of [`crate::heap`] and [`crate::command`], under the same numbers. One connection carries many
//! transactions, each under a number that its client chooses: what is put and freed in one is nothing to the others.

use super::{HeapAsk, HeapRequest};
use crate::body;
use crate::capability::Rights;
use crate::frame::Command;
use forebay_model::heap::HeapSettings;
use forebay_model::{ObjectId, Result, TargetId};
use serde::de::DeserializeOwned;

/// The most transactions of one connection.
pub const MOST_TRANSACTIONS: usize = 16;

/// A request about a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRequest {
    /// The target that has it.
    pub target: TargetId,
    /// The heap.
    pub heap: ObjectId,
    /// What is asked.
    pub ask: NetworkAsk,
}

/// What is asked of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkAsk {
    /// Creates it: [`crate::command::Reply::Heap`].
    Create(HeapSettings),
    /// [`crate::command::Reply::Heap`].
    Info,
    /// What is asked of its records: [`super::HeapReply`], and its payload.
    Records {
        /// The transaction of this connection. It begins with what is asked first, and ends with [`HeapAsk::Abort`] and with the
        /// connection.
        transaction: u64,
        /// What is asked.
        ask: HeapAsk,
    },
}

/// What a heap of a volume is called at its target, where heaps have names.
pub fn name_of(heap: ObjectId) -> String {
    format!("/heap/{:x}/{:x}", heap.volume, heap.object)
}

/// The heap that has this name there, if it is one of a cluster on the network.
pub fn heap_of(name: &str) -> Option<ObjectId> {
    let (volume, object) = name.strip_prefix("/heap/")?.split_once('/')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(ObjectId { volume: number(volume)?, object: number(object)? }).filter(|heap| name_of(*heap) == name)
}

/// What it takes to be allowed to ask this of records.
pub fn rights(ask: &HeapAsk) -> Rights {
    match ask {
        HeapAsk::Get { .. } | HeapAsk::Root { .. } | HeapAsk::History { .. } => Rights::READ,
        HeapAsk::Put { .. } | HeapAsk::Free { .. } | HeapAsk::Commit { .. } => Rights::WRITE,
        // Who only looked ends that, too; what others put is no part of it.
        HeapAsk::Abort => Rights::GET_ATTRIBUTES,
        // What lies on the device has more than those may see who use the heap; none of these may do away with it.
        HeapAsk::Unread { .. } | HeapAsk::ReadUnits { .. } => Rights::READ | Rights::REMOVE,
        HeapAsk::Receive { .. } | HeapAsk::WriteUnits { .. } | HeapAsk::Received { .. } => {
            Rights::CREATE | Rights::REMOVE
        }
    }
}

impl NetworkRequest {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match &self.ask {
            NetworkAsk::Create(_) => Command::CREATE_HEAP,
            NetworkAsk::Info => Command::HEAP_INFO,
            NetworkAsk::Records { ask, .. } => ask.command(),
        }
    }

    /// What it takes to be allowed to ask it.
    pub fn rights(&self) -> Rights {
        match &self.ask {
            NetworkAsk::Create(_) => Rights::CREATE,
            NetworkAsk::Info => Rights::GET_ATTRIBUTES,
            NetworkAsk::Records { ask, .. } => rights(ask),
        }
    }

    /// The body of its frame.
    pub fn body(&self) -> Result<Vec<u8>> {
        let of = (self.target, self.heap);
        let (of, ask) = match &self.ask {
            NetworkAsk::Create(settings) => return body::write(&(of, settings)),
            NetworkAsk::Info => return body::write(&of),
            NetworkAsk::Records { transaction, ask } => ((of, transaction), ask),
        };
        match ask {
            HeapAsk::Put { lengths, from, more } => body::write(&(of, lengths, from, more)),
            HeapAsk::Get { ids, from, as_of } => body::write(&(of, ids, from, as_of)),
            HeapAsk::Free { ids } => body::write(&(of, ids)),
            HeapAsk::Commit { root } => body::write(&(of, root)),
            HeapAsk::Abort => body::write(&of),
            HeapAsk::Root { as_of } => body::write(&(of, as_of)),
            HeapAsk::History { before, most } => body::write(&(of, before, most)),
            HeapAsk::Unread { watch, from } => body::write(&(of, watch, from)),
            HeapAsk::ReadUnits { watch, first, count } => body::write(&(of, watch, first, count)),
            HeapAsk::Receive { stamp, units } => body::write(&(of, stamp, units)),
            HeapAsk::WriteUnits { first } => body::write(&(of, first)),
            HeapAsk::Received { units } => body::write(&(of, units)),
        }
    }

    /// The request of this command and body; `None` if the command is none about heaps.
    pub fn read(command: Command, bytes: &[u8]) -> Result<Option<NetworkRequest>> {
        fn of<T: DeserializeOwned>(bytes: &[u8], ask: impl FnOnce(T) -> HeapAsk) -> Result<NetworkRequest> {
            let (((target, heap), transaction), asked): (((TargetId, ObjectId), u64), T) = body::read(bytes)?;
            Ok(NetworkRequest { target, heap, ask: NetworkAsk::Records { transaction, ask: ask(asked) } })
        }
        Ok(Some(match command {
            Command::CREATE_HEAP => {
                let ((target, heap), settings) = body::read(bytes)?;
                NetworkRequest { target, heap, ask: NetworkAsk::Create(settings) }
            }
            Command::HEAP_INFO => {
                let (target, heap) = body::read(bytes)?;
                NetworkRequest { target, heap, ask: NetworkAsk::Info }
            }
            Command::PUT_RECORDS => of(bytes, |(lengths, from, more)| HeapAsk::Put { lengths, from, more })?,
            Command::GET_RECORDS => of(bytes, |(ids, from, as_of)| HeapAsk::Get { ids, from, as_of })?,
            Command::FREE_RECORDS => of(bytes, |ids| HeapAsk::Free { ids })?,
            Command::COMMIT_HEAP => of(bytes, |root| HeapAsk::Commit { root })?,
            Command::ABORT_HEAP => of(bytes, |()| HeapAsk::Abort)?,
            Command::HEAP_ROOT => of(bytes, |as_of| HeapAsk::Root { as_of })?,
            Command::HEAP_HISTORY => of(bytes, |(before, most)| HeapAsk::History { before, most })?,
            Command::UNREAD_UNITS => of(bytes, |(watch, from)| HeapAsk::Unread { watch, from })?,
            Command::READ_UNITS => of(bytes, |(watch, first, count)| HeapAsk::ReadUnits { watch, first, count })?,
            Command::RECEIVE_HEAP => of(bytes, |(stamp, units)| HeapAsk::Receive { stamp, units })?,
            Command::WRITE_UNITS => of(bytes, |first| HeapAsk::WriteUnits { first })?,
            Command::RECEIVED_HEAP => of(bytes, |units| HeapAsk::Received { units })?,
            _ => return Ok(None),
        }))
    }

    /// The same, as a target is asked of one of its heaps by this name; nothing about one as a whole.
    pub fn of_records(self) -> Option<(u64, HeapRequest)> {
        let NetworkAsk::Records { transaction, ask } = self.ask else { return None };
        Some((transaction, HeapRequest { target: self.target, heap: name_of(self.heap), ask }))
    }
}

#[cfg(test)]
pub(crate) mod tests;
