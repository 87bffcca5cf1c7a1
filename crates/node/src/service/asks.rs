//! What is asked once and answered once, of one target.

use super::Service;
use super::sessions::TAIL_PATIENCE;
use crate::race::{First, race};
use forebay_model::{Bytes, Error, Result};
use forebay_target::plan::{Ground, Question, plan};
use forebay_wire::command::{Activity, Info, PlanRequest, Reply, Request, TargetInfo, TargetPlan, TargetProfile};

pub(super) async fn ask(service: &Service, request: Request) -> Result<Reply> {
    let target = &service.target;
    match request {
        Request::Info => Ok(Reply::Info(Info {
            version: env!("CARGO_PKG_VERSION").to_string(),
            process: 0,
            targets: vec![info(service)],
        })),
        Request::Status { ring: None } => Ok(Reply::Rings(target.status())),
        Request::Status { ring: Some(name) } => {
            let ring = target.ring(&name)?;
            // One that is just finding its tail knows more in a moment.
            if let First::Left(result) = race(ring.ready(), service.env.clock.sleep(TAIL_PATIENCE)).await {
                result?;
            }
            Ok(Reply::Rings(vec![ring.status()]))
        }
        Request::CreateRing(spec) => Ok(Reply::Ring(Box::new(target.create_ring(spec).await?.status()))),
        Request::DeleteRing { ring } => target.delete_ring(&ring).await.map(|()| Reply::Done),
        Request::ResizeRing { ring, capacity } => target.resize_ring(&ring, capacity).await.map(Reply::Capacity),
        Request::Pin { ring, label, from, to } => target.pin(&ring, &label, from, to).await.map(Reply::Pinned),
        Request::Unpin { ring, pin } => target.unpin(&ring, pin).await.map(|()| Reply::Done),
        Request::Pins { ring } => Ok(Reply::Pins(target.ring(&ring)?.status().pins)),
        Request::Profiles => Ok(Reply::Profiles(vec![profile(service)])),
        Request::SetProfile { target: id, profile } => {
            mine(service, id)?;
            target.set_profile(profile).await.map(|()| Reply::Done)
        }
        Request::Measure { target: id, .. } => {
            mine(service, id)?;
            Ok(Reply::Profiles(vec![profile(service)]))
        }
        Request::Plan(question) => Ok(Reply::Plans(vec![planned(service, &question)])),
    }
}

fn mine(service: &Service, id: forebay_model::TargetId) -> Result<()> {
    if service.target.id() == id {
        return Ok(());
    }
    Err(Error::missing(format!("there is no target {id}")))
}

fn device(service: &Service) -> String {
    service.target.disk().geometry().name.clone()
}

fn profile(service: &Service) -> TargetProfile {
    TargetProfile { target: service.target.id(), device: device(service), profile: service.target.profile() }
}

fn planned(service: &Service, asked: &PlanRequest) -> TargetPlan {
    let target = &service.target;
    let question = Question {
        rate: asked.rate,
        capacity: asked.capacity,
        pin_percent: asked.pin_percent,
        flush_interval: asked.flush_interval,
        block: asked.block,
    };
    let (profile, layout, free, existing) =
        (target.profile(), target.layout(), target.free_runs(), target.demands());
    let plan = plan(Ground { profile: &profile, layout: &layout, free: &free, existing: &existing }, &question);
    TargetPlan {
        target: target.id(),
        device: device(service),
        can: plan.can,
        rate: plan.rate,
        highest: plan.highest,
        largest: plan.largest,
        places: plan.places,
        without_logs: plan.without_logs,
        capacity: plan.capacity,
        usable: plan.usable,
        history: plan.history,
        staging: plan.staging,
        note: plan.note,
    }
}

fn info(service: &Service) -> TargetInfo {
    let target = &service.target;
    let geometry = target.disk().geometry();
    let runs = target.free_runs();
    let size = |run: &std::ops::Range<Bytes>| run.end - run.start;
    let counters = target.disk().counters();
    TargetInfo {
        id: target.id(),
        device: geometry.name.clone(),
        size: geometry.size,
        rotates: geometry.rotates,
        group: target.layout().group,
        free: runs.iter().map(size).sum(),
        largest_free: runs.iter().map(size).max().unwrap_or(Bytes::ZERO),
        complaints: target.complaints().to_vec(),
        activity: Activity {
            guaranteed: counters.guaranteed,
            read: counters.normal,
            metadata: counters.metadata,
            missed_deadlines: counters.missed_deadlines,
            throttled: counters.throttled,
        },
    }
}
