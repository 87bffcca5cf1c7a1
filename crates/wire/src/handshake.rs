//! The first frame of either side: who is there, and whether they understand one another.
//!
//! The client speaks first. Until both have spoken, only small frames are accepted ([`Limits::HELLO`]). The fields of
//! a hello stay where they are in every later version, new ones go behind them; so whoever is refused for its version
//! can read why.

use crate::frame::{Command, Flags, Limits, RequestId};
use crate::reader::FrameReader;
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
    let hello = ClientHello { version: PROTOCOL_VERSION, cluster: cluster.map(str::to_string) };
    writer.send(FIRST, Command::HELLO, Flags::NONE, &hello, &[])?;
    let Some(head) = reader.receive()? else {
        return Err(Error::disconnected("the server ended the connection before it said hello: connect again"));
    };
    if head.command != Command::HELLO || !head.flags.has(Flags::RESPONSE) {
        return Err(Error::damaged(format!("a server answered hello with {}: it is broken", head.command)));
    }
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
    let welcome = if head.command != Command::HELLO || head.flags.has(Flags::RESPONSE) {
        Err(Error::damaged(format!("a client began with {} instead of hello: it is broken", head.command)))
    } else {
        reader.decode_beginning::<ClientHello>().and_then(|client| {
            same_version("client", client.version)?;
            match (&client.cluster, cluster) {
                (Some(wanted), Some(own)) if wanted != own => Err(Error::missing(format!(
                    "this is cluster '{own}' and cluster '{wanted}' is asked for: connect to that one"
                ))),
                _ => Ok(client),
            }
        })
    };
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
