//! What checks and tests do with streams: read and write whole, and know each byte by its place.

use super::pattern;
use crate::fabric::Duplex;
use futures_io::{AsyncRead, AsyncWrite};
use std::future::poll_fn;
use std::io::{IoSlice, Result};
use std::pin::Pin;

/// Reads what is there, at least a byte; 0 at the end.
pub async fn read(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<usize> {
    poll_fn(|context| Pin::new(&mut *from).poll_read(context, into)).await
}

/// Reads until `into` is full or the stream ends, and says how much that was.
pub async fn fill(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match read(from, &mut into[filled..]).await? {
            0 => break,
            some => filled += some,
        }
    }
    Ok(filled)
}

/// Reads to the end.
pub async fn rest(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match read(from, &mut piece).await? {
            0 => return Ok(all),
            some => all.extend_from_slice(&piece[..some]),
        }
    }
}

/// Writes some of `bytes`.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<usize> {
    poll_fn(|context| Pin::new(&mut *to).poll_write(context, bytes)).await
}

/// Writes all of `bytes`.
pub async fn send(to: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let written = write(to, bytes).await?;
        bytes = &bytes[written..];
    }
    poll_fn(|context| Pin::new(&mut *to).poll_flush(context)).await
}

/// Writes all of `bytes` in two parts at a time, the first of them of `first` bytes.
pub async fn send_in_parts(to: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8], first: usize) -> Result<()> {
    while !bytes.is_empty() {
        let (one, two) = bytes.split_at(first.min(bytes.len()));
        let parts = [IoSlice::new(one), IoSlice::new(two)];
        let written = poll_fn(|context| Pin::new(&mut *to).poll_write_vectored(context, &parts)).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Says that no more comes.
pub async fn close(to: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    poll_fn(|context| Pin::new(&mut *to).poll_close(context)).await
}

/// Sends back all that comes until it ends, and says how much that was.
pub async fn echo(mut duplex: Duplex) -> Result<u64> {
    let mut piece = vec![0; 16 << 10];
    let mut total = 0;
    loop {
        match read(&mut duplex.read, &mut piece).await? {
            0 => break,
            some => {
                send(&mut duplex.write, &piece[..some]).await?;
                total += some as u64;
            }
        }
    }
    close(&mut duplex.write).await?;
    Ok(total)
}

/// The first `length` bytes of stream `number`: no two streams and no two places are alike.
pub fn painted(number: u64, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8) as u64).flat_map(|place| pattern(place, number).to_le_bytes());
    words.take(length).collect()
}
