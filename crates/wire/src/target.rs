//! What is asked of a target itself over the network, where each command shows a capability: one for [`ITSELF`], which stands for
//! the target.
//!
//! The commands are those of [`crate::command`], under the same numbers; what differs is that each goes to one target.

use crate::body;
use crate::capability::Rights;
use crate::frame::Command;
use crate::object::About;
use forebay_model::{ObjectId, PlanRequest, Result, TargetId};

/// What stands for a target in a capability: no volume has this number.
pub const ITSELF: ObjectId = ObjectId { volume: 0, object: 0 };

/// A request about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRequest {
    /// The target.
    pub target: TargetId,
    /// What is asked.
    pub ask: TargetAsk,
}

/// What is asked of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetAsk {
    /// What was measured of it: [`crate::command::Reply::Profiles`].
    Profile,
    /// What it could promise now: [`crate::command::Reply::Plans`].
    Plan(PlanRequest),
}

impl TargetRequest {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match &self.ask {
            TargetAsk::Profile => Command::PROFILES,
            TargetAsk::Plan(_) => Command::PLAN,
        }
    }

    /// What it takes to be allowed to ask it.
    pub fn about(&self) -> About {
        About { object: ITSELF, rights: Rights::GET_ATTRIBUTES, bytes: 0..0 }
    }

    /// The body of its frame.
    pub fn body(&self) -> Result<Vec<u8>> {
        match &self.ask {
            TargetAsk::Profile => body::write(&self.target),
            TargetAsk::Plan(request) => body::write(&(self.target, request)),
        }
    }

    /// The request of this command and body; `None` if the command is none about targets.
    pub fn read(command: Command, bytes: &[u8]) -> Result<Option<TargetRequest>> {
        Ok(Some(match command {
            Command::PROFILES => TargetRequest { target: body::read(bytes)?, ask: TargetAsk::Profile },
            Command::PLAN => {
                let (target, request) = body::read(bytes)?;
                TargetRequest { target, ask: TargetAsk::Plan(request) }
            }
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests;
