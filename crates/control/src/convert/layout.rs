//! How files are striped, as messages. A [`Striping`] that was read is one.

use super::{Message, not_known, not_said};
use crate::proto;
use crate::proto::RaidLevel;
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Error, Result};

impl Message for Raid {
    type Proto = proto::Raid;

    fn to_proto(self) -> proto::Raid {
        let (level, copies) = match self {
            Raid::Zero => (RaidLevel::Zero, 0),
            Raid::One(copies) => (RaidLevel::One, copies),
            Raid::Five => (RaidLevel::Five, 0),
        };
        proto::Raid { level: level.into(), copies }
    }

    fn from_proto(message: proto::Raid) -> Result<Raid> {
        let proto::Raid { level, copies } = message;
        match (RaidLevel::try_from(level), copies) {
            (Ok(RaidLevel::Zero), 0) => Ok(Raid::Zero),
            (Ok(RaidLevel::One), copies) => Ok(Raid::One(copies)),
            (Ok(RaidLevel::Five), 0) => Ok(Raid::Five),
            (Ok(RaidLevel::Zero | RaidLevel::Five), _) => {
                Err(Error::usage(format!("only RAID 1 has a number of copies; say 0, and not {copies}")))
            }
            (Ok(RaidLevel::Unspecified), _) => Err(not_said().of("Raid.level")),
            (Err(_), _) => Err(not_known(format_args!("the RAID level {level}"))),
        }
    }
}

impl Message for Striping {
    type Proto = proto::Striping;

    fn to_proto(self) -> proto::Striping {
        proto::Striping {
            raid: Some(self.raid().to_proto()),
            unit: self.unit().0,
            width: self.width(),
            depth: self.depth(),
            groups: self.groups(),
        }
    }

    fn from_proto(message: proto::Striping) -> Result<Striping> {
        let proto::Striping { raid, unit, width, depth, groups } = message;
        let raid = Raid::from_proto(raid.ok_or_else(|| not_said().of("Striping.raid"))?)?;
        Striping::new(raid, Bytes(unit), width, depth, groups)
    }
}
