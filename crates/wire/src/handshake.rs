//! The first frame of either side: who is there, and whether they understand one another.
//!
//! The client speaks first. Until both have spoken, only small frames are accepted ([`Limits::HELLO`]). The fields of
//! a hello stay where they are in every later version, new ones go behind them; so whoever is refused for its version
//! can read why.

use crate::frame::{Command, Flags, Head, Limits, RequestId};
use crate::reader::FrameReader;
use crate::sink::{Frame, FrameSink};
use crate::source::FrameSource;
use crate::writer::FrameWriter;
use forebay_model::{Error, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The version of the commands and their bodies. (The layout of frames has its own,
/// [`crate::frame::FRAME_VERSION`].)
pub const PROTOCOL_VERSION: u16 = 1;

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientHello {
    /// The commands that it knows.
    pub version: u16,
    /// The cluster that it wants, if it knows the name.
    pub cluster: Option<String>,
    /// Bytes by chance, for proofs of capabilities.
    pub nonce: [u8; 16],
    /// The node's nonce of the client's connection before this one: nothing that was asked over that one is done any more once
    /// this is answered, so that whatever is asked again is not overtaken by itself.
    pub replaces: Option<[u8; 16]>,
}

impl ClientHello {
    /// What this release says.
    pub fn new(cluster: Option<&str>, nonce: [u8; 16]) -> ClientHello {
        ClientHello { version: PROTOCOL_VERSION, cluster: cluster.map(str::to_string), nonce, replaces: None }
    }
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerHello {
    /// The commands that it knows.
    pub version: u16,
    /// The target that it serves.
    pub target: TargetId,
    /// The process that owns the target, as its machine numbers it.
    pub process: u32,
    /// Bytes by chance, for proofs of capabilities.
    pub nonce: [u8; 16],
}

/// The request that a hello belongs to.
const FIRST: RequestId = RequestId(0);

/// The client's part: says hello and waits for the server's.
pub fn connect(
    reader: &mut FrameReader<impl Read>,
    writer: &mut FrameWriter<impl Write>,
    cluster: Option<&str>,
) -> Result<ServerHello> {
    reader.set_limits(Limits::HELLO);
    // Over a local socket nothing is proven.
    let hello = ClientHello::new(cluster, [0; 16]);
    writer.send(FIRST, Command::HELLO, Flags::NONE, &hello, &[])?;
    let head = answered(reader.receive()?)?;
    if head.flags.has(Flags::ERROR) {
        return Err(reader.decode_beginning::<Error>()?);
    }
    let answer: ServerHello = reader.decode_beginning()?;
    same_version("server", answer.version)?;
    reader.set_limits(Limits::SESSION);
    Ok(answer)
}

/// The server's part: waits for the client's hello and answers with `hello`, or says why not; then the caller ends
/// the connection. `None` if the client went away without a word. `cluster` is the name of this cluster, if it has one.
pub fn accept(
    reader: &mut FrameReader<impl Read>,
    writer: &mut FrameWriter<impl Write>,
    hello: &ServerHello,
    cluster: Option<&str>,
) -> Result<Option<ClientHello>> {
    reader.set_limits(Limits::HELLO);
    let Some(head) = reader.receive()? else { return Ok(None) };
    let welcome = begins(&head)
        .and_then(|()| reader.decode_beginning::<ClientHello>())
        .and_then(|client| is_welcome(&client, cluster).map(|()| client));
    match welcome {
        Ok(client) => {
            writer.send(head.request, Command::HELLO, Flags::RESPONSE.and(Flags::END), hello, &[])?;
            reader.set_limits(Limits::SESSION);
            Ok(Some(client))
        }
        Err(error) => {
            // The reason counts, whether or not it reaches the client.
            let _ = writer.send_error(head.request, Command::HELLO, &error);
            Err(error)
        }
    }
}

/// The client's part, over a connection of many tasks.
pub(crate) async fn greet(source: &mut FrameSource, sink: &FrameSink, hello: &ClientHello) -> Result<ServerHello> {
    sink.push(Frame::of(FIRST, Command::HELLO, Flags::NONE, hello)?);
    let head = answered(source.receive().await?)?;
    if head.flags.has(Flags::ERROR) {
        return Err(source.decode_beginning::<Error>()?);
    }
    let answer: ServerHello = source.decode_beginning()?;
    same_version("server", answer.version)?;
    Ok(answer)
}

/// The server's part, over a connection of many tasks, as [`accept`]. The caller sees to it that what is left in `sink` goes
/// out; until the caller has seen a capability that counts, `source` takes what strangers may send. `replaced` ends the
/// connection with this nonce, if there is one, and waits until nothing of it is under way.
pub async fn welcome(
    source: &mut FrameSource,
    sink: &FrameSink,
    hello: &ServerHello,
    cluster: Option<&str>,
    replaced: impl AsyncFnOnce([u8; 16]) -> Result<()>,
) -> Result<Option<ClientHello>> {
    let Some(head) = source.receive().await? else { return Ok(None) };
    let client = begins(&head)
        .and_then(|()| source.decode_beginning::<ClientHello>())
        .and_then(|client| is_welcome(&client, cluster).map(|()| client));
    match client {
        Ok(client) => {
            if let Some(before) = client.replaces {
                replaced(before).await?;
            }
            sink.push(Frame::of(head.request, Command::HELLO, Flags::RESPONSE.and(Flags::END), hello)?);
            source.set_limits(Limits::STRANGER);
            Ok(Some(client))
        }
        Err(error) => {
            sink.push(Frame::error(head.request, Command::HELLO, &error)?);
            Err(error)
        }
    }
}

/// What a server said first, if it was a hello or why there is none.
fn answered(head: Option<Head>) -> Result<Head> {
    let head =
        head.ok_or_else(|| Error::disconnected("the server ended the connection before it said hello: connect again"))?;
    if head.command != Command::HELLO || !head.flags.has(Flags::RESPONSE) {
        return Err(Error::damaged(format!("a server answered hello with {}: it is broken", head.command)));
    }
    Ok(head)
}

/// Whether a client begins as it should.
fn begins(head: &Head) -> Result<()> {
    if head.command != Command::HELLO || head.flags.has(Flags::RESPONSE) {
        return Err(Error::damaged(format!("a client began with {} instead of hello: it is broken", head.command)));
    }
    Ok(())
}

/// Whether a client has come to the right place.
fn is_welcome(client: &ClientHello, cluster: Option<&str>) -> Result<()> {
    same_version("client", client.version)?;
    match (&client.cluster, cluster) {
        (Some(wanted), Some(own)) if wanted != own => Err(Error::missing(format!(
            "this is cluster '{own}' and cluster '{wanted}' is asked for: connect to that one"
        ))),
        _ => Ok(()),
    }
}

fn same_version(who: &str, version: u16) -> Result<()> {
    if version == PROTOCOL_VERSION {
        return Ok(());
    }
    Err(Error::version(format!(
        "the {who} speaks version {version} of the protocol and this side version {PROTOCOL_VERSION}: use the same release on both sides"
    )))
}

#[cfg(test)]
mod tests;
