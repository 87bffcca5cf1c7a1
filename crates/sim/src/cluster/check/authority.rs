//! What was revoked is refused: nothing is read with it, and the refusal is counted.

use crate::cluster::{ClientMachine, Cluster};
use forebay_client::control::Control;
use forebay_client::nodes::Request;
use forebay_model::Kind;
use forebay_wire::capability::Secret;
use forebay_wire::control::files::{Component, Grant, OpenToRead, Revoke};
use forebay_wire::control::names::Place;
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::object::{Ask, ObjectRequest};
use forebay_wire::sink::Shown;
use std::time::Duration;

/// Takes a grant for what is at `path`, revokes it, and tries to use it.
pub(in crate::cluster) fn check(cluster: &Cluster, machine: &ClientMachine, path: &str) {
    let control = machine.control.clone();
    let place = Place::path(path);
    let grant = cluster.world().run(async move {
        let opened = control.ask(Question::OpenToRead(OpenToRead { place })).await;
        let Reply::Grant(grant) = opened.expect("the manager is there") else { panic!("no grant") };
        let revoked = control.change(Change::Revoke(Revoke { file: grant.entry.file })).await;
        revoked.expect("the manager is there");
        grant
    });
    // Targets are told when they report.
    cluster.world().run_for(Duration::from_secs(6));
    let before = refusals(cluster);
    let count = grant.components.len() as u64;
    let Grant { components, .. } = grant;
    for Component { target, object, capability, secret } in components {
        let node = (0..cluster.nodes.len()).find(|node| cluster.target(*node) == target).expect("a target has a node");
        let address = format!("{}:{}", cluster.node_host(node).name(), super::super::PORT);
        let request = ObjectRequest::new(target, Ask::Read { id: object, offset: 0, length: 1 });
        let body = request.body().expect("it fits");
        let request = Request { command: request.command(), body, payload: Vec::new(), most: 1 };
        let shown = Shown {
            capability: capability[..].try_into().expect("a capability"),
            secret: Secret::from_bytes(secret.0[..].try_into().expect("a secret")),
        };
        let nodes = machine.nodes.clone();
        let answer = cluster.world().run(async move { nodes.ask(&address, &request, Some(&shown)).await });
        match answer {
            Err(error) if error.kind == Kind::Stale => {}
            other => panic!("what was revoked of {path} was answered {:?}", other.map(|(answer, ..)| answer)),
        }
    }
    assert_eq!(refusals(cluster), before + count, "refusals are counted");
}

fn refusals(cluster: &Cluster) -> u64 {
    let nodes = (0..cluster.nodes.len()).filter_map(|node| cluster.node(node));
    nodes.map(|node| node.keys().refusals().stale).sum()
}
