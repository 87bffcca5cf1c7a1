//! Which object a request is about, and what it takes to be allowed to ask it.

use super::{Ask, ObjectRequest};
use crate::capability::Rights;
use forebay_model::object::{Attribute, AttributeChange, FENCES, Scope};
use forebay_model::{Error, ObjectId, Result};
use std::ops::Range;

/// Objects with this bit in their number are *companions* of the one without it: what its users keep beside it. Who may read
/// or write an object may do the same with all of its companion.
pub const COMPANION: u64 = 1 << 63;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The object.
    pub object: ObjectId,
    /// What is done with it.
    pub rights: Rights,
    /// With which of its bytes.
    pub bytes: Range<u64>,
}

/// The object that keeps what users of `of` keep beside it.
pub fn companion(of: ObjectId) -> ObjectId {
    ObjectId { object: of.object | COMPANION, ..of }
}

impl ObjectRequest {
    /// What it is about. [`forebay_model::Kind::Usage`] if it is about objects that no capability covers together.
    pub fn about(&self) -> Result<About> {
        let none = 0..0;
        let (object, rights, bytes) = match &self.ask {
            Ask::CreateVolume { .. } => (ObjectId::ROOT, Rights::CREATE, none),
            Ask::SetQuota { volume, .. } => (ObjectId::volume(*volume), Rights::SET_ATTRIBUTES, none),
            Ask::Create { id, .. } => (*id, Rights::CREATE, none),
            Ask::Remove { id } => (*id, Rights::REMOVE, none),
            Ask::Stat { id, .. } | Ask::Attributes { id, .. } => (*id, Rights::GET_ATTRIBUTES, none),
            Ask::List { volume, .. } => (ObjectId::volume(*volume), Rights::LIST, none),
            Ask::Read { id, offset, length } => (*id, Rights::READ, range(*offset, u64::from(*length))),
            // How much is written, only the payload says; see [`ObjectRequest::about_with`].
            Ask::Write { id, offset, .. } => (*id, Rights::WRITE, range(*offset, 0)),
            Ask::Append { id, .. } => (*id, Rights::WRITE, 0..u64::MAX),
            Ask::Truncate { id, .. } => (*id, Rights::TRUNCATE, none),
            Ask::Punch { id, offset, length } | Ask::Lose { id, offset, length } => {
                (*id, Rights::WRITE, range(*offset, *length))
            }
            Ask::Flush { scope: Scope::Object(id) | Scope::Range(id, ..), .. } => (*id, Rights::WRITE, none),
            Ask::Flush { scope: Scope::Volume(volume), .. } => (ObjectId::volume(*volume), Rights::WRITE, none),
            Ask::Flush { scope: Scope::Target, .. } => (ObjectId::ROOT, Rights::WRITE, none),
            Ask::SetAttributes { id, .. } => (*id, Rights::SET_ATTRIBUTES, none),
            Ask::Snapshot { id, of } if id.volume == of.volume => {
                (ObjectId::volume(id.volume), Rights::CREATE | Rights::READ, none)
            }
            Ask::Snapshot { .. } => {
                return Err(Error::usage(
                    "a snapshot into another volume is made by the manager (nothing was changed)",
                ));
            }
        };
        let made: &[Attribute] = if let Ask::Create { attributes, .. } = &self.ask { attributes } else { &[] };
        let changed: &[AttributeChange] =
            if let Ask::SetAttributes { changes, .. } = &self.ask { changes } else { &[] };
        let mut pages = changed.iter().chain(&self.riders.set).map(|change| change.0).chain(made.iter().map(|a| a.0));
        if pages.any(|page| page == FENCES) {
            return Err(Error::forbidden(format!(
                "page {FENCES} of attributes is the target's own (nothing was changed)"
            )));
        }
        let sets = if self.riders.set.is_empty() { Rights::NONE } else { Rights::SET_ATTRIBUTES };
        let gets = if self.riders.get.is_none() { Rights::NONE } else { Rights::GET_ATTRIBUTES };
        Ok(About { object, rights: rights | sets | gets, bytes }.of_companion())
    }

    /// The same, with a payload of `payload` bytes.
    pub fn about_with(&self, payload: usize) -> Result<About> {
        let mut about = self.about()?;
        if let (Ask::Write { id, offset, .. }, true) = (&self.ask, payload > 0)
            && id.object & COMPANION == 0
        {
            about.bytes = range(*offset, payload as u64);
        }
        Ok(about)
    }
}

impl About {
    /// A companion is reached by its object's capability, whatever bytes of it that is for.
    fn of_companion(self) -> About {
        if self.object.object & COMPANION == 0 {
            return self;
        }
        let object = ObjectId { object: self.object.object & !COMPANION, ..self.object };
        // To make one, and to look at it, takes no more than to use it.
        let looks = Rights::READ | Rights::GET_ATTRIBUTES;
        let uses = if looks.have(self.rights) { Rights::READ } else { Rights::WRITE };
        About { object, rights: uses, bytes: 0..0 }
    }
}

fn range(offset: u64, length: u64) -> Range<u64> {
    offset..offset.saturating_add(length)
}
