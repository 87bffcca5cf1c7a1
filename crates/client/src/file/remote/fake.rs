//! A manager and a grant for tests of what is done with them, without nodes.

use super::Shared;
use crate::control::Control;
use crate::file::components::Asked;
use crate::nodes::Nodes;
use forebay_env::NetworkEnv;
use forebay_model::layout::{Raid, Striping, UNIT};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::access::Hidden;
use forebay_wire::control::files::{Component, ComponentState, Grant};
use forebay_wire::control::names::{Attributes, Entry, FileId, FileKind};
use forebay_wire::control::{Change, Question, Reply};
use std::rc::Rc;
use std::time::Duration;

/// A manager that answers so, and changes nothing.
pub(super) struct Answers<F>(pub(super) F);

impl<F: Fn(Question) -> Result<Reply>> Control for Answers<F> {
    fn change(&self, _: Change) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let answer = (self.0)(question);
        Box::pin(async { answer })
    }

    fn client(&self) -> u64 {
        1
    }
}

/// A manager that is not there.
pub(super) fn nobody() -> Rc<dyn Control> {
    Rc::new(Answers(|_| Err(Error::disconnected("there is none"))))
}

pub(super) fn five() -> Striping {
    Striping::over(Raid::Five, UNIT, 5).expect("a layout")
}

/// All five components whole, and the file at this version.
pub(super) fn granted(version: u64) -> Grant {
    let component = |nth: u32| Component {
        target: TargetId(u128::from(nth) + 1),
        object: ObjectId { volume: 1, object: 9 },
        capability: Vec::new(),
        secret: Hidden(Vec::new()),
        state: ComponentState::Whole,
    };
    let attributes = Attributes {
        kind: FileKind::File,
        mode: 0o644,
        owner: 0,
        group: 0,
        size: Bytes::ZERO,
        entries: 0,
        created: Timestamp(0),
        modified: Timestamp(0),
        accessed: Timestamp(0),
        changed: Timestamp(0),
        volume: 1,
        version,
    };
    Grant {
        entry: Entry { file: FileId(5), parent: FileId::ROOT, attributes },
        write: true,
        striping: five(),
        components: (0..5).map(component).collect(),
        until: Timestamp(i64::MAX),
        callback: None,
        moving: Vec::new(),
    }
}

/// A file that is open at a version, with a manager.
pub(super) fn open(env: NetworkEnv, control: Rc<dyn Control>, version: u64) -> Rc<Shared> {
    let nodes = Nodes::new(env, 1 << 20, Duration::from_secs(1));
    Rc::new(Shared::new(nodes, control, granted(version), false, Default::default()))
}
