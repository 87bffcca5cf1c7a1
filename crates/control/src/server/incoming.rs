//! Where connections come in: each with its place among the others, and none that makes the server fail.

use super::connection::{Connection, Connections, Place};
use forebay_env::real::clock;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long taking rests when the process is out of descriptors or memory: those who come wait in the kernel's queue.
const REST: Duration = Duration::from_millis(20);

/// Takes connections until `stop` ends.
pub(super) fn take<P: Send + Sync + 'static>(
    listener: TcpListener,
    connections: Arc<Connections<P>>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> ReceiverStream<io::Result<Link<P>>> {
    let (sender, receiver) = mpsc::channel(1);
    let taking = async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // One that is dropped here is told by the kernel that the connection ended, and tries again.
                    let Some((place, end)) = connections.join(clock::now()) else { continue };
                    // Nothing is lost without it but time.
                    let _ = stream.set_nodelay(true);
                    if sender.send(Ok(Link { stream, place, end })).await.is_err() {
                        return;
                    }
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = taking => {}
            () = stop => {}
        }
    });
    ReceiverStream::new(receiver)
}

/// A connection.
pub(super) struct Link<P> {
    stream: TcpStream,
    place: Place<P>,
    /// Says, or is dropped by whoever would say it, when the place is given to another.
    end: oneshot::Receiver<()>,
}

impl<P: Send + Sync + 'static> Connected for Link<P> {
    type ConnectInfo = Arc<Connection<P>>;

    fn connect_info(&self) -> Arc<Connection<P>> {
        self.place.connection().clone()
    }
}

impl<P> AsyncRead for Link<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever serves a connection always waits for what comes, so it hears of this.
        if Pin::new(&mut self.end).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<P> AsyncWrite for Link<P> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
