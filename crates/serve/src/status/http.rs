//! As much of HTTP as it takes to be asked for a page: one GET on each connection, and its answer.

use forebay_env::fabric::Duplex;
use forebay_model::{Error, Result};
use futures_io::AsyncRead;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Connections at once.
pub(super) const MOST_OPEN: usize = 64;
/// How long one may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request.
const MOST_ASKED: usize = 8 << 10;
/// Fields of its head.
const MOST_FIELDS: usize = 64;

/// What was asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Page(String),
    /// Something else than a page.
    Method,
    Malformed,
    TooLong,
}

/// Answers one request; `page` gives the kind of a page and what it says, if there is one.
pub(super) async fn answer(
    duplex: Duplex,
    page: impl AsyncFnOnce(&str) -> Option<(&'static str, String)>,
) -> Result<()> {
    let Duplex { mut read, mut write, .. } = duplex;
    let asked = receive(&mut *read).await?;
    let (status, kind, body) = match &asked {
        Asked::Page(path) => match page(path).await {
            Some((kind, body)) => ("200 OK", kind, body),
            None => ("404 Not Found", "text/plain", "There is /status and /metrics.\n".to_string()),
        },
        Asked::Method => ("405 Method Not Allowed", "text/plain", "Only GET is answered.\n".to_string()),
        Asked::Malformed => ("400 Bad Request", "text/plain", "That is not HTTP.\n".to_string()),
        Asked::TooLong => ("431 Request Header Fields Too Large", "text/plain", "That is too long.\n".to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nAllow: GET\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    let mut sent = 0;
    poll_fn(|context| {
        while sent < answer.len() {
            match Pin::new(&mut *write).poll_write(context, &answer[sent..]) {
                Poll::Ready(Ok(count)) if count > 0 => sent += count,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut *write).poll_close(context).map(|_| ())
    })
    .await;
    Ok(())
}

async fn receive(read: &mut (dyn AsyncRead + Unpin)) -> Result<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        if let Some(asked) = parse(&bytes) {
            return Ok(asked);
        }
        let count = poll_fn(|context| Pin::new(&mut *read).poll_read(context, &mut piece)).await;
        match count {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return Err(Error::disconnected("whoever asked for the status went away")),
        }
    }
}

/// What these bytes ask for, if they are enough to tell.
pub(super) fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some("GET"), Some(path)) => Asked::Page(path.split('?').next().unwrap_or_default().to_string()),
            _ => Asked::Method,
        }),
        Ok(httparse::Status::Partial) if bytes.len() < MOST_ASKED => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Some(Asked::TooLong),
        Err(_) => Some(Asked::Malformed),
    }
}
