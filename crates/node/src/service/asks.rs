//! What is asked once and answered once, of one target.

use super::sessions::TAIL_PATIENCE;
use super::{Fenced, Service, heaps};
use forebay_env::race::race;
use forebay_model::{Bytes, Error, PlanRequest, Profile, Rate, Result, TargetId};
use forebay_target::profile::{MeasureOptions, measure};
use forebay_target::schedule::Class;
use forebay_target::{plan, scrub};
use forebay_wire::command::{Activity, Info, Reply, Request, TargetInfo, TargetPlan, TargetProfile};
use std::ops::Range;
use std::time::Duration;

/// The longest step of a scrub: who asked may be gone before it ends.
const LONGEST_STEP: Duration = Duration::from_secs(10);

/// Carries a request out. A ring that is made keeps from the beginning the fence that was shown for it.
pub(super) async fn ask(service: &Service, request: Request, fenced: Option<Fenced>) -> Result<Reply> {
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
            // One that is just finding its tail knows more in a moment; one that failed says so in its status.
            let _ = race(ring.ready(), service.env.clock.sleep(TAIL_PATIENCE)).await;
            // Meanwhile it may have been deleted.
            Ok(Reply::Rings(vec![target.ring(&name)?.status()]))
        }
        Request::CreateRing(spec) => {
            let ring = target.create_fenced_ring(spec, fenced.map_or(0, |fenced| fenced.version)).await?;
            Ok(Reply::Ring(Box::new(ring.status())))
        }
        Request::DeleteRing { ring } => target.delete_ring(&ring).await.map(|()| Reply::Done),
        Request::ResizeRing { ring, capacity } => target.resize_ring(&ring, capacity).await.map(Reply::Capacity),
        Request::RelateRing { ring, relatives } => {
            target.relate_ring(&ring, relatives).await?;
            Ok(Reply::Ring(Box::new(target.ring(&ring)?.status())))
        }
        Request::BeginRing { ring, beginning } => target.begin_ring(&ring, beginning).await.map(|()| Reply::Done),
        Request::Pin { ring, label, from, to, along } => {
            target.pin_along(&ring, &label, (from, to), along).await.map(Reply::Pinned)
        }
        Request::Unpin { ring, pin } => target.unpin(&ring, pin).await.map(|()| Reply::Done),
        Request::Pins { ring } => Ok(Reply::Pins(target.ring(&ring)?.status().pins)),
        Request::Profiles => Ok(Reply::Profiles(vec![profile(service)])),
        Request::SetProfile { target: id, profile } => {
            mine(service, id)?;
            target.set_profile(profile).await.map(|()| Reply::Done)
        }
        Request::Measure { target: id, budget } => {
            mine(service, id)?;
            let _alone = Alone::with(service)?;
            let measured = measure_again(service, budget).await?;
            target.set_profile(measured).await?;
            Ok(Reply::Profiles(vec![profile(service)]))
        }
        Request::Scrub { target: id, rate, span, anew } => {
            mine(service, id)?;
            let options = scrub::Options { rate, span: span.min(LONGEST_STEP), anew };
            Ok(Reply::Scrubbed(Box::new(target.scrub(options).await?)))
        }
        Request::Settings { target: id, change } => {
            mine(service, id)?;
            target.objects().change_settings(change).await.map(Reply::Settings)
        }
        Request::AddTarget(_) => Err(Error::usage("a target does not add others; ask whoever serves it")),
        Request::CreateHeap { heap, settings } => {
            heaps::create(service, &heap, settings).await.map(|info| Reply::Heap(Box::new(info)))
        }
        Request::Heaps => Ok(Reply::Heaps(heaps::names(service))),
        Request::DeleteHeap { heap } => heaps::delete(service, &heap).await.map(|()| Reply::Done),
        Request::HeapInfo { heap } => heaps::info(service, &heap).await.map(|info| Reply::Heap(Box::new(info))),
        Request::Plan(request) => {
            request.check()?;
            Ok(Reply::Plans(vec![plan(service, &request)]))
        }
    }
}

fn mine(service: &Service, id: TargetId) -> Result<()> {
    if service.target.id() == id {
        return Ok(());
    }
    Err(Error::missing(format!("there is no target {id}")))
}

/// Nobody records while this lives: measuring goes past the scheduler, which keeps the promises.
struct Alone<'a>(&'a Service);

impl<'a> Alone<'a> {
    fn with(service: &'a Service) -> Result<Alone<'a>> {
        if let Some(ring) = service.target.status().into_iter().find(|ring| ring.recording) {
            return Err(Error::busy(format!(
                "somebody records into {}, and measuring would take the device from them; stop that first",
                ring.spec.name
            )));
        }
        if service.measuring.replace(true) {
            return Err(Error::busy(format!("{} is being measured already", device(service))));
        }
        Ok(Alone(service))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.measuring.set(false);
    }
}

/// Measures the device with what is on it: by reading. What was measured by writing, when it was formatted, stays where
/// it is lower.
async fn measure_again(service: &Service, budget: Duration) -> Result<Profile> {
    let geometry = service.env.device.geometry();
    let before = service.target.profile();
    let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, false);
    let options = MeasureOptions { budget, ..options };
    let mut fresh = measure(&service.env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await?;
    if before.writes_measured {
        fresh.writes_measured = true;
        for point in &mut fresh.points {
            point.write = point.write.min(before.write_rate(point.offset));
        }
        fresh.stall = fresh.stall.max(before.stall);
        fresh.flush = fresh.flush.max(before.flush);
    }
    Ok(fresh)
}

fn plan(service: &Service, request: &PlanRequest) -> TargetPlan {
    let plan = on_ground(service, |ground| plan::plan(ground, request));
    TargetPlan { target: service.target.id(), device: device(service), plan }
}

/// The most that could be promised to one more ring.
pub(super) fn headroom(service: &Service) -> Rate {
    on_ground(service, plan::headroom)
}

fn on_ground<T>(service: &Service, reckon: impl FnOnce(plan::Ground<'_>) -> T) -> T {
    let target = &service.target;
    let (profile, layout, free, demands) = (target.profile(), target.layout(), target.free_runs(), target.demands());
    reckon(plan::Ground { profile: &profile, layout: &layout, free: &free, existing: &demands })
}

fn device(service: &Service) -> String {
    service.target.disk().geometry().name.clone()
}

fn profile(service: &Service) -> TargetProfile {
    TargetProfile { target: service.target.id(), device: device(service), profile: service.target.profile() }
}

pub(super) fn info(service: &Service) -> TargetInfo {
    let target = &service.target;
    let geometry = target.disk().geometry();
    let runs = target.free_runs();
    let size = |run: &Range<Bytes>| run.end - run.start;
    let counters = target.disk().counters();
    let maps = target.objects().map_memory();
    let failed = target.disk().failure().or_else(|| target.objects().lost()).map(|error| error.message);
    TargetInfo {
        id: target.id(),
        device: geometry.name.clone(),
        openings: target.objects().boot_epoch(),
        size: geometry.size,
        rotates: geometry.rotates,
        group: target.layout().group,
        free: runs.iter().map(size).sum(),
        largest_free: runs.iter().map(size).max().unwrap_or(Bytes::ZERO),
        // Why it stopped comes before what was repaired.
        complaints: failed.iter().cloned().chain(target.complaints()).collect(),
        failed,
        activity: Activity {
            guaranteed: counters.guaranteed,
            read: target.disk().moved(Class::Normal).read,
            metadata: counters.metadata,
            missed_deadlines: counters.missed_deadlines,
            throttled: counters.throttled,
            slower: target.disk().slower(),
            busy: target.disk().busy(),
        },
        map_memory: maps.used,
        map_memory_limit: maps.limit,
        rings_made_anew: target.rings_made_anew().len() as u64,
        recorded: target.objects().recorded(),
    }
}
