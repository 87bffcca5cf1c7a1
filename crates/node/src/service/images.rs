//! What is asked of a ring by who moves it to another target, at both ends.

use super::{Fenced, Service};
use forebay_model::{Bytes, Error, Result};
use forebay_wire::object::MOST_AT_ONCE;
use forebay_wire::ring::{Image, ImageAsk};

/// What is answered: of a portrait, what it is one of; and bytes.
#[derive(Default)]
pub struct ImageAnswer {
    pub(crate) image: Option<Image>,
    pub(crate) payload: Vec<u8>,
}

impl ImageAnswer {
    fn of_bytes(payload: Vec<u8>) -> ImageAnswer {
        ImageAnswer { payload, ..ImageAnswer::default() }
    }
}

/// Carries it out. The ring that is taken in has the fence that was shown for it.
pub(super) async fn ask(
    service: &Service,
    ring: &str,
    ask: ImageAsk,
    payload: Vec<u8>,
    fenced: Fenced,
) -> Result<ImageAnswer> {
    ask.check(payload.len())?;
    let target = &service.target;
    match ask {
        ImageAsk::Portrait => {
            let portrait = target.ring(ring)?.portrait().await?;
            let (length, payload) = (portrait.length(), portrait.encode()?);
            if payload.len() as u64 > MOST_AT_ONCE.0 {
                return Err(Error::refused(format!(
                    "what is known of {} segments takes more than the {MOST_AT_ONCE} that are sent at once, so the ring is not moved: record \
                     again, and it leaves by that",
                    portrait.slots
                )));
            }
            Ok(ImageAnswer { image: Some(Image { length }), payload })
        }
        ImageAsk::Read { offset, length } => {
            let bytes = target.ring(ring)?.image(Bytes(offset), Bytes(length.into())).await?;
            Ok(ImageAnswer::of_bytes(bytes))
        }
        ImageAsk::Receive => target.receive_ring(ring, &payload).await.map(|()| ImageAnswer::default()),
        ImageAsk::Write { offset } => {
            target.write_image(ring, Bytes(offset), &payload).await.map(|()| ImageAnswer::default())
        }
        ImageAsk::Received => target.received_ring(ring, fenced.version).await.map(|()| ImageAnswer::default()),
    }
}
