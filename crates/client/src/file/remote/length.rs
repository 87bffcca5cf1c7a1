//! How long a file is: an attribute of as many components as its bytes have to spare and one. Each client has a number there of
//! its own, so that none undoes what another one said; the longest holds, of those that know of the last cut.
//! `docs/format/files.md` has the bytes.

use super::super::components::is_lost;
use super::{Shared, strange_answer};
use forebay_model::{Bytes, Kind, Result};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply};
use std::rc::Rc;

/// The page of attributes that clients keep of a file's length.
const LENGTHS: u32 = 3;

impl Shared {
    /// The components that say how long the file is: of the first family, as many as can be lost and one.
    fn sayers(&self) -> (u32, u32) {
        let striping = self.grant.borrow().striping;
        let family = match striping.raid().parity_units() {
            0 => striping.raid().copies(),
            _ => striping.width(),
        };
        (family, striping.spare() + 1)
    }

    async fn say(self: &Rc<Self>, cuts: u64, size: Bytes) -> Result<()> {
        let value = [cuts.to_le_bytes(), size.0.to_le_bytes()].concat();
        let number = (self.control.client() as u32).max(1);
        let set = |id| Ask::SetAttributes { id, changes: vec![(LENGTHS, number, Some(value.clone()))] };
        let (family, wanted) = self.sayers();
        let (mut said, mut failure) = (0, None);
        for component in 0..family {
            if said == wanted {
                break;
            }
            match self.ask_of_made(component, |id| id, set, Vec::new()).await {
                Ok(_) => said += 1,
                Err(error) if is_lost(&error) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failure {
            // Whoever is there alone later has to know.
            Some(error) if said < wanted => Err(error),
            _ => {
                self.said.set(Some((cuts, size)));
                Ok(())
            }
        }
    }

    /// How often the file was cut, and how long it is since.
    pub(super) async fn heard(self: &Rc<Self>) -> Result<(u64, Bytes)> {
        let (family, wanted) = self.sayers();
        let (mut best, mut heard, mut failure) = ((0, Bytes::ZERO), 0, None);
        for component in 0..family {
            let page = |id| Ask::Attributes { id, page: LENGTHS, from: 0 };
            match self.ask(component, page, Vec::new()).await {
                Ok(ObjectAnswer { reply: ObjectReply::Attributes { values, .. }, .. }) => {
                    heard += 1;
                    for (_, value) in values {
                        let word = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
                        if let (Some(cuts), Some(size)) = (word(0), word(8)) {
                            best = best.max((cuts, Bytes(size)));
                        }
                    }
                }
                Ok(answer) => return Err(strange_answer(&answer.reply)),
                Err(error) if error.kind == Kind::Missing => heard += 1,
                Err(error) if is_lost(&error) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(error) if heard + wanted <= family => Err(error),
            Some(error) if heard == 0 => Err(error),
            _ => Ok(best),
        }
    }

    pub(super) async fn grown(self: &Rc<Self>, size: Bytes) -> Result<()> {
        let cuts = match self.said.get() {
            Some((_, said)) if said >= size => return Ok(()),
            Some((cuts, _)) => cuts,
            None => self.heard().await?.0,
        };
        self.say(cuts, size).await
    }

    pub(super) async fn cut(self: &Rc<Self>, size: Bytes) -> Result<()> {
        let (cuts, _) = self.heard().await?;
        self.say(cuts + 1, size).await
    }
}
