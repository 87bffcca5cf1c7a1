//! What is asked of a heap by who moves it to another target, at both ends. Only what comes over the network is answered: there it is
//! shown who may.

use super::{HeapAnswer, HeapAsk, HeapReply, HeapRequest, Service, Session};
use forebay_model::{Error, Result};
use forebay_target::heap::slot::Stamp;
use forebay_wire::heap::HeapStamp;

impl Session {
    pub(super) async fn ask_to_move(
        &self,
        service: &Service,
        request: HeapRequest,
        payload: &[u8],
    ) -> Result<HeapAnswer> {
        if self.fenced.is_none() {
            return Err(Error::usage("heaps are moved between targets over the network alone (nothing was changed)"));
        }
        let target = &service.target;
        match request.ask {
            HeapAsk::Unread { watch, from } => {
                // As long as this is there, so is what the heap knows of who copies it.
                let unread = self.transaction(service).await?.heap().unread(watch, from)?;
                let stamp = HeapStamp { target: unread.stamp.target, heap: unread.stamp.heap };
                let runs = unread.runs.into_iter().map(|run| (run.start, run.end - run.start)).collect();
                let (watch, units, space) = (unread.watch, unread.units, unread.space);
                Ok(HeapReply::Unread { watch, stamp, runs, units, space }.into())
            }
            HeapAsk::ReadUnits { watch, first, count } => {
                let transaction = self.transaction(service).await?;
                let payload = transaction.heap().image(watch, first..first.saturating_add(count)).await?;
                Ok(HeapAnswer { reply: HeapReply::Done, payload })
            }
            HeapAsk::Receive { stamp, units } => {
                let stamp = Stamp { target: stamp.target, heap: stamp.heap };
                target.receive_heap(&self.heap, stamp, units).await.map(|()| HeapReply::Done.into())
            }
            HeapAsk::WriteUnits { first } => {
                target.write_units(&self.heap, first, payload).await.map(|()| HeapReply::Done.into())
            }
            HeapAsk::Received { units } => {
                target.received_heap(&self.heap, units).await.map(|()| HeapReply::Done.into())
            }
            _ => Err(Error::usage("that moves no heap (nothing was changed)")),
        }
    }
}
