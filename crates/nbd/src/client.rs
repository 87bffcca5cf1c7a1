//! A plain client: what tests and measurements drive a server with. It says what it is told to, sound or not.

use crate::protocol::{MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, REPLY_MAGIC, REQUEST_MAGIC, command, info, option};
use crate::protocol::{handshake, option_reply};
use forebay_env::network::Stream;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

/// A connection to a device.
pub struct Client {
    stream: Box<dyn Stream>,
    size: u64,
    flags: u16,
    next: u64,
    /// Reads without an answer, and their lengths.
    reads: BTreeMap<u64, u32>,
}

/// An answer: to what, and the bytes or the number of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request.
    pub cookie: u64,
    /// What came of it.
    pub result: Result<Vec<u8>, u32>,
}

fn strange(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a server sent {what}"))
}

/// Reads what a server says first and answers it with these flags.
pub fn greet(stream: &mut dyn Stream, flags: u16) -> io::Result<()> {
    let mut hello = [0; 18];
    stream.read_exact(&mut hello)?;
    if hello[..8] != MAGIC.to_be_bytes() || hello[8..16] != OPTION_MAGIC.to_be_bytes() {
        return Err(strange("no greeting of the newstyle"));
    }
    stream.write_all(&u32::from(flags).to_be_bytes())
}

/// Sends an option.
pub fn send_option(stream: &mut dyn Stream, option: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// An answer to `option`: how, and its data.
pub fn option_answer(stream: &mut dyn Stream, option: u32) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || word(8) != option || word(16) > 64 << 10 {
        return Err(strange("no answer to an option"));
    }
    let mut data = vec![0; word(16) as usize];
    stream.read_exact(&mut data)?;
    Ok((word(12), data))
}

/// The data of [`option::INFO`] and [`option::GO`].
pub fn go_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    wanted.iter().for_each(|wanted| data.extend(wanted.to_be_bytes()));
    data
}

impl Client {
    /// Chooses the device `name` over a fresh connection.
    pub fn choose(mut stream: Box<dyn Stream>, name: &str) -> io::Result<Client> {
        greet(&mut *stream, handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES)?;
        send_option(&mut *stream, option::GO, &go_data(name, &[]))?;
        let mut known = None;
        loop {
            match option_answer(&mut *stream, option::GO)? {
                (option_reply::ACK, _) => break,
                (option_reply::INFO, data) if data.len() == 12 && data[..2] == info::EXPORT.to_be_bytes() => {
                    let size = data[2..10].try_into().map_err(|_| strange("no size"))?;
                    known = Some((u64::from_be_bytes(size), u16::from_be_bytes([data[10], data[11]])));
                }
                (option_reply::INFO, _) => {}
                (_, why) => {
                    return Err(io::Error::new(ErrorKind::NotFound, String::from_utf8_lossy(&why).into_owned()));
                }
            }
        }
        let (size, flags) = known.ok_or_else(|| strange("no size"))?;
        Ok(Client { stream, size, flags, next: 1, reads: BTreeMap::new() })
    }

    /// Bytes of the device.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What it can do: [`crate::protocol::transmission`].
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// The connection itself.
    pub fn stream(&mut self) -> &mut dyn Stream {
        &mut *self.stream
    }

    /// Asks; the number of the request. `length` is that of `payload` in a sound write.
    pub fn send(&mut self, flags: u16, what: u16, offset: u64, length: u32, payload: &[u8]) -> io::Result<u64> {
        let cookie = self.next;
        self.next += 1;
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(what.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(payload);
        if what == command::READ {
            self.reads.insert(cookie, length);
        }
        self.stream.write_all(&bytes)?;
        Ok(cookie)
    }

    /// The next answer, whatever it answers.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        if head[..4] != REPLY_MAGIC.to_be_bytes() {
            return Err(strange("no answer"));
        }
        let errno = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let cookie = head[8..].try_into().map(u64::from_be_bytes).map_err(|_| strange("no answer"))?;
        let length = self.reads.remove(&cookie).unwrap_or(0);
        if errno != 0 {
            return Ok(Answer { cookie, result: Err(errno) });
        }
        let mut bytes = vec![0; length as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(Answer { cookie, result: Ok(bytes) })
    }

    /// Asks and waits, with nothing else under way.
    pub fn ask(&mut self, flags: u16, what: u16, offset: u64, length: u32, payload: &[u8]) -> io::Result<Answer> {
        let cookie = self.send(flags, what, offset, length, payload)?;
        let answer = self.receive()?;
        if answer.cookie == cookie { Ok(answer) } else { Err(strange("an answer to something else")) }
    }

    /// Bytes, or the number of an error.
    pub fn read(&mut self, offset: u64, length: u32) -> io::Result<Result<Vec<u8>, u32>> {
        self.ask(0, command::READ, offset, length, &[]).map(|answer| answer.result)
    }

    /// Writes bytes; or the number of an error.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<Result<Vec<u8>, u32>> {
        self.ask(0, command::WRITE, offset, bytes.len() as u32, bytes).map(|answer| answer.result)
    }
}
