//! The way to the manager in simulation: the frames of the data path, with what is asked of the manager as their bodies. Who asks
//! is believed: proving it is tested elsewhere.

use forebay_client::control::Control;
use forebay_client::file::components::Asked;
use forebay_client::nodes::{Nodes, Request};
use forebay_env::NetworkEnv;
use forebay_env::fabric::{Duplex, FabricFuture};
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::{Result, TargetId};
use forebay_node::network::ToManager;
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Change, Question, Reply};
use forebay_wire::frame::NO_LIMIT;
use forebay_wire::handshake::{PROTOCOL_VERSION, ServerHello, welcome};
use forebay_wire::pieces::Pieces;
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::source::FrameSource;
use forebay_wire::{Command, Flags, Limits};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::time::Duration;

/// What is asked of the manager here.
const COMMAND: Command = Command(0xfff0);
/// For so long the manager is asked again that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
enum Wanted {
    Change(Call),
    Ask(Question),
    Report(Report),
}

/// Who asks, and what.
#[derive(Serialize, Deserialize)]
struct Said {
    user: u32,
    groups: Vec<u32>,
    client: u64,
    key: Option<u64>,
    wanted: Wanted,
}

/// Serves the manager's loop on this machine.
pub(super) async fn listen(env: NetworkEnv, port: u16, desk: Desk) {
    let door = env.fabric.listen(&format!("manager:{port}")).await.expect("nobody else listens there");
    while let Ok(duplex) = door.accept().await {
        let (spawner, desk) = (env.spawner.clone(), desk.clone());
        env.spawner.detach(async move {
            // Whoever asked finds out by its own end of the connection.
            drop(serve(duplex, &spawner, desk).await);
        });
    }
}

async fn serve(duplex: Duplex, spawner: &forebay_env::Spawner, desk: Desk) -> Result<()> {
    let Duplex { read, write, .. } = duplex;
    let sink = FrameSink::default();
    let sending = sink.clone();
    spawner.detach(async move { drop(sending.drive(write).await) });
    let mut source = FrameSource::new(read);
    let hello = ServerHello { version: PROTOCOL_VERSION, target: TargetId(0), process: 0, nonce: [0; 16] };
    welcome(&mut source, &sink, &hello, None, async |_| Ok(())).await?;
    source.set_limits(Limits::SESSION);
    // Nothing large comes here, and nobody counts it.
    sink.push(Frame::window(u32::MAX)?);
    let flags = Flags::RESPONSE.and(Flags::END);
    while let Some(head) = source.receive().await? {
        if head.command == Command::PING {
            sink.push(Frame::of(head.request, head.command, flags, &())?);
            continue;
        }
        let Said { user, groups, client, key, wanted } = source.decode()?;
        let by = Principal { user, groups, client, key };
        let (desk, sink) = (desk.clone(), sink.clone());
        spawner.detach(async move {
            let body = match wanted {
                Wanted::Change(call) => desk.change(by, call).await.and_then(|r| forebay_wire::write_body(&r)),
                Wanted::Ask(question) => desk.ask(by, question).await.and_then(|r| forebay_wire::write_body(&r)),
                Wanted::Report(report) => desk.report(by, report).await.and_then(|r| forebay_wire::write_body(&r)),
            };
            let frame = match body {
                Ok(body) => Frame::new(head.request, head.command, flags, NO_LIMIT, &body, Pieces::default()),
                Err(error) => Frame::error(head.request, head.command, &error),
            };
            sink.push(frame.expect("what the manager says fits a frame"));
        });
    }
    sink.close();
    Ok(())
}

/// A user's way to the manager.
pub struct SimControl {
    way: Way,
    sequence: Cell<u64>,
    asked: Cell<u64>,
}

/// A node's way to the manager.
pub(super) struct SimReports {
    way: Way,
}

#[derive(Clone)]
struct Way {
    nodes: Nodes,
    address: String,
    by: Principal,
}

impl Way {
    async fn say<T: serde::de::DeserializeOwned>(self, wanted: Wanted) -> Result<T> {
        let Principal { user, groups, client, key } = self.by;
        let body = forebay_wire::write_body(&Said { user, groups, client, key, wanted })?;
        let request = Request { command: COMMAND, body, payload: Vec::new(), most: 0 };
        let (answer, ..) = self.nodes.ask(&self.address, &request, None).await?;
        forebay_wire::read_body(&answer.body)
    }
}

impl SimControl {
    pub(super) fn new(env: NetworkEnv, address: String, by: Principal) -> SimControl {
        let way = Way { nodes: Nodes::new(env, 1 << 20, PATIENCE), address, by };
        SimControl { way, sequence: Cell::new(0), asked: Cell::new(0) }
    }

    /// How much it was asked.
    #[cfg(test)]
    pub(super) fn asked(&self) -> u64 {
        self.asked.get()
    }
}

impl Control for SimControl {
    fn change(&self, change: Change) -> Asked<Reply> {
        self.sequence.set(self.sequence.get() + 1);
        let sequence = self.sequence.get();
        Box::pin(self.way.clone().say(Wanted::Change(Call { sequence, change })))
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        self.asked.set(self.asked.get() + 1);
        Box::pin(self.way.clone().say(Wanted::Ask(question)))
    }

    fn client(&self) -> u64 {
        self.way.by.client
    }
}

impl SimReports {
    pub(super) fn new(env: NetworkEnv, address: String) -> SimReports {
        // Who it is, is in the report; here it is believed.
        SimReports { way: Way { nodes: Nodes::new(env, 1 << 20, PATIENCE), address, by: Principal::root(1) } }
    }
}

impl ToManager for SimReports {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        Box::pin(self.way.clone().say(Wanted::Report(report)))
    }
}
