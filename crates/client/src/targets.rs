//! The targets of a cluster on the network, as they say of themselves: what was measured of them, and what they could promise.
//!
//! The manager says which there are, where, and with what they are asked; one that cannot be asked takes nothing along.

use crate::control::{Control, strange};
use crate::granted;
use crate::nodes::{Nodes, Request};
use forebay_env::together::all;
use forebay_model::{Error, PlanRequest, Result, TargetId};
use forebay_wire::command::{self, TargetPlan, TargetProfile};
use forebay_wire::control::files::Component;
use forebay_wire::control::{Question, Reply};
use forebay_wire::target::{TargetAsk, TargetRequest};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What targets say, by id.
#[derive(Debug, Clone)]
pub struct OfTargets<T> {
    /// Of each that was asked.
    pub told: Vec<T>,
    /// Why others could not be, each with its name.
    pub silent: Vec<Error>,
}

/// The targets of a cluster.
#[derive(Clone)]
pub struct Targets {
    nodes: Nodes,
    control: Rc<dyn Control>,
}

impl Targets {
    pub(crate) fn new(nodes: Nodes, control: Rc<dyn Control>) -> Targets {
        Targets { nodes, control }
    }

    /// What was measured of each.
    pub async fn profiles(&self) -> Result<OfTargets<TargetProfile>> {
        self.ask(&TargetAsk::Profile, |target, reply| match reply {
            command::Reply::Profiles(mut told) if told.len() == 1 && told[0].target == target => Some(told.remove(0)),
            _ => None,
        })
        .await
    }

    /// What each could promise now.
    pub async fn plans(&self, request: PlanRequest) -> Result<OfTargets<TargetPlan>> {
        self.ask(&TargetAsk::Plan(request), |target, reply| match reply {
            command::Reply::Plans(mut told) if told.len() == 1 && told[0].target == target => Some(told.remove(0)),
            _ => None,
        })
        .await
    }

    async fn ask<T>(
        &self,
        ask: &TargetAsk,
        read: impl Fn(TargetId, command::Reply) -> Option<T>,
    ) -> Result<OfTargets<T>> {
        let targets = match self.control.ask(Question::Targets).await? {
            Reply::Targets(targets) => targets,
            other => return Err(strange(&other)),
        };
        let addresses = granted::addresses(granted::map(&*self.control).await?);
        let asked = all(targets.iter().map(|target| self.ask_one(target, ask, &addresses))).await;
        let mut of_all = OfTargets { told: Vec::new(), silent: Vec::new() };
        for (Component { target, .. }, answer) in targets.iter().zip(asked) {
            let told = answer.and_then(|reply| {
                read(*target, reply).ok_or_else(|| {
                    Error::damaged("it answered what it was not asked: use the same release on both sides")
                })
            });
            match told {
                Ok(told) => of_all.told.push(told),
                Err(error) => of_all.silent.push(error.of(format!("target {target}"))),
            }
        }
        Ok(of_all)
    }

    async fn ask_one(
        &self,
        component: &Component,
        ask: &TargetAsk,
        addresses: &BTreeMap<TargetId, String>,
    ) -> Result<command::Reply> {
        let target = component.target;
        let address = addresses.get(&target).ok_or_else(|| granted::nobody_knows(target))?;
        let asked = TargetRequest { target, ask: ask.clone() };
        let request = Request { command: asked.command(), body: asked.body()?, payload: Vec::new(), most: 0 };
        let (answer, ..) = self.nodes.ask(address, &request, Some(&granted::shown(component)?)).await?;
        forebay_wire::read_body(&answer.body)
    }
}
