//! Nothing is done that was not allowed, and nothing with what was revoked; each refusal is counted.

use crate::cluster::life::hand::options;
use crate::cluster::{ClientMachine, Cluster};
use forebay_client::control::Control;
use forebay_client::file::options::Sharing;
use forebay_client::nodes::Request;
use forebay_model::layout::Raid;
use forebay_model::object::{Durability, Placement};
use forebay_model::{Bytes, Kind, ObjectId, Result, TargetId};
use forebay_wire::capability::Secret;
use forebay_wire::control::files::{Component, Grant, OpenToRead, Revoke};
use forebay_wire::control::names::Place;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::object::{Ask, ObjectRequest};
use forebay_wire::sink::Shown;
use std::time::Duration;

const PATH: &str = "/authority";

/// Takes a grant for reading a file, does with it what it allows and tries what it does not, revokes it, and tries again.
pub(in crate::cluster) fn check(cluster: &Cluster, machine: &ClientMachine) {
    let Grant { components, entry, .. } = granted(cluster, machine);
    let (before, count) = (refusals(cluster), components.len() as u64);
    for (nth, component) in components.iter().enumerate() {
        let Component { target, object, .. } = *component;
        let other = &components[(nth + 1) % components.len()];
        let read = |id| Ask::Read { id, offset: 0, length: 1 };
        let write =
            Ask::Write { id: object, offset: 0, durability: Durability::Durable, placement: Placement::default() };
        let another = ObjectId { object: object.object + 2, ..object };
        let ask = |shown, target, ask, payload| self::ask(cluster, machine, shown, target, ask, payload);
        ask(component, target, read(object), b"").unwrap_or_else(|error| panic!("what is granted: {error:?}"));
        for (what, answer) in [
            ("writing with what is for reading", ask(component, target, write, b"x")),
            ("reading another object", ask(component, target, read(another), b"")),
            ("reading at another target", ask(component, other.target, read(object), b"")),
            ("reading another component", ask(component, other.target, read(other.object), b"")),
        ] {
            assert_eq!(answer.expect_err(what).kind, Kind::Forbidden, "{what}, on target {target}");
        }
    }
    assert_eq!(refusals(cluster).0, before.0 + 4 * count, "refusals are counted");
    let control = machine.control.clone();
    let revoked = cluster.world().run(async move { control.change(Change::Revoke(Revoke { file: entry.file })).await });
    revoked.expect("the manager is there");
    // Targets are told when they report.
    cluster.world().run_for(Duration::from_secs(6));
    for component in &components {
        let read = Ask::Read { id: component.object, offset: 0, length: 1 };
        let answer = ask(cluster, machine, component, component.target, read, b"");
        assert_eq!(answer.expect_err("it was revoked").kind, Kind::Stale, "on target {}", component.target);
    }
    assert_eq!(refusals(cluster).1, before.1 + count, "refusals are counted");
}

/// A grant for reading a file that has something in all of its components.
fn granted(cluster: &Cluster, machine: &ClientMachine) -> Grant {
    let (control, files) = (machine.control.clone(), machine.files.clone());
    cluster.world().run(async move {
        let policy = Policy { raid: Raid::Five, unit: Bytes::kib(4), targets: 3 };
        let file =
            files.create(PATH, 0o644, Some(policy), options(Sharing::Alone)).await.expect("nothing fails any more");
        file.write_at(Bytes::ZERO, vec![1; 100_000].into()).await.expect("nothing fails any more");
        file.close().await.expect("nothing fails any more");
        let opened = control.ask(Question::OpenToRead(OpenToRead { place: Place::path(PATH), cached: false })).await;
        let Reply::Grant(grant) = opened.expect("the manager is there") else { panic!("no grant") };
        grant
    })
}

/// Asks the node that has `target`, and shows what was given out for a component.
fn ask(
    cluster: &Cluster,
    machine: &ClientMachine,
    shown: &Component,
    target: TargetId,
    ask: Ask,
    payload: &'static [u8],
) -> Result<()> {
    let place = cluster.places().find(|place| cluster.target(*place) == target).expect("a target has a node");
    let address = cluster.nodes[cluster.node_of(place)].address();
    let request = ObjectRequest::new(target, ask);
    let body = request.body().expect("it fits");
    let request = Request { command: request.command(), body, payload: vec![payload.into()], most: 1 };
    let shown = Shown {
        capability: shown.capability[..].try_into().expect("a capability"),
        secret: Secret::from_bytes(shown.secret.0[..].try_into().expect("a secret")),
    };
    let nodes = machine.nodes.clone();
    cluster.world().run(async move { nodes.ask(&address, &request, Some(&shown)).await }).map(drop)
}

/// Commands that were forbidden, and those that showed what was revoked.
fn refusals(cluster: &Cluster) -> (u64, u64) {
    let nodes = (0..cluster.nodes.len()).filter_map(|node| cluster.node(node));
    nodes
        .map(|node| node.keys().refusals())
        .fold((0, 0), |(forbidden, stale), one| (forbidden + one.forbidden, stale + one.stale))
}
