//! The plain types of [`forebay_wire::control`] as messages of the interface, and back, with nothing lost.
//!
//! - [`Message`]: a type, and the message that stands for it. [`Field`]: what a field of a message holds.
//! - [`changes`], [`questions`], [`replies`]: the three unions; the other modules have the structs, as theirs do.
//!
//! What comes from outside is checked: what a message must have and has not, and a number or length that cannot be, is
//! [`forebay_model::Kind::Usage`]; a case that is not known is [`forebay_model::Kind::Version`], as a later version wrote
//! it. The macro takes each struct apart by all of its fields, so one that was forgotten does not compile.

mod access;
mod changes;
mod cluster;
mod files;
mod layout;
mod names;
mod questions;
mod replies;
mod volumes;

use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::Call;
use forebay_wire::control::access::Hidden;
use forebay_wire::control::names::FileId;

use crate::proto;

/// A type that a message of the interface stands for.
pub(crate) trait Message: Sized {
    /// The message.
    type Proto;

    /// As a message.
    fn to_proto(self) -> Self::Proto;

    /// What a message says.
    fn from_proto(message: Self::Proto) -> Result<Self>;
}

/// What a field of a message holds.
trait Field<P>: Sized {
    fn to_field(self) -> P;

    fn from_field(field: P) -> Result<Self>;
}

/// Structs of which each field is one of the message, under the same name.
macro_rules! messages {
    ($($kind:ident as $message:ident { $($field:ident),* })*) => {$(
        impl $crate::convert::Message for $kind {
            type Proto = $crate::proto::$message;

            fn to_proto(self) -> Self::Proto {
                let $kind { $($field),* } = self;
                $crate::proto::$message { $($field: $crate::convert::Field::to_field($field)),* }
            }

            fn from_proto(message: Self::Proto) -> forebay_model::Result<Self> {
                let $crate::proto::$message { $($field),* } = message;
                Ok($kind {
                    $($field: $crate::convert::Field::from_field($field)
                        .map_err(|e| e.of(concat!(stringify!($message), ".", stringify!($field))))?),*
                })
            }
        }
    )*};
}
use messages;

/// Enums without content: the cases of ours and of the interface, under the same names.
macro_rules! enums {
    ($($kind:ident { $($case:ident),* })*) => {$(
        impl $crate::convert::Field<i32> for $kind {
            fn to_field(self) -> i32 {
                match self {
                    $($kind::$case => $crate::proto::$kind::$case.into()),*
                }
            }

            fn from_field(field: i32) -> forebay_model::Result<Self> {
                match $crate::proto::$kind::try_from(field) {
                    $(Ok($crate::proto::$kind::$case) => Ok($kind::$case),)*
                    Ok($crate::proto::$kind::Unspecified) => Err($crate::convert::not_said()),
                    Err(_) => Err($crate::convert::not_known(format_args!("the value {field}"))),
                }
            }
        }

        impl $crate::convert::Field<Option<i32>> for Option<$kind> {
            fn to_field(self) -> Option<i32> {
                self.map($crate::convert::Field::to_field)
            }

            fn from_field(field: Option<i32>) -> forebay_model::Result<Self> {
                field.map($crate::convert::Field::from_field).transpose()
            }
        }
    )*};
}
use enums;

/// Unions: cases with a message, those without content (the message is empty), and those with a list.
macro_rules! unions {
    ($kind:ident as $module:ident { $($case:ident),* } empty { $($empty:ident: $message:ident),* }
        lists { $($list:ident: $of:ident { $field:ident }),* }) => {
        impl $crate::convert::Message for $kind {
            type Proto = $crate::proto::$kind;

            fn to_proto(self) -> Self::Proto {
                use $crate::proto::$module::$kind as Case;
                let case = match self {
                    $($kind::$case(content) => Case::$case($crate::convert::Message::to_proto(content)),)*
                    $($kind::$empty => Case::$empty($crate::proto::$message {}),)*
                    $($kind::$list(content) => {
                        Case::$list($crate::proto::$of { $field: $crate::convert::Field::to_field(content) })
                    })*
                };
                $crate::proto::$kind { $module: Some(case) }
            }

            fn from_proto(message: Self::Proto) -> forebay_model::Result<Self> {
                use $crate::proto::$module::$kind as Case;
                let case = message.$module.ok_or_else(|| $crate::convert::not_known(stringify!($module)))?;
                Ok(match case {
                    $(Case::$case(content) => $kind::$case($crate::convert::Message::from_proto(content)?),)*
                    $(Case::$empty($crate::proto::$message {}) => $kind::$empty,)*
                    $(Case::$list($crate::proto::$of { $field }) => {
                        $kind::$list($crate::convert::Field::from_field($field)?)
                    })*
                })
            }
        }
    };
}
use unions;

messages! {
    Call as CallRequest { sequence, change }
    ObjectId as ObjectId { volume, object }
}

/// What is the same on both sides.
macro_rules! same {
    ($($kind:ty),*) => {$(
        impl Field<$kind> for $kind {
            fn to_field(self) -> $kind {
                self
            }

            fn from_field(field: $kind) -> Result<Self> {
                Ok(field)
            }
        }

        impl Field<Option<$kind>> for Option<$kind> {
            fn to_field(self) -> Option<$kind> {
                self
            }

            fn from_field(field: Option<$kind>) -> Result<Self> {
                Ok(field)
            }
        }
    )*};
}
same!(u32, u64, bool, String, Vec<u8>, Vec<u32>);

/// A number under a name of its own.
macro_rules! numbers {
    ($($kind:ident: $number:ty),*) => {$(
        impl Field<$number> for $kind {
            fn to_field(self) -> $number {
                self.0
            }

            fn from_field(field: $number) -> Result<Self> {
                Ok($kind(field))
            }
        }

        impl Field<Option<$number>> for Option<$kind> {
            fn to_field(self) -> Option<$number> {
                self.map(|number| number.0)
            }

            fn from_field(field: Option<$number>) -> Result<Self> {
                Ok(field.map($kind))
            }
        }
    )*};
}
numbers!(Bytes: u64, FileId: u64, Timestamp: i64);

impl Field<Vec<u64>> for Vec<FileId> {
    fn to_field(self) -> Vec<u64> {
        self.into_iter().map(|file| file.0).collect()
    }

    fn from_field(field: Vec<u64>) -> Result<Self> {
        Ok(field.into_iter().map(FileId).collect())
    }
}

/// The interface has no smaller numbers.
impl Field<u32> for u8 {
    fn to_field(self) -> u32 {
        u32::from(self)
    }

    fn from_field(field: u32) -> Result<Self> {
        u8::try_from(field).map_err(|_| Error::usage(format!("it is 255 at most, and not {field}")))
    }
}

/// So many bytes, no more and no fewer.
impl<const N: usize> Field<Vec<u8>> for [u8; N] {
    fn to_field(self) -> Vec<u8> {
        self.to_vec()
    }

    fn from_field(field: Vec<u8>) -> Result<Self> {
        let length = field.len();
        field.try_into().map_err(|_| Error::usage(format!("it has {N} bytes, and not {length}")))
    }
}

/// 16 bytes, the lowest first.
impl Field<Vec<u8>> for u128 {
    fn to_field(self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }

    fn from_field(field: Vec<u8>) -> Result<Self> {
        Field::from_field(field).map(u128::from_le_bytes)
    }
}

impl Field<Vec<u8>> for TargetId {
    fn to_field(self) -> Vec<u8> {
        self.0.to_field()
    }

    fn from_field(field: Vec<u8>) -> Result<Self> {
        Field::from_field(field).map(TargetId)
    }
}

impl Field<Option<Vec<u8>>> for Option<TargetId> {
    fn to_field(self) -> Option<Vec<u8>> {
        self.map(Field::to_field)
    }

    fn from_field(field: Option<Vec<u8>>) -> Result<Self> {
        field.map(Field::from_field).transpose()
    }
}

impl Field<Vec<Vec<u8>>> for Vec<TargetId> {
    fn to_field(self) -> Vec<Vec<u8>> {
        self.into_iter().map(Field::to_field).collect()
    }

    fn from_field(field: Vec<Vec<u8>>) -> Result<Self> {
        field.into_iter().map(Field::from_field).collect()
    }
}

/// Its length is the business of whoever uses it.
impl Field<Vec<u8>> for Hidden {
    fn to_field(self) -> Vec<u8> {
        self.0
    }

    fn from_field(field: Vec<u8>) -> Result<Self> {
        Ok(Hidden(field))
    }
}

/// A message that must be there.
impl<T: Message> Field<Option<T::Proto>> for T {
    fn to_field(self) -> Option<T::Proto> {
        Some(self.to_proto())
    }

    fn from_field(field: Option<T::Proto>) -> Result<Self> {
        field.ok_or_else(not_said).and_then(T::from_proto)
    }
}

/// A message that may be there.
impl<T: Message> Field<Option<T::Proto>> for Option<T> {
    fn to_field(self) -> Option<T::Proto> {
        self.map(Message::to_proto)
    }

    fn from_field(field: Option<T::Proto>) -> Result<Self> {
        field.map(T::from_proto).transpose()
    }
}

impl<T: Message> Field<Vec<T::Proto>> for Vec<T> {
    fn to_field(self) -> Vec<T::Proto> {
        self.into_iter().map(Message::to_proto).collect()
    }

    fn from_field(field: Vec<T::Proto>) -> Result<Self> {
        field.into_iter().map(T::from_proto).collect()
    }
}

/// Errors inside of answers; those instead of one are of [`crate::status`].
impl Message for Error {
    type Proto = proto::Error;

    fn to_proto(self) -> proto::Error {
        proto::Error { kind: self.kind.to_field(), message: self.message }
    }

    fn from_proto(message: proto::Error) -> Result<Self> {
        Ok(Error { kind: Field::from_field(message.kind)?, message: message.message })
    }
}

use forebay_model::Kind;

enums! {
    Kind {
        Usage, Refused, Missing, Exists, Expired, Busy, Full, Damaged, Version, Device, Disconnected, Restarted,
        Forbidden, Stale
    }
}

fn not_said() -> Error {
    Error::usage("it is not said, and has to be")
}

fn not_known(what: impl std::fmt::Display) -> Error {
    Error::version(format!("{what} is not there, or of a later version than this one; use a newer Forebay here"))
}

#[cfg(test)]
mod tests;
