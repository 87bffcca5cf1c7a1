use super::*;
use crate::client::{Client, go_data, greet, option_answer, send_option};
use crate::connection::{MOST_PENDING, WINDOW};
use crate::protocol::{command, command_flag, handshake, info, option, option_reply, transmission};
use bytes::Bytes as Slice;
use forebay_env::Network;
use forebay_env::real::UnixNetwork;
use forebay_model::Error;
use std::sync::Mutex;

/// Bytes in memory. What touches the first byte waits until it is let go.
struct Memory {
    bytes: Mutex<Vec<u8>>,
    /// Whether the first byte is let go.
    open: Watched<bool>,
    /// How often it was flushed.
    flushes: Mutex<u64>,
    /// What was written, and how much of it.
    written: Mutex<Vec<(u64, usize)>>,
    trims: bool,
}

const SIZE: usize = 1 << 20;

/// What is read as a whole comes in parts of this size, of which there are more than the kernel takes in one call.
const SMALL: usize = 500;

impl Memory {
    fn open(&self) {
        self.open.change(|open| *open = true);
    }

    fn pass(&self, offset: u64) {
        drop(self.open.wait_while(self.open.lock(), |open| offset == 0 && !*open));
    }
}

impl Disk for Memory {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<Slice>> {
        self.pass(offset);
        assert_ne!(offset, 13, "a disk with a fault");
        let bytes = &self.bytes.lock().unwrap()[offset as usize..][..length];
        if length == SIZE {
            return Ok(bytes.chunks(SMALL).map(Slice::copy_from_slice).collect());
        }
        let (one, other) = bytes.split_at(length / 3);
        Ok([one, &[], other].map(Slice::copy_from_slice).to_vec())
    }

    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.pass(offset);
        if bytes.first() == Some(&0xff) {
            return Err(Error::full("full"));
        }
        self.written.lock().unwrap().push((offset, bytes.len()));
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn unit(&self) -> u64 {
        3 << 20
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..length as usize].fill(0);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        *self.flushes.lock().unwrap() += 1;
        Ok(())
    }
}

struct Place {
    _folder: tempfile::TempDir,
    address: String,
    disk: Arc<Memory>,
    server: Option<Server>,
}

impl Place {
    fn new() -> Place {
        Place::with(true)
    }

    fn with(trims: bool) -> Place {
        Place::of(SIZE, trims)
    }

    fn of(size: usize, trims: bool) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("socket").display().to_string();
        let disk = Arc::new(Memory {
            bytes: Mutex::new((0..size).map(|n| (n % 251) as u8).collect()),
            open: Watched::default(),
            flushes: Mutex::default(),
            written: Mutex::default(),
            trims,
        });
        let server = Server::start(UnixNetwork.listen(&address).unwrap(), "/disk", disk.clone()).unwrap();
        Place { _folder: folder, address, disk, server: Some(server) }
    }

    fn stream(&self) -> Box<dyn Stream> {
        UnixNetwork.connect(&self.address).unwrap()
    }

    fn client(&self) -> Client {
        Client::choose(self.stream(), "/disk").unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        self.disk.bytes.lock().unwrap().clone()
    }
}

fn is_at_end(stream: &mut dyn Stream) -> bool {
    let mut rest = Vec::new();
    std::io::Read::read_to_end(stream, &mut rest).is_err() || rest.is_empty()
}

#[test]
fn what_is_said_first_and_of_the_device_is_what_the_protocol_says() {
    let place = Place::new();
    let mut stream = place.stream();
    let mut hello = [0; 18];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"NBDMAGICIHAVEOPT\x00\x03");
    stream
        .write_all(b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0c\x00\x00\x00\x04disk\x00\x01\x00\x03")
        .unwrap();
    let mut said = [0; 20 + 12 + 20 + 14 + 20];
    stream.read_exact(&mut said).unwrap();
    let head = |kind: u8, length: u8| {
        let mut head = b"\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07".to_vec();
        head.extend([0, 0, 0, kind, 0, 0, 0, length]);
        head
    };
    let mut expected = head(3, 12);
    expected.extend(b"\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x01\x6d");
    expected.extend(head(3, 14));
    expected.extend(b"\x00\x03\x00\x00\x00\x01\x00\x00\x10\x00\x02\x00\x00\x00");
    expected.extend(head(1, 0));
    assert_eq!(said.to_vec(), expected);
    // A read of four bytes at 4096, and its answer.
    stream
        .write_all(b"\x25\x60\x95\x13\x00\x00\x00\x00ABCDEFGH\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x04")
        .unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x67\x44\x66\x98\x00\x00\x00\x00ABCDEFGH\x50\x51\x52\x53");
}

#[test]
fn the_old_way_to_choose_works_with_and_without_zeros() {
    let place = Place::new();
    for (flags, length) in
        [(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES, 10), (handshake::FIXED_NEWSTYLE, 134), (0, 134)]
    {
        let mut stream = place.stream();
        greet(&mut *stream, flags).unwrap();
        send_option(&mut *stream, option::EXPORT_NAME, b"/disk").unwrap();
        let mut said = vec![1; length];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(said[..10], [0, 0, 0, 0, 0, 0x10, 0, 0, 1, 0x6d]);
        assert!(said[10..].iter().all(|byte| *byte == 0));
    }
    let mut stream = place.stream();
    greet(&mut *stream, 3).unwrap();
    send_option(&mut *stream, option::EXPORT_NAME, b"other").unwrap();
    assert!(is_at_end(&mut *stream), "there is no other answer to this");
}

#[test]
fn options_are_answered_one_by_one_and_what_is_unknown_or_wrong_is_refused() {
    let place = Place::new();
    let mut stream = place.stream();
    greet(&mut *stream, 3).unwrap();
    let long = vec![0; 20 << 10];
    let short_name = [0, 0, 0, 9, b'/', 0, 0];
    let more = [go_data("/disk", &[info::NAME]), vec![0]].concat();
    let table: [(u32, &[u8], u32); 9] = [
        (5, b"", option_reply::ERR_UNSUPPORTED),
        (8, b"", option_reply::ERR_UNSUPPORTED),
        (0xffff_ffff, b"what", option_reply::ERR_UNSUPPORTED),
        (option::GO, b"", option_reply::ERR_INVALID),
        (option::GO, &short_name, option_reply::ERR_INVALID),
        (option::INFO, &more, option_reply::ERR_INVALID),
        (option::GO, &go_data("/other", &[]), option_reply::ERR_UNKNOWN),
        (option::LIST, b"x", option_reply::ERR_INVALID),
        (option::GO, &long, option_reply::ERR_TOO_BIG),
    ];
    for (option, data, expected) in table {
        send_option(&mut *stream, option, data).unwrap();
        let (reply, _) = option_answer(&mut *stream, option).unwrap();
        assert_eq!(reply, expected, "option {option} with {} bytes", data.len());
    }
    send_option(&mut *stream, option::LIST, b"").unwrap();
    let (reply, data) = option_answer(&mut *stream, option::LIST).unwrap();
    assert_eq!((reply, &data[..]), (option_reply::SERVER, &b"\x00\x00\x00\x05/disk"[..]));
    assert_eq!(option_answer(&mut *stream, option::LIST).unwrap().0, option_reply::ACK);
    // To ask is not to choose: another option follows.
    send_option(&mut *stream, option::INFO, &go_data("", &[])).unwrap();
    assert_eq!(option_answer(&mut *stream, option::INFO).unwrap().0, option_reply::INFO);
    assert_eq!(option_answer(&mut *stream, option::INFO).unwrap().0, option_reply::ACK);
    send_option(&mut *stream, option::ABORT, b"").unwrap();
    assert_eq!(option_answer(&mut *stream, option::ABORT).unwrap().0, option_reply::ACK);
    assert!(is_at_end(&mut *stream));
}

#[test]
fn who_speaks_another_protocol_is_hung_up_on() {
    let place = Place::new();
    let absurd = [&b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x07"[..], &u32::MAX.to_be_bytes()].concat();
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x00\x00\x00\x83", b"\x00\x00\x00\x03IHAVENOT........", &absurd] {
        let mut stream = place.stream();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(said).unwrap();
        assert!(is_at_end(&mut *stream), "{said:?}");
    }
    let mut client = place.client();
    client.stream().write_all(&[7; 28]).unwrap();
    assert!(is_at_end(client.stream()), "no request");
    assert_eq!(place.client().read(1, 2).unwrap(), Ok(vec![1, 2]), "others are served");
}

/// Flags, command, offset, length, payload, and the number that it is refused with.
type Refused<'a> = (u16, u16, u64, u32, &'a [u8], u32);

#[test]
fn what_cannot_be_done_is_refused_by_its_number_and_changes_nothing() {
    let place = Place::new();
    place.disk.open();
    let mut client = place.client();
    let (before, end) = (place.bytes(), SIZE as u64);
    let much = vec![0; (32 << 20) + 1];
    let table: [Refused<'_>; 19] = [
        (0, command::READ, end, 1, &[], 22),
        (0, command::READ, end - 1, 2, &[], 22),
        (0, command::READ, u64::MAX, 1, &[], 22),
        (0, command::READ, u64::MAX, u32::MAX, &[], 22),
        (0, command::READ, 0, (32 << 20) + 1, &[], 22),
        (0, command::WRITE, end, 1, &[1], 28),
        (0, command::WRITE, end - 1, 2, &[1, 1], 28),
        (0, command::WRITE, u64::MAX, 2, &[1, 1], 28),
        (0, command::WRITE, 0, much.len() as u32, &much, 22),
        (0x80, command::WRITE, 0, 2, &[1, 1], 22),
        (0, command::TRIM, end - 1, 2, &[], 22),
        (0, command::TRIM, 0, u32::MAX, &[], 22),
        (0, command::WRITE_ZEROES, end - 1, 2, &[], 28),
        (0, command::WRITE_ZEROES, 0, u32::MAX, &[], 28),
        (16, command::WRITE_ZEROES, 0, 1, &[], 22),
        (0, command::FLUSH, 1, 0, &[], 22),
        (0, 5, 0, 1, &[], 22),
        (0, 0xffff, 0, 1, &[], 22),
        (0, command::WRITE, 7, 2, &[0xff, 1], 28),
    ];
    for (flags, what, offset, length, payload, errno) in table {
        let answer = client.ask(flags, what, offset, length, payload).unwrap();
        assert_eq!(answer.result, Err(errno), "flags {flags}, command {what}, {length} bytes at {offset}");
    }
    assert!(place.bytes() == before);
    // A device that breaks down over a request answers it, and the next.
    assert_eq!(client.read(13, 1).unwrap(), Err(5));
    assert_eq!(client.read(14, 2).unwrap(), Ok(vec![14, 15]));
    for (what, offset) in
        [(command::READ, end), (command::WRITE, end), (command::TRIM, 0), (command::WRITE_ZEROES, end)]
    {
        assert_eq!(client.ask(0, what, offset, 0, &[]).unwrap().result, Ok(vec![]), "nothing is always there");
    }
}

#[test]
fn bytes_are_written_read_and_made_zeros() {
    let place = Place::new();
    place.disk.open();
    let mut client = place.client();
    assert_eq!(client.write(0, b"abcdef").unwrap(), Ok(vec![]));
    assert_eq!(client.ask(command_flag::FUA, command::TRIM, 1, 2, &[]).unwrap().result, Ok(vec![]));
    assert_eq!(place.client().read(0, 6).unwrap(), Ok(b"a\0\0def".to_vec()), "another connection sees it");
    for flags in [0, command_flag::NO_HOLE, command_flag::FUA | command_flag::NO_HOLE] {
        client.write(100, &[9; 300]).unwrap().unwrap();
        assert_eq!(client.ask(flags, command::WRITE_ZEROES, 200, 100, &[]).unwrap().result, Ok(vec![]));
        assert_eq!(client.read(199, 102).unwrap().unwrap(), [vec![9], vec![0; 100], vec![9]].concat());
    }
    assert_eq!(client.ask(0, command::FLUSH, 0, 0, &[]).unwrap().result, Ok(vec![]));
    assert_eq!(*place.disk.flushes.lock().unwrap(), 1);
    client.send(0, command::DISCONNECT, 0, 0, &[]).unwrap();
    assert!(is_at_end(client.stream()));
}

#[test]
fn a_read_that_comes_in_thousands_of_parts_is_answered_whole() {
    let place = Place::new();
    place.disk.open();
    let mut client = place.client();
    assert!(client.read(0, SIZE as u32).unwrap() == Ok(place.bytes()));
    assert_eq!(client.read(1, 2).unwrap(), Ok(vec![1, 2]), "the connection is still there");
}

#[test]
fn zeros_that_are_written_are_parted_between_units() {
    let place = Place::of(9 << 20, true);
    place.disk.open();
    let (unit, mut client) = (3 << 20, place.client());
    let zeros = client.ask(command_flag::NO_HOLE, command::WRITE_ZEROES, 100, 2 * unit as u32, &[]).unwrap();
    assert_eq!(zeros.result, Ok(vec![]));
    assert_eq!(*place.disk.written.lock().unwrap(), [(100, unit - 100), (unit as u64, unit), (2 * unit as u64, 100)]);
}

#[test]
fn a_device_that_has_no_holes_is_not_told_what_is_not_needed_and_makes_zeros() {
    let place = Place::with(false);
    place.disk.open();
    let mut client = place.client();
    assert_eq!(client.flags() & (transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES), 1 << 6);
    let mut stream = place.stream();
    greet(&mut *stream, 3).unwrap();
    send_option(&mut *stream, option::EXPORT_NAME, b"").unwrap();
    let mut said = [0; 10];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said[8..], 0x14d_u16.to_be_bytes());
    let before = place.bytes();
    assert_eq!(client.ask(0, command::TRIM, 0, 10, &[]).unwrap().result, Err(22));
    assert!(place.bytes() == before);
    assert_eq!(client.ask(0, command::WRITE_ZEROES, 1, 2, &[]).unwrap().result, Ok(vec![]));
    assert_eq!(client.read(0, 4).unwrap(), Ok(vec![0, 0, 0, 3]));
}

#[test]
fn a_request_that_takes_long_does_not_hold_up_those_behind_it() {
    let place = Place::new();
    let mut client = place.client();
    let slow = client.send(0, command::READ, 0, 4, &[]).unwrap();
    for n in 1..20 {
        let quick = client.send(0, command::READ, n, 1, &[]).unwrap();
        if n != 13 {
            assert_eq!(client.receive().unwrap(), crate::client::Answer { cookie: quick, result: Ok(vec![n as u8]) });
        } else {
            assert_eq!(client.receive().unwrap().result, Err(5));
        }
    }
    // Who goes away in order gets the last answer first.
    client.send(0, command::DISCONNECT, 0, 0, &[]).unwrap();
    place.disk.open();
    assert_eq!(client.receive().unwrap(), crate::client::Answer { cookie: slow, result: Ok(vec![0, 1, 2, 3]) });
    assert!(is_at_end(client.stream()));
}

#[test]
fn a_client_that_does_not_read_its_answers_is_not_read_from_either_and_others_are_served() {
    let place = Place::new();
    place.disk.open();
    let mut greedy = place.client();
    let mut sending = greedy.stream().try_clone().unwrap();
    let asked = Arc::new(Mutex::new(0_usize));
    let counting = asked.clone();
    let asking = thread::spawn("greedy", move || {
        let mut request = b"\x25\x60\x95\x13\x00\x00\x00\x00ABCDEFGH\x00\x00\x00\x00\x00\x00\x00\x00".to_vec();
        request.extend((SIZE as u32).to_be_bytes());
        while sending.write_all(&request).is_ok() {
            *counting.lock().unwrap() += 1;
        }
    })
    .unwrap();
    // As many answers as fit the window wait, and their requests are taken; the rest waits in the sockets.
    let mut other = place.client();
    for n in 1..2000 {
        assert_eq!(other.read(n * 20, 1).unwrap(), Ok(vec![(n * 20 % 251) as u8]));
    }
    greedy.stream().shutdown();
    asking.join().unwrap();
    const IN_SOCKETS: usize = 1 << 20;
    let most = MOST_PENDING.min(WINDOW / SIZE + 1) + (IN_SOCKETS + (64 << 10)) / 28 + IN_SOCKETS / SIZE;
    let asked = *asked.lock().unwrap();
    assert!(asked > 0 && asked <= most, "{asked} of {most}");
}

#[test]
fn a_server_that_is_closed_answers_what_it_took_and_nothing_more() {
    let mut place = Place::new();
    let mut client = place.client();
    let slow = client.send(0, command::READ, 0, 4, &[]).unwrap();
    // What comes behind it is answered, so that it was taken.
    assert_eq!(client.send(0, command::READ, 1, 1, &[]).unwrap(), slow + 1);
    assert_eq!(client.receive().unwrap().cookie, slow + 1);
    let server = place.server.take().unwrap();
    let closing = thread::spawn("closing", move || server.close(Duration::from_secs(60))).unwrap();
    place.disk.open();
    assert_eq!(client.receive().unwrap().result, Ok(vec![0, 1, 2, 3]));
    assert!(is_at_end(client.stream()));
    closing.join().unwrap();
    assert!(UnixNetwork.connect(&place.address).is_err());
}

#[test]
fn one_connection_too_many_is_closed_and_makes_room_when_another_ends() {
    let place = Place::new();
    let mut clients: Vec<Client> = (0..MOST_CONNECTIONS).map(|_| place.client()).collect();
    assert!(is_at_end(&mut *place.stream()));
    clients.pop().unwrap().send(0, command::DISCONNECT, 0, 0, &[]).unwrap();
    let shared = &place.server.as_ref().unwrap().shared;
    let connections = shared.connections.lock();
    drop(shared.connections.wait_while(connections, |all| all.open.len() >= MOST_CONNECTIONS));
    assert_eq!(place.client().read(1, 1).unwrap(), Ok(vec![1]));
}

#[test]
fn who_goes_away_within_a_write_leaves_no_connection_behind() {
    let place = Place::new();
    // One that could be done, and one that is refused.
    for offset in [4096, SIZE as u64] {
        let mut client = place.client();
        client.send(0, command::WRITE, offset, 100, b"half of it").unwrap();
        drop(client);
    }
    let connections = &place.server.as_ref().unwrap().shared.connections;
    drop(connections.wait_while(connections.lock(), |all| !all.open.is_empty()));
    assert!(place.bytes().iter().enumerate().all(|(n, byte)| usize::from(*byte) == n % 251));
}
