//! Errors, by what the caller should do next.

use std::fmt;

/// The result of everything that can fail in Forebay.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller should do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// The request itself is wrong: change it. Trying again as it is never helps.
    Usage,
    /// The request is sound but cannot be promised: ask for less (the message says how much).
    Refused,
    /// The named thing does not exist.
    Missing,
    /// A thing of that name exists already.
    Exists,
    /// The data was there and has been overwritten: skip ahead.
    Expired,
    /// Somebody else holds it, or there is no room just now: try again later.
    Busy,
    /// No space is left for this.
    Full,
    /// Bytes do not match their checksum or their place: restore or skip them.
    Damaged,
    /// Written by a version of Forebay that this one does not know: use a newer one.
    Version,
    /// The device failed, or what tells of all that is there is damaged: the target refuses work until it is opened again,
    /// or for good.
    Device,
    /// The other side went away; whether the request took effect is unknown. Reconnect and ask.
    Disconnected,
    /// The target was opened again since: what was acknowledged as buffered may be lost. Send it again.
    Restarted,
    /// Nothing that was shown allows this: get a capability that does. What is forbidden and what is not there look alike.
    Forbidden,
    /// What was shown allowed it once: its time is over, or it was revoked. Get another one and try again.
    Stale,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 14] = [
        Kind::Usage,
        Kind::Refused,
        Kind::Missing,
        Kind::Exists,
        Kind::Expired,
        Kind::Busy,
        Kind::Full,
        Kind::Damaged,
        Kind::Version,
        Kind::Device,
        Kind::Disconnected,
        Kind::Restarted,
        Kind::Forbidden,
        Kind::Stale,
    ];

    /// The stable number of this kind on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Kind::Usage => 1,
            Kind::Refused => 2,
            Kind::Missing => 3,
            Kind::Exists => 4,
            Kind::Expired => 5,
            Kind::Busy => 6,
            Kind::Full => 7,
            Kind::Damaged => 8,
            Kind::Version => 9,
            Kind::Device => 10,
            Kind::Disconnected => 11,
            Kind::Restarted => 12,
            Kind::Forbidden => 13,
            Kind::Stale => 14,
        }
    }
}

/// One sentence about what happened, to which thing, with which numbers, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Error {
    /// What the caller should do.
    pub kind: Kind,
    /// The sentence for people.
    pub message: String,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// The same error, said of `what`: `what: message`.
    pub fn of(self, what: impl fmt::Display) -> Self {
        Error { kind: self.kind, message: format!("{what}: {}", self.message) }
    }
}

macro_rules! constructors {
    ($($name:ident => $kind:ident),* $(,)?) => {
        impl Error {
            $(#[doc = concat!("An error of kind [`Kind::", stringify!($kind), "`].")]
            pub fn $name(message: impl Into<String>) -> Self {
                Error::new(Kind::$kind, message)
            })*
        }
    };
}
constructors! {
    usage => Usage, refused => Refused, missing => Missing, exists => Exists, expired => Expired, busy => Busy,
    full => Full, damaged => Damaged, version => Version, device => Device, disconnected => Disconnected,
    restarted => Restarted, forbidden => Forbidden, stale => Stale,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
