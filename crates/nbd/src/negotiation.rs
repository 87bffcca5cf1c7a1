//! How a client comes to its device: the fixed newstyle of the protocol, with options that are answered one by one.

use crate::protocol::{MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info, option, option_reply, skip};
use crate::protocol::{read_head, transmission};
use forebay_env::network::Stream;
use std::io::{self, Read};
use std::time::Duration;

/// The longest option that is read; longer ones are refused.
const LONGEST_OPTION: u32 = 16 << 10;
/// The longest option that is skipped; whoever sends a longer one is no client.
const LONGEST_SKIPPED: u32 = 1 << 20;
/// Options before a device is chosen; whoever sends more is no client.
const MOST_OPTIONS: u32 = 1000;
/// A client that says nothing for so long before it has chosen a device makes room for another.
const PATIENCE: Duration = Duration::from_secs(30);

/// The smallest request, the best and the largest that is taken.
pub(crate) const BLOCK_SIZES: [u32; 3] = [1, 4096, 32 << 20];

/// What can be chosen.
pub(crate) struct Export {
    /// Its name, beginning with a slash. The empty name and the name without the slash mean it too.
    pub(crate) name: String,
    /// Bytes of it.
    pub(crate) size: u64,
    /// Whether it is told what is not needed any more.
    pub(crate) trims: bool,
}

/// What every device can do. Every write is durable before it is answered, so that connections see one device.
const FLAGS: u16 = transmission::HAS_FLAGS
    | transmission::SEND_FLUSH
    | transmission::SEND_FUA
    | transmission::SEND_WRITE_ZEROES
    | transmission::CAN_MULTI_CONN;

impl Export {
    /// What this one can do.
    fn flags(&self) -> u16 {
        if self.trims { FLAGS | transmission::SEND_TRIM } else { FLAGS }
    }
}

/// Brings a client to its device; false if it goes away instead. Errors end the connection.
pub(crate) fn negotiate(stream: &mut dyn Stream, export: &Export) -> io::Result<bool> {
    let mut hello = MAGIC.to_be_bytes().to_vec();
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;
    let Some(flags) = read_head::<4>(&mut Soon(stream))? else { return Ok(false) };
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
        return Err(bad("flags that were not offered"));
    }
    for _ in 0..MOST_OPTIONS {
        let Some(head) = read_head::<16>(&mut Soon(stream))? else { return Ok(false) };
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != OPTION_MAGIC.to_be_bytes() {
            return Err(bad("no option where one should be"));
        }
        let (option, length) = (word(8), word(12));
        if length > LONGEST_SKIPPED || option == option::EXPORT_NAME && length > LONGEST_OPTION {
            return Err(bad("an option of absurd length"));
        }
        if length > LONGEST_OPTION {
            skip(&mut Soon(stream), u64::from(length))?;
            answer(stream, option, option_reply::ERR_TOO_BIG, b"options are 16 KiB long at most")?;
            continue;
        }
        let mut data = vec![0; length as usize];
        Soon(stream).read_exact(&mut data)?;
        match option {
            option::EXPORT_NAME => return choose(stream, export, &data, flags).map(|()| true),
            option::ABORT => {
                // The client need not wait for the answer.
                let _ = answer(stream, option, option_reply::ACK, b"");
                return Ok(false);
            }
            option::LIST => list(stream, export, &data)?,
            option::INFO | option::GO => {
                if tell(stream, export, option, &data)? && option == option::GO {
                    return Ok(true);
                }
            }
            _ => answer(stream, option, option_reply::ERR_UNSUPPORTED, b"not known here")?,
        }
    }
    Err(bad("options without end"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a client sent {what}"))
}

/// Reads what has to come soon.
struct Soon<'a>(&'a mut dyn Stream);

impl Read for Soon<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.wait_readable(PATIENCE)? { self.0.read(buffer) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

fn answer(stream: &mut dyn Stream, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(reply.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

fn is_name(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes() || name == &export.name.as_bytes()[1..]
}

/// [`option::EXPORT_NAME`].
fn choose(stream: &mut dyn Stream, export: &Export, name: &[u8], flags: u32) -> io::Result<()> {
    if !is_name(export, name) {
        return Err(bad("the name of a device that is not here"));
    }
    let mut bytes = export.size.to_be_bytes().to_vec();
    bytes.extend(export.flags().to_be_bytes());
    if flags & u32::from(handshake::NO_ZEROES) == 0 {
        bytes.extend([0; 124]);
    }
    stream.write_all(&bytes)
}

/// [`option::LIST`].
fn list(stream: &mut dyn Stream, export: &Export, data: &[u8]) -> io::Result<()> {
    if !data.is_empty() {
        return answer(stream, option::LIST, option_reply::ERR_INVALID, b"a list is asked for without data");
    }
    let mut name = (export.name.len() as u32).to_be_bytes().to_vec();
    name.extend(export.name.as_bytes());
    answer(stream, option::LIST, option_reply::SERVER, &name)?;
    answer(stream, option::LIST, option_reply::ACK, b"")
}

/// [`option::INFO`] and [`option::GO`]; whether the device is there.
fn tell(stream: &mut dyn Stream, export: &Export, option: u32, data: &[u8]) -> io::Result<bool> {
    let Some((name, wanted)) = name_and_wanted(data) else {
        answer(stream, option, option_reply::ERR_INVALID, b"a name and numbers are asked for")?;
        return Ok(false);
    };
    if !is_name(export, name) {
        let here = format!("only {} is here", export.name);
        answer(stream, option, option_reply::ERR_UNKNOWN, here.as_bytes())?;
        return Ok(false);
    }
    let piece = |kind: u16, parts: &[&[u8]]| [&kind.to_be_bytes(), parts.concat().as_slice()].concat();
    let about = piece(info::EXPORT, &[&export.size.to_be_bytes(), &export.flags().to_be_bytes()]);
    answer(stream, option, option_reply::INFO, &about)?;
    if wanted.contains(&info::NAME) {
        answer(stream, option, option_reply::INFO, &piece(info::NAME, &[export.name.as_bytes()]))?;
    }
    if wanted.contains(&info::BLOCK_SIZE) {
        let sizes: Vec<u8> = BLOCK_SIZES.iter().flat_map(|size| size.to_be_bytes()).collect();
        answer(stream, option, option_reply::INFO, &piece(info::BLOCK_SIZE, &[&sizes]))?;
    }
    answer(stream, option, option_reply::ACK, b"")?;
    Ok(true)
}

/// A name with its length before it, then numbers with their count before them, and nothing else.
fn name_and_wanted(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (numbers, more) = rest.as_chunks::<2>();
    let fits = more.is_empty() && numbers.len() == usize::from(u16::from_be_bytes(*count));
    fits.then(|| (name, numbers.iter().map(|number| u16::from_be_bytes(*number)).collect()))
}
