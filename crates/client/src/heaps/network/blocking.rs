//! Heaps on the network for threads that block: what they ask is done by the loop that does what is asked of files
//! ([`crate::files::blocking`]), in a task for each transaction.

use super::HEAP_MODE;
use crate::files::blocking::Way;
use crate::heaps::HeapList;
use crate::peer::HeapLink;
use bytes::Bytes as Slice;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::{Outlet, pipe};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::command::{Reply, Request};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapRequest};
use std::sync::Arc;

/// What is asked of heaps as a whole; `None` of all else.
pub(crate) fn ask(way: &Way, request: Request) -> Option<Result<Reply>> {
    let asked = match request {
        Request::CreateHeap { heap, settings } => way.run(move |here| async move {
            let info = here.files().heaps().create(&heap, HEAP_MODE, settings).await?;
            Ok(Reply::Heap(Box::new(info)))
        }),
        Request::DeleteHeap { heap } => {
            way.run(move |here| async move { here.files().heaps().remove(&heap).await.map(|()| Reply::Done) })
        }
        Request::HeapInfo { heap } => way.run(move |here| async move {
            let info = here.files().heaps().info(&heap).await?;
            Ok(Reply::Heap(Box::new(info)))
        }),
        Request::Heaps => list(way).map(|list| Reply::Heaps(list.heaps)),
        _ => return None,
    };
    Some(asked)
}

/// All heaps that the user may find and use.
pub(crate) fn list(way: &Way) -> Result<HeapList> {
    way.run(|here| async move { here.files().heaps().list().await })
}

/// The target on which a heap lies.
pub(crate) fn target(way: &Way, heap: &str) -> Result<TargetId> {
    let heap = heap.to_string();
    way.run(move |here| async move { here.files().heaps().target(&heap).await })
}

/// What the task of a transaction is to do.
enum Order {
    Send(String, HeapAsk, Slice),
    Receive,
}

/// A transaction that a task of the loop has.
pub(crate) struct NetworkLink {
    orders: Sender<Order>,
    answers: Outlet<Result<Result<HeapAnswer>>>,
    /// The loop goes on as long as this is there.
    _way: Arc<Way>,
}

/// Bytes that are put, without a copy.
struct Put(Arc<Vec<u8>>);

impl AsRef<[u8]> for Put {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl NetworkLink {
    /// Begins with the heap that is named first.
    pub(crate) fn open(way: Arc<Way>) -> Result<NetworkLink> {
        let (orders, mut receiver) = mailbox();
        let (inlet, answers) = pipe(0);
        way.run(move |here| async move {
            let heaps = here.files().heaps();
            here.spawner().detach(async move {
                let (mut transaction, mut broken) = (None, None);
                // Ends with whoever gives the orders, and so does the transaction.
                while let Some(order) = receiver.receive().await {
                    match order {
                        Order::Send(heap, ask, payload) if broken.is_none() => {
                            let begun = transaction.get_or_insert_with(|| heaps.begin(&heap));
                            broken = begun.send(ask, payload).await.err();
                        }
                        Order::Send(..) => {}
                        Order::Receive => {
                            let answer = match (&broken, &mut transaction) {
                                (Some(error), _) => Err(Error::clone(error)),
                                (None, Some(begun)) => begun.receive().await,
                                (None, None) => Err(Error::usage("nothing was asked that is not answered")),
                            };
                            if let Err(error) = &answer {
                                broken = Some(error.clone());
                            }
                            if !inlet.send(answer, 0).await {
                                return;
                            }
                        }
                    }
                }
            });
            Ok(())
        })?;
        Ok(NetworkLink { orders, answers, _way: way })
    }
}

impl HeapLink for NetworkLink {
    fn send(&mut self, request: &HeapRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let payload = Slice::from_owner(Put(payload.clone()));
        self.orders.send(Order::Send(request.heap.clone(), request.ask.clone(), payload)).map_err(|_| gone())
    }

    fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        self.orders.send(Order::Receive).map_err(|_| gone())?;
        self.answers.receive_blocking().unwrap_or_else(|| Err(gone()))
    }
}

fn gone() -> Error {
    Error::disconnected("the client's loop has ended: open the cluster again")
}
