//! How long a file is: an attribute of as many components as its bytes have to spare and one. Whoever has the file open has a
//! number there of its own, by chance, so that none undoes what another one said; the longest holds, of those that know of the
//! last cut. Who opens it later in the same process takes the number over, so that there are as many as processes and not as
//! openings. `docs/format/files.md` has the bytes.

use super::super::components::is_lost_or_damaged;
use super::super::leave::is_silent;
use super::super::together::all;
use super::Shared;
use super::asking::Silent;
use crate::granted::strange_answer;
use forebay_model::layout::LARGEST;
use forebay_model::object::{LENGTHS, MOST_SET};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply};
use std::rc::Rc;

/// How often it is said again because something was given up or rebuilt meanwhile.
const TRIES: u32 = 16;

impl Shared {
    /// The components that say how long the file is: of the first family, as many as can be lost and one.
    fn sayers(&self) -> (u32, u32) {
        let striping = self.grant.borrow().striping;
        (striping.family(0).end, striping.spare() + 1)
    }

    async fn say(self: &Rc<Self>, cuts: u64, size: Bytes) -> Result<()> {
        // What was said under this number before holds.
        let word = (cuts, size).max(self.before);
        let (mut said, mut tries) = (self.say_word(word).await, 1);
        // Others may give up or rebuild something meanwhile.
        while said == Ok(false) && tries < TRIES {
            said = self.say_word(word).await;
            tries += 1;
        }
        let said = said.map(drop);
        match &said {
            Ok(()) => {
                self.known.set(self.known.get().max(word));
                self.said.set(Some(word));
            }
            Err(_) => self.is_unsure.set(true),
        }
        said
    }

    /// Says it to all that have to know as far as is known; whether nothing changed of that meanwhile.
    async fn say_word(self: &Rc<Self>, (cuts, size): (u64, Bytes)) -> Result<bool> {
        let version = self.version();
        let value = [cuts.to_le_bytes(), size.0.to_le_bytes()].concat();
        let own = || vec![(LENGTHS, self.number, Some(value.clone()))];
        let (family, wanted) = self.sayers();
        let absent: Vec<u32> = self.absent().into_iter().map(|(component, _)| component).collect();
        // What was given up nobody hears; what is filled may be given up again.
        let whole: Vec<u32> = (0..family).filter(|component| !absent.contains(component)).collect();
        let wanted = wanted.min(whole.len() as u32);
        let filled = absent.iter().filter(|component| **component < family && self.way(**component).is_ok());
        let filled: Vec<u32> = filled.copied().collect();
        let (mut failure, mut lost, mut unheard) = (None, Vec::new(), Vec::new());
        let (mut said, mut next) = (0, 0);
        // As many as are wanted at once; for each that is lost, one that comes behind them.
        while said < wanted && next < whole.len() {
            let some = next..whole.len().min(next + (wanted - said) as usize);
            let besides = if next == 0 { &filled[..] } else { &[] };
            next = some.end;
            let some: Vec<u32> = whole[some].iter().chain(besides).copied().collect();
            let asked = some.iter().map(|component| {
                let component = *component;
                // Nobody else says anything meanwhile, so what others said before is over, unless it says more.
                let others = self.others.borrow();
                let ended = others.get(&component).filter(|_| (cuts, size) >= self.known.get());
                let ended: Vec<u32> = ended.into_iter().flatten().copied().take(MOST_SET - 1).collect();
                let ends = ended.iter().map(|number| (LENGTHS, *number, None));
                let changes: Vec<_> = ends.chain(own()).collect();
                async move {
                    let set = move |id| Ask::SetAttributes { id, changes: changes.clone() };
                    let asking = self.ask_of_made(component, |id| id, set, Vec::new());
                    let answer = self.unless_silent(component, asking).await?;
                    if let Some(others) = self.others.borrow_mut().get_mut(&component) {
                        others.retain(|number| !ended.contains(number));
                    }
                    Ok(answer)
                }
            });
            for (component, answer) in some.iter().zip(all(asked).await) {
                match answer {
                    Ok(_) if filled.contains(component) => {}
                    Ok(_) => said += 1,
                    Err(error) if is_lost_or_damaged(&error) && filled.contains(component) => unheard.push(*component),
                    Err(error) if is_lost_or_damaged(&error) => {
                        // One that is silent may yet hear it, after what is said next.
                        let those = if self.is_silent(*component) { &mut unheard } else { &mut lost };
                        those.push(*component);
                        failure = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        match failure {
            Some(error) if said == 0 => return Err(error.of("no component can be told how long the file is")),
            None if whole.is_empty() => {
                return Err(Error::device("all components that say how long the file is were given up"));
            }
            // Whoever is there alone later has to know.
            Some(_) if said < wanted => unheard.extend(lost),
            _ => {}
        }
        // What has not heard it is not to count as whole.
        if !unheard.is_empty() {
            self.give_up(unheard).await?;
            return Ok(true);
        }
        Ok(self.version() == version)
    }

    /// How often the file was cut, and how long it is since.
    pub(super) async fn heard(self: &Rc<Self>) -> Result<(u64, Bytes)> {
        match self.heard_of_all(Silent::Left).await {
            // Beside others that do not say it either, one that is silent is needed, and may be back.
            (Err(_), true) => self.heard_of_all(Silent::WaitedFor).await.0,
            (heard, _) => heard,
        }
    }

    /// The same, and whether any that is silent was left.
    async fn heard_of_all(self: &Rc<Self>, silent: Silent) -> (Result<(u64, Bytes)>, bool) {
        let (family, wanted) = self.sayers();
        let (mut best, mut heard, mut failure) = ((0, Bytes::ZERO), 0, None);
        // Of one that is filled it is not known whether it was told.
        let whole: Vec<u32> = (0..family).filter(|component| self.is_whole(*component)).collect();
        let answers = all((0..family).map(|component| self.heard_of(component, silent))).await;
        let mut is_any_left = false;
        for (component, answer) in (0..family).zip(answers) {
            match answer {
                Ok(found) => {
                    heard += u32::from(whole.contains(&component) && self.is_whole(component));
                    best = best.max(found);
                }
                Err(error) if is_lost_or_damaged(&error) => {
                    is_any_left |= error == is_silent(component);
                    failure = Some(error);
                }
                Err(error) => return (Err(error), false),
            }
        }
        let answer = match failure {
            Some(error) if heard + wanted <= family => Err(error),
            Some(error) if heard == 0 => Err(error),
            _ => {
                self.known.set(self.known.get().max(best));
                Ok(best)
            }
        };
        (answer, is_any_left)
    }

    /// What one component knows of it.
    async fn heard_of(self: &Rc<Self>, component: u32, silent: Silent) -> Result<(u64, Bytes)> {
        let (mut best, mut from) = ((0, Bytes::ZERO), 0);
        loop {
            let page = |id| Ask::Attributes { id, page: LENGTHS, from };
            let (values, next) = match self.ask_unless(silent, component, page, Vec::new()).await {
                Ok(ObjectAnswer { reply: ObjectReply::Attributes { values, next }, .. }) => (values, next),
                Ok(answer) => return Err(strange_answer(&answer.reply)),
                Err(error) if error.kind == Kind::Missing => return Ok(best),
                Err(error) => return Err(error),
            };
            for (number, value) in values {
                if self.is_alone.get() && number != self.number {
                    self.others.borrow_mut().entry(component).or_default().insert(number);
                }
                let word = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
                // Nobody who is of good will says that a file is longer than one can be.
                if let (Some(cuts), Some(size)) = (word(0), word(8).filter(|size| *size <= LARGEST.0)) {
                    best = best.max((cuts, Bytes(size)));
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(best),
            }
        }
    }

    pub(super) async fn grown(self: &Rc<Self>, size: Bytes) -> Result<()> {
        if self.said.get().is_none() {
            self.heard().await?;
        }
        // What others cut since was heard when it was asked how long the file is.
        let (cuts, _) = self.known.get();
        match self.said.get() {
            Some((at, said)) if at == cuts && said >= size => Ok(()),
            _ => self.say(cuts, size).await,
        }
    }

    pub(super) async fn cut(self: &Rc<Self>, size: Bytes) -> Result<()> {
        let (cuts, _) = self.heard().await?;
        self.say(cuts.saturating_add(1), size).await
    }
}
