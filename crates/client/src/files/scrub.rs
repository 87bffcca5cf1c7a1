//! Files that nobody read for long: all of each is read now and then and compared with its parity or copies, so that what is damaged
//! is found while it can be made of the others.
//!
//! It is read as by any reader, and nobody waits for that. Only what is in doubt then is looked at again beside those who write the
//! file, under locks, and mended; a file that somebody is alone with is for later.

use super::{File, Files, Opened, Purpose};
use crate::control::strange;
use crate::file::components::is_lost;
use crate::file::options::Options;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Kind, Rate, Result, Timestamp};
use forebay_wire::control::files::{AskUnverified, ComponentState, OpenToRead, Verified};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Question, Reply};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::Duration;

/// Files that are asked for at once.
const PAGE: u32 = 256;
/// Of all components together, so much is compared at once.
const STEP: Bytes = Bytes::mib(4);
/// Units in doubt that are looked at before others may be alone with the file again.
const AT_ONCE: usize = 16;
/// So long one file is scrubbed before it is the turn of the others that are due; it goes on from there in the next round.
const TURN: Duration = Duration::from_secs(600);

/// How often and how fast files are scrubbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrubbing {
    /// Each file so often.
    pub every: Duration,
    /// So much of components is read at most; at no rate nothing is.
    pub rate: Rate,
}

impl Default for Scrubbing {
    fn default() -> Scrubbing {
        Scrubbing { every: Duration::from_secs(14 * 24 * 3600), rate: Rate::mb(32) }
    }
}

/// What was found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes of components that were compared.
    pub compared: Bytes,
    /// Bytes that were damaged or did not agree, and are right now.
    pub repaired: Bytes,
    /// Bytes of the file that are lost.
    pub lost: Vec<Range<u64>>,
    /// What the file is called, if any are and it can be seen.
    pub path: Option<String>,
}

/// How far a file was scrubbed, and what was found up to there.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    /// When that began.
    began: Option<Timestamp>,
    from: u64,
    found: Scrubbed,
}

impl SoFar {
    fn add(&mut self, from: u64, Scrubbed { compared, repaired, lost, .. }: Scrubbed) {
        self.from = from;
        self.found.compared += compared;
        self.found.repaired += repaired;
        self.found.lost.extend(lost);
    }
}

impl Files {
    /// Scrubs what was not for as long as is said; `told` of each. Only root may ask for that.
    pub async fn scrub_due(&self, how: Scrubbing, told: impl Fn(FileId, Result<Scrubbed>)) -> Result<()> {
        let mut after = FileId(0);
        loop {
            let since = self.nodes.env().clock.wall().before(how.every);
            let asked = Question::Unverified(AskUnverified { after, most: PAGE, since });
            let found = match self.control.ask(asked).await? {
                Reply::Unverified(found) => found,
                other => return Err(strange(&other)),
            };
            for file in found.files {
                let clock = &self.nodes.env().clock;
                let (end, is_over) = (clock.now() + TURN, Cell::new(false));
                let progress = |_| {
                    is_over.set(clock.now() >= end);
                    match is_over.get() {
                        false => Ok(()),
                        true => Err(Error::busy("others are due as well; it goes on later")),
                    }
                };
                let before = self.scrubbing.borrow_mut().remove(&file).unwrap_or_default();
                let so_far = RefCell::new(before);
                let scrubbed = self.scrub_on(file, Some(how.rate), progress, &so_far).await;
                let so_far = so_far.into_inner();
                // Somebody may have found something damaged in what could not be scrubbed for another reason: that is begun anew.
                if scrubbed == Ok(None) && is_over.get() {
                    self.scrubbing.borrow_mut().insert(file, so_far);
                }
                match scrubbed {
                    // It is tried again with the next round: part of it is away, somebody is alone with it or has removed it.
                    Ok(None) => {}
                    Err(error) if error.kind == Kind::Missing => {}
                    Ok(Some(scrubbed)) => told(file, Ok(scrubbed)),
                    Err(error) => told(file, Err(error)),
                }
            }
            match found.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// Scrubs a file, and tells `progress` of bytes that were compared, which may end it; `None` if not all of it can be now. Root says so to the manager.
    pub async fn scrub(
        &self,
        file: FileId,
        rate: Option<Rate>,
        progress: impl FnMut(Bytes) -> Result<()>,
    ) -> Result<Option<Scrubbed>> {
        self.scrub_on(file, rate, progress, &RefCell::default()).await
    }

    /// The same from where it was left off.
    async fn scrub_on(
        &self,
        file: FileId,
        rate: Option<Rate>,
        mut progress: impl FnMut(Bytes) -> Result<()>,
        so_far: &RefCell<SoFar>,
    ) -> Result<Option<Scrubbed>> {
        so_far.borrow_mut().began.get_or_insert(self.nodes.env().clock.wall());
        let open = Question::OpenToRead(OpenToRead { place: Place::of(file), cached: false });
        let grant = match self.control.ask(open).await? {
            Reply::Grant(grant) => grant,
            other => return Err(strange(&other)),
        };
        // What was given up is rebuilt first.
        if grant.components.iter().any(|component| component.state != ComponentState::Whole) {
            return Ok(None);
        }
        let opened = Opened { grant, asked: self.now(), others: false, begun: self.keeper.begins() };
        let opened = self.patient().file(opened, Options::alone(), None).await;
        let scrubbed = match opened {
            Ok(opened) => self.scrub_all(file, &opened, rate, &mut progress, so_far).await,
            Err(error) => Err(error),
        };
        match scrubbed {
            // A target is away, somebody else is alone with the file, or had to be made way for.
            Err(error) if is_lost(&error) && error.kind != Kind::Missing => return Ok(None),
            scrubbed => scrubbed?,
        }
        let SoFar { began, found: mut scrubbed, .. } = so_far.take();
        if !scrubbed.lost.is_empty() {
            // What is lost is said also where the name cannot be seen.
            scrubbed.path = self.path_of(file).await.ok();
        }
        match self.control.change(Change::Verified(Verified { file, began })).await {
            // Whoever scrubs what is theirs is not asked for more.
            Err(error) if error.kind != Kind::Forbidden => Err(error),
            _ => Ok(Some(scrubbed)),
        }
    }

    async fn scrub_all(
        &self,
        file: FileId,
        opened: &File,
        rate: Option<Rate>,
        progress: &mut impl FnMut(Bytes) -> Result<()>,
        so_far: &RefCell<SoFar>,
    ) -> Result<()> {
        let (engine, striping) = (opened.engine(), opened.striping());
        let units = (STEP.0 / (striping.unit().0 * u64::from(striping.components())).max(1)).max(1);
        let clock = self.nodes.env().clock.clone();
        let (mut from, mut more) = (so_far.borrow().from, true);
        while more {
            let begun = clock.now();
            let mut scrubbed = Scrubbed::default();
            let (found, is_more) = engine.compare(from, units).await?;
            if striping.raid() == Raid::Zero {
                for unit in found.suspects {
                    scrubbed.lost.extend(engine.lost_in(unit).await?);
                }
            } else {
                for units in found.suspects.chunks(AT_ONCE) {
                    self.mend_units(file, units, &mut scrubbed).await?;
                }
            }
            scrubbed.compared += found.compared;
            (from, more) = (from + units, is_more);
            so_far.borrow_mut().add(from, scrubbed);
            progress(found.compared)?;
            let Some(rate) = rate else { continue };
            clock.sleep(rate.time_for(found.compared).saturating_sub(clock.now().since(begun))).await;
        }
        Ok(())
    }

    /// Looks at units that are in doubt while nobody writes them, and mends them.
    async fn mend_units(&self, file: FileId, units: &[u64], scrubbed: &mut Scrubbed) -> Result<()> {
        let shared = Options::beside();
        let opened = match self.open_found(file, shared, Purpose::Scrub).await {
            // Who is not root mends what is theirs, as one who writes it.
            Err(error) if error.kind == Kind::Forbidden => self.open_found(file, shared, Purpose::ScrubOwn).await?,
            opened => opened?,
        };
        let looked = async {
            for unit in units {
                let (found, _) = opened.engine().scrub(*unit, 1).await?;
                scrubbed.repaired += found.repaired;
                scrubbed.lost.extend(found.lost);
            }
            Ok(())
        };
        let looked: Result<()> = looked.await;
        scrubbed.repaired += opened.engine().mended();
        let closed = match opened.leave().await {
            Err(error) if error.kind == Kind::Missing => Err(Error::stale("somebody wanted to be alone with the file")),
            closed => closed,
        };
        looked.and(closed)
    }
}
