//! How a cluster is, as far as its manager says it to whoever asks. What one may not know, or the manager cannot say, is left out.

use crate::access::unasked;
use forebay_control::ControlClient;
use forebay_env::Clock;
use forebay_env::race::{First, race};
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::{Error, Result};
use forebay_wire::control::cluster::Map;
use forebay_wire::control::files::{After, AskDegraded, Degraded, Displaced};
use forebay_wire::control::names::{FileId, MOST_ENTRIES};
use forebay_wire::control::volumes::Volume;
use forebay_wire::control::{Question, Reply};
use std::time::Duration;

/// A manager, and as whom it is asked.
#[derive(Clone)]
pub enum Manager {
    /// Of this process.
    Here(Desk, Principal),
    /// Of another one.
    Elsewhere(ControlClient),
}

/// How a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Its nodes and targets.
    pub map: Map,
    /// Its volumes, with what is in them.
    pub volumes: Option<Vec<Volume>>,
    /// Files of which something is to be rebuilt.
    pub degraded: Option<u64>,
    /// Files of which something is to lie elsewhere.
    pub displaced: Option<u64>,
}

impl Survey {
    /// Asks the manager.
    pub async fn of(manager: &Manager) -> Result<Survey> {
        // One that does not answer is not waited for again.
        let mut survey = Survey::of_map(manager).await?;
        survey.ask_for_lists(manager).await;
        Ok(survey)
    }

    /// The same, for no longer than `limit`. What the manager has not said of lists by then is left out.
    pub(crate) async fn within(manager: &Manager, clock: &dyn Clock, limit: Duration) -> Result<Survey> {
        let end = clock.now() + limit;
        let First::Left(survey) = race(Survey::of_map(manager), clock.sleep_until(end)).await else {
            return Err(Error::disconnected(format!("the manager did not answer within {limit:?}")));
        };
        let mut survey = survey?;
        race(survey.ask_for_lists(manager), clock.sleep_until(end)).await;
        Ok(survey)
    }

    async fn of_map(manager: &Manager) -> Result<Survey> {
        match manager.ask(Question::Map).await? {
            Reply::Map(map) => Ok(Survey { map, volumes: None, degraded: None, displaced: None }),
            other => Err(unasked(&other)),
        }
    }

    /// What may be long.
    async fn ask_for_lists(&mut self, manager: &Manager) {
        if let Ok(Reply::Volumes(volumes)) = manager.ask(Question::Volumes).await {
            self.volumes = Some(volumes);
        }
        self.degraded = count(manager, all_degraded).await;
        self.displaced = count(manager, Question::Displaced).await;
    }
}

/// Also what is being rebuilt.
fn all_degraded(After { file, most }: After) -> Question {
    Question::Degraded(AskDegraded { file, most, left: false })
}

/// How many files a list of the manager has.
async fn count(manager: &Manager, list: fn(After) -> Question) -> Option<u64> {
    let (mut count, mut after) = (0, FileId(0));
    loop {
        let (files, more) = match manager.ask(list(After { file: after, most: MOST_ENTRIES })).await.ok()? {
            Reply::Degraded(Degraded { files, more }) => (files, more),
            Reply::Displaced(Displaced { files, more }) => (files, more),
            _ => return None,
        };
        count += files.len() as u64;
        match files.last() {
            Some(last) if more => after = *last,
            _ => return Some(count),
        }
    }
}

impl Manager {
    async fn ask(&self, question: Question) -> Result<Reply> {
        match self {
            Manager::Here(desk, by) => desk.ask(by.clone(), question).await,
            Manager::Elsewhere(client) => client.ask(question).await,
        }
    }
}
