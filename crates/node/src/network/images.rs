//! What is asked over one connection by who moves a ring to another target: bytes come and go as those of objects do.

use super::answers::Room;
use super::session::{OVERHEAD, Session};
use crate::service::{Fenced, ImageAnswer, Order};
use forebay_env::pipe::pipe;
use forebay_model::{Error, ObjectId, Result, TargetId};
use forebay_wire::Head;
use forebay_wire::ring::ImageAsk;
use std::rc::Rc;

impl Session {
    /// Takes a request in; the inner error is the answer to it.
    pub(super) async fn image(
        &mut self,
        head: &Head,
        (target, ring): (TargetId, ObjectId),
        fenced: Fenced,
        ask: ImageAsk,
    ) -> Result<Result<()>> {
        let length = head.payload as usize;
        // Before memory is taken for what comes.
        let begun = ask.check(length).and_then(|()| Ok((self.node.door(target)?.handle, self.doing.begin(target)?)));
        let (handle, begun) = match begun {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        let (mut payload, mut came) = (Vec::new(), None);
        if length > 0 {
            came = match self.room_to_write(target, length).await {
                Ok(room) => Some(room),
                Err(busy) => return Ok(Err(busy)),
            };
            let brings = self.patience.brings(target, length);
            self.window.begins(length);
            self.source.payload_summed_onto(&mut payload).await?;
            self.window.ends();
            drop(brings);
        }
        let (answers, id, weight) = (self.answers.clone(), head.request, ask.most() + OVERHEAD);
        let (node, own, small) = (self.node.clone(), self.room.clone(), self.small.clone());
        self.node.env.spawner.detach(async move {
            let room = match ask.most() {
                0 => None,
                _ => {
                    let room = async { (own.take(target, weight).await, node.outgoing.take(target, weight).await) };
                    answers.unless_over(id, room).await
                }
            };
            let answer = async {
                // The client may ask the same over another connection by now, which this must not follow.
                if answers.is_abandoned() {
                    return Err(Error::disconnected("nobody waits for what was asked of the ring"));
                }
                let (answer, mut outlet) = pipe(0);
                handle.order(Order::Image { ring, ask, fenced, payload, answer })?;
                outlet.receive().await.unwrap_or_else(|| Err(handle.gone()))
            };
            let answer: Result<ImageAnswer> = answer.await;
            drop((begun, came));
            let room: Room = match room {
                Some((own, room)) => Rc::new((own.answered(), room.answered())),
                None => Rc::new(small.take(OVERHEAD).await),
            };
            let answer = answer.inspect_err(|error| node.keys.count(error));
            let parts = answer.and_then(|ImageAnswer { image, payload }| {
                let body = image.map_or_else(|| Ok(Vec::new()), |image| forebay_wire::write_body(&image))?;
                Ok((body, payload.into()))
            });
            answers.answer(id, parts, room);
        });
        Ok(Ok(()))
    }
}
