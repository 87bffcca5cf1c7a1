//! What each change does: one file an operation.
//!
//! Always: an operation reads and writes through its draft alone, so that it does all or nothing; it looks at everything
//! that may be wrong before it says that it is done.

mod absences;
mod access_keys;
mod callbacks;
mod close;
mod create_file;
mod create_heap;
mod create_ring;
mod inodes;
mod make_directory;
mod membership;
mod open_to_write;
mod relocation;
mod remove;
mod rename;
mod revoke;
mod ring_parts;
mod scrub;
mod set_attributes;
mod users;
mod verify;
mod volumes;

pub(crate) use absences::{give_up_lost, is_left_to_rebuild, is_lost};
pub(crate) use relocation::{displace, is_any, is_any_hurried, is_displaced, is_late, is_used_meanwhile, stay};
pub(crate) use revoke::raise;
pub(crate) use ring_parts::{is_to_leave, stay_of_ring};
pub(crate) use scrub::left;
pub(crate) use verify::unverified;

use crate::callbacks::Callbacks;
use crate::cluster::Cluster;
use crate::draft::Draft;
use crate::given::Given;
use crate::lengths::Lengths;
use crate::manager::{Now, Settings};
use crate::principal::Principal;
use crate::records::Answer;
use forebay_env::Random;
use forebay_model::Result;
use forebay_wire::control::{Change, Reply};

/// A change under way.
pub(crate) struct Operation<'a> {
    pub(crate) draft: Draft<'a>,
    pub(crate) by: &'a Principal,
    pub(crate) now: Now,
    pub(crate) cluster: &'a Cluster,
    pub(crate) callbacks: &'a mut Callbacks,
    pub(crate) lengths: &'a mut Lengths,
    pub(crate) given: &'a Given,
    pub(crate) random: &'a dyn Random,
    pub(crate) settings: &'a Settings,
}

impl Operation<'_> {
    /// Carries out a change, in its draft.
    pub(crate) fn carry_out(&mut self, change: &Change) -> Result<Answer> {
        let done = |()| Answer::Reply(Reply::Done);
        let entry = |entry| Answer::Reply(Reply::Entry(entry));
        match change {
            Change::CreateFile(asked) => self.create_file(asked),
            Change::MakeDirectory(asked) => self.make_directory(asked).map(entry),
            Change::SetAttributes(asked) => self.set_attributes(asked).map(entry),
            Change::Rename(asked) => self.rename(asked).map(entry),
            Change::RemoveFile(asked) => self.remove_file(asked).map(done),
            Change::RemoveDirectory(asked) => self.remove_directory(asked).map(done),
            Change::CreateVolume(asked) => self.create_volume(asked),
            Change::SetVolume(asked) => self.set_volume(asked),
            Change::RemoveVolume(asked) => self.remove_volume(asked).map(done),
            Change::SetUser(asked) => self.set_user(asked).map(done),
            Change::RemoveUser(asked) => self.remove_user(asked).map(done),
            Change::IssueKey(asked) => self.issue_key(asked),
            Change::RevokeKey(asked) => self.revoke_key(asked).map(done),
            Change::OpenToWrite(asked) => self.open_to_write(asked),
            Change::Close(asked) => self.close(asked).map(entry),
            Change::Revoke(asked) => self.revoke(asked).map(done),
            Change::RevokeAll => self.revoke_all().map(done),
            Change::ClientGone(asked) => self.client_gone(asked),
            Change::Scrubbed(asked) => self.scrubbed(asked).map(done),
            Change::AddNode(asked) => self.add_node(asked).map(done),
            Change::RemoveNode(asked) => self.remove_node(asked).map(done),
            Change::SetTarget(asked) => self.set_target(asked).map(done),
            Change::RollKeys(asked) => self.roll_keys(asked).map(done),
            Change::Fence(asked) => self.fence(asked).map(done),
            Change::GiveUp(asked) => self.give_up(asked).map(done),
            Change::Refill(asked) => self.refill(asked).map(done),
            Change::Rebuilt(asked) => self.rebuilt(asked).map(done),
            Change::CreateRing(asked) => self.create_ring(asked),
            Change::CreateHeap(asked) => self.create_heap(asked),
            Change::Relocate(asked) => self.relocate(asked).map(done),
            Change::Relocated(asked) => self.relocated(asked).map(done),
            Change::Verified(asked) => self.verified(asked).map(done),
            Change::FoundDamaged(asked) => self.found_damaged(asked).map(done),
            Change::Caches => self.caches().map(done),
        }
    }
}
