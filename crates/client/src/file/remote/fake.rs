//! A manager and a grant for tests of what is done with them, and a node that has objects in memory.

use super::Shared;
use crate::control::Control;
use crate::file::components::Asked;
use crate::nodes::Nodes;
use forebay_env::fabric::Duplex;
use forebay_env::{NetworkEnv, Spawner};
use forebay_model::layout::{Raid, Striping, UNIT};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::capability::LENGTH;
use forebay_wire::control::access::Hidden;
use forebay_wire::control::files::{Component, ComponentState, Grant};
use forebay_wire::control::names::{Attributes, Entry, FileId, FileKind};
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::frame::NO_LIMIT;
use forebay_wire::handshake::{self, PROTOCOL_VERSION, ServerHello};
use forebay_wire::lock::{Locked, Unlock};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply, ObjectRequest};
use forebay_wire::pieces::Pieces;
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::source::FrameSource;
use forebay_wire::{Command, Flags, Head, Limits};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
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
        left: false,
    }
}

/// A file that is open at a version, with a manager.
pub(super) fn open(env: NetworkEnv, control: Rc<dyn Control>, version: u64) -> Rc<Shared> {
    let nodes = Nodes::new(env, 1 << 20, Duration::from_secs(1));
    Rc::new(Shared::new(nodes, control, granted(version), false, Default::default()))
}

/// A node that allows everything, and gives each lock to whoever asks.
pub(super) struct FakeNode {
    pub(super) address: String,
    /// Of the locks that were given back, in their order, whether they were as deserted.
    pub(super) deserted: RefCell<Vec<bool>>,
    /// It ends the connection over which something is written.
    pub(super) hangs_up: Cell<bool>,
    objects: RefCell<BTreeMap<(TargetId, ObjectId), Vec<u8>>>,
}

impl FakeNode {
    pub(super) async fn start(env: &NetworkEnv) -> Rc<FakeNode> {
        let door = env.fabric.listen("127.0.0.1:0").await.expect("a port");
        let node = Rc::new(FakeNode {
            address: door.address(),
            deserted: RefCell::default(),
            hangs_up: Cell::default(),
            objects: RefCell::default(),
        });
        let (serving, spawner) = (node.clone(), env.spawner.clone());
        env.spawner.detach(async move {
            while let Ok(duplex) = door.accept().await {
                spawner.detach(serving.clone().serve(duplex, spawner.clone()));
            }
        });
        node
    }

    async fn serve(self: Rc<Self>, duplex: Duplex, spawner: Spawner) {
        let sink = FrameSink::default();
        let sending = sink.clone();
        spawner.detach(async move { drop(sending.drive(duplex.write).await) });
        let mut source = FrameSource::new(duplex.read);
        let hello = ServerHello { version: PROTOCOL_VERSION, target: TargetId(1), process: 1, nonce: [1; 16] };
        let welcome = handshake::welcome(&mut source, &sink, &hello, None, async |_| Ok(()));
        if let Ok(Some(_)) = welcome.await {
            source.set_limits(Limits::SESSION);
            while let Ok(Some(head)) = source.receive().await {
                match self.answer(&head, &mut source).await {
                    Some(Ok(frame)) => sink.push(frame),
                    Some(Err(error)) => {
                        sink.push(Frame::error(head.request, head.command, &error).expect("it fits"));
                    }
                    None if head.command == Command::GRANT => {}
                    None => break,
                }
            }
        }
        sink.abandon();
    }

    /// What is answered; nothing to what is no request, or if the connection is to end.
    async fn answer(&self, head: &Head, source: &mut FrameSource) -> Option<Result<Frame>> {
        let shown = if head.flags.has(Flags::SHOWN) { LENGTH + 16 } else { 0 };
        let body = source.body()[shown..].to_vec();
        let mut payload = Vec::new();
        if head.payload > 0 {
            source.payload_onto(&mut payload).await.expect("it comes");
        }
        let answer = match head.command {
            Command::GRANT => return None,
            Command::PING => Ok((Vec::new(), Pieces::default())),
            Command::LOCK => forebay_wire::write_body(&Locked { fence: 1 }).map(|body| (body, Pieces::default())),
            Command::UNLOCK => {
                let Unlock { deserted, .. } = forebay_wire::read_body(&body).expect("it is one");
                self.deserted.borrow_mut().push(deserted);
                Ok((Vec::new(), Pieces::default()))
            }
            command => {
                let request =
                    ObjectRequest::read(command, &body).expect("it is well formed").expect("it is about objects");
                let ObjectRequest { target, ask, .. } = request.expect("it asks for what is known");
                if self.hangs_up.get() && matches!(ask, Ask::Write { .. }) {
                    return None;
                }
                self.done(target, ask, payload).and_then(|answer| Ok((answer.body()?, answer.payload)))
            }
        };
        let flags = Flags::RESPONSE.and(Flags::END);
        Some(answer.and_then(|(body, payload)| Frame::new(head.request, head.command, flags, NO_LIMIT, &body, payload)))
    }

    fn done(&self, target: TargetId, ask: Ask, payload: Vec<u8>) -> Result<ObjectAnswer> {
        let mut objects = self.objects.borrow_mut();
        let missing = || Error::missing("it was never made");
        match ask {
            Ask::Read { id, offset, length } => {
                let bytes = objects.get(&(target, id)).ok_or_else(missing)?;
                let from = bytes.len().min(offset as usize);
                let found = bytes[from..bytes.len().min(from + length as usize)].to_vec();
                Ok(ObjectAnswer { payload: found.into(), ..ObjectReply::Bytes.into() })
            }
            Ask::Append { id, .. } => {
                let bytes = objects.entry((target, id)).or_default();
                let at = bytes.len() as u64;
                bytes.extend(payload);
                Ok(ObjectReply::At(at).into())
            }
            Ask::Stat { .. } => Err(missing()),
            _ => Ok(ObjectReply::Done.into()),
        }
    }
}
