//! Nouns of Forebay and the arithmetic between them. No I/O, no clock, no chance.

pub mod block;
pub mod error;
pub mod gap;
pub mod heap;
pub mod ids;
pub mod key;
pub mod layout;
pub mod object;
pub mod packet;
pub mod plan;
pub mod profile;
pub mod query;
pub mod ranges;
pub mod ring;
pub mod scrub;
pub mod settings;
pub mod size;
pub mod sums;
pub mod time;

pub use error::{Error, Kind, Result};
pub use gap::{Cause, Gap};
pub use ids::{ObjectId, RingId, TargetId};
pub use plan::{Plan, PlanRequest};
pub use profile::Profile;
pub use size::{Bytes, Rate};
pub use time::{Moment, Timestamp};
