//! What can be recorded: from the words of the command line to a source.

use clap::Args;
use forebay_capture::file::FileSource;
use forebay_capture::generator::{Content as Generated, GeneratorSource, PacketSizes, Sizes};
use forebay_capture::interface::InterfaceSource;
use forebay_capture::stream::{Framing, StreamSource};
use forebay_capture::udp::UdpSource;
use forebay_capture::{ClockDoor, LinkType, Source};
use forebay_env::real::clock;
use forebay_env::real::file::{self, File};
use forebay_env::real::packet::PacketOptions;
use forebay_env::real::signal::{Ready, Stop};
use forebay_env::real::udp::UdpOptions;
use forebay_model::ring::Content;
use forebay_model::{Bytes, Error, Moment, Rate, Result, Timestamp};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a reader waits for input before it lets its source look up.
const WAIT: Duration = Duration::from_millis(20);

/// What standard input is, whatever name it was opened by.
const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// A source, and what packets begin with, if it has packets.
type Opened = (Box<dyn Source>, Option<LinkType>);

/// Where the elements come from.
#[derive(Args)]
#[command(next_help_heading = "The source")]
pub struct InputArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also take frames that are meant for others (with --interface)
    #[arg(long, requires = "interface")]
    promiscuous: bool,
    /// The most that is taken of a frame (with --interface)
    #[arg(long, value_name = "SIZE", requires = "interface")]
    snaplen: Option<Bytes>,
    /// The multicast group to join (with --udp)
    #[arg(long, value_name = "GROUP", requires = "udp")]
    multicast: Option<IpAddr>,
    /// The interface to join it on (with --multicast)
    #[arg(long, value_name = "NAME", requires = "multicast")]
    multicast_interface: Option<String>,
    /// Cut datagrams into frames of this size (with --udp)
    #[arg(long, value_name = "SIZE", requires = "udp")]
    frame: Option<Bytes>,
    /// Packets as far apart as they were captured (with --pcap)
    #[arg(long, requires = "pcap")]
    paced: bool,
}

/// Exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct SourceArgs {
    /// Packets of a network interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Packets of a pcap or pcapng file or pipe; - is standard input. A file waits for room, unless --paced or --overflow
    /// is given
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Datagrams that come to this address, such as 0.0.0.0:9000
    #[arg(long, value_name = "ADDR:PORT")]
    udp: Option<SocketAddr>,
    /// Standard input: raw:SIZE, lp32le, lp32be or lines. A file waits for room, unless --overflow is given
    #[arg(long, value_name = "FRAMING", value_parser = framing)]
    stdin: Option<Framing>,
    /// Made up, such as 72.5MB/s,8KiB or max,mixed or 10MB/s,packets
    #[arg(long, value_name = "RATE,SIZE", value_parser = Generate::parse)]
    generate: Option<Generate>,
}

/// What to make up.
#[derive(Debug, Clone)]
struct Generate {
    rate: Option<Rate>,
    content: Generated,
}

impl Generate {
    fn parse(text: &str) -> Result<Generate> {
        let Some((rate, size)) = text.split_once(',') else {
            return Err(Error::usage(format!(
                "'{text}' is not RATE,SIZE; write it like 72.5MB/s,8KiB, max,20..1500, 100MB/s,mixed or 10MB/s,packets"
            )));
        };
        let rate = if rate.trim() == "max" { None } else { Some(Rate::parse(rate)?) };
        let content = match size.trim() {
            "mixed" => Generated::Pattern(Sizes::mixed()),
            "packets" => Generated::Packets(PacketSizes::Mix),
            size => match size.split_once("..") {
                Some((from, to)) => Generated::Pattern(Sizes::Uniform(Bytes::parse(from)?, Bytes::parse(to)?)),
                None => Generated::Pattern(Sizes::Fixed(Bytes::parse(size)?)),
            },
        };
        Ok(Generate { rate, content })
    }
}

fn framing(text: &str) -> Result<Framing> {
    match text {
        "lines" => Ok(Framing::Lines),
        "lp32le" => Ok(Framing::PrefixedLittle),
        "lp32be" => Ok(Framing::PrefixedBig),
        _ => match text.strip_prefix("raw:").map(Bytes::parse) {
            Some(Ok(Bytes(0))) => Err(Error::usage("raw chunks of 0 bytes never hold anything; ask for 1 or more")),
            Some(size) => size.map(Framing::Chunks),
            None => Err(Error::usage(format!("'{text}' is no framing; write raw:SIZE, lp32le, lp32be or lines"))),
        },
    }
}

/// Real time, for sources.
pub struct RealTime;

impl ClockDoor for RealTime {
    fn wall(&self) -> Timestamp {
        clock::wall()
    }

    fn now(&self) -> Moment {
        clock::now()
    }

    fn pause(&self, span: Duration) {
        clock::pause(span);
    }
}

/// Reads a pipe or a file, and looks up now and then.
struct Patient {
    file: File,
    stop: Stop,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.wait_input(&self.file, Some(WAIT)) {
            Ok(Ready::Input) => self.file.read(buffer),
            Ok(Ready::Stopped | Ready::Late) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(io::Error::other(error.message)),
        }
    }
}

impl InputArgs {
    /// What the elements will be, as far as that is known before the source is open.
    pub fn content(&self) -> Content {
        let source = &self.source;
        let generated = source.generate.as_ref().is_some_and(|g| matches!(g.content, Generated::Packets(_)));
        if source.interface.is_some() || source.pcap.is_some() || generated {
            Content::Packets(u32::from(LinkType::ETHERNET.0))
        } else {
            Content::Opaque
        }
    }

    /// Whether it comes from a network by itself, as it likes.
    pub fn is_live(&self) -> bool {
        self.source.interface.is_some() || self.source.udp.is_some()
    }

    /// Whether nothing of it is missed while it waits for room: a file stays where it is. One that is played as it was
    /// captured is to come in time.
    pub fn waits(&self) -> bool {
        let SourceArgs { pcap, stdin, .. } = &self.source;
        match pcap {
            Some(path) if path != Path::new("-") => !self.paced && file::is_file(path),
            None if stdin.is_none() => false,
            _ => !self.paced && file::is_file(STANDARD_INPUT),
        }
    }

    /// The size of all elements, where all have one.
    pub fn element_size(&self) -> Option<Bytes> {
        match (&self.source.stdin, &self.source.generate, self.frame) {
            (Some(Framing::Chunks(size)), _, _) => Some(*size),
            (_, Some(Generate { content: Generated::Pattern(Sizes::Fixed(size)), .. }), _) => Some(*size),
            (_, _, frame) => frame,
        }
    }

    /// Opens the source. Elements beyond `limit` are refused. Also says what packets begin with, if they are packets. `None`: the
    /// stop was asked for before the source said that.
    pub fn open(&self, limit: Bytes, count: Option<u64>, stop: &Stop) -> Result<Option<Opened>> {
        let clock: Arc<dyn ClockDoor> = Arc::new(RealTime);
        let source = &self.source;
        if let Some(name) = &source.interface {
            let mut options = PacketOptions { promiscuous: self.promiscuous, ..PacketOptions::default() };
            if let Some(snaplen) = self.snaplen {
                options.snaplen = u32::try_from(snaplen.0).unwrap_or(u32::MAX);
            }
            let source = InterfaceSource::open(name, options, clock)?;
            let link = source.link_type();
            return Ok(Some((Box::new(source), Some(link))));
        }
        if let Some(path) = &source.pcap {
            let (file, name) = if path == Path::new("-") {
                (file::stdin()?, "standard input".to_string())
            } else {
                (File::open(path)?, path.display().to_string())
            };
            let reader = Patient { file, stop: stop.clone() };
            let mut source = FileSource::new(Box::new(reader), name, limit, clock);
            if self.paced {
                source = source.paced();
            }
            let link = source.prepare(&mut || !stop.is_set())?;
            return Ok(link.map(|link| (Box::new(source) as Box<dyn Source>, Some(link))));
        }
        if let Some(group) = self.multicast.filter(|group| !group.is_multicast()) {
            return Err(Error::usage(format!(
                "{group} is no multicast group; those are 224.0.0.0 to 239.255.255.255, and what begins with ff"
            )));
        }
        if let Some(address) = source.udp {
            let address = self.multicast.map_or(address, |group| SocketAddr::new(group, address.port()));
            let options = UdpOptions { address, interface: self.multicast_interface.clone(), buffer: Bytes::mib(16) };
            return Ok(Some((Box::new(UdpSource::open(&options, self.frame, clock)?), None)));
        }
        if let Some(framing) = source.stdin {
            let reader = Patient { file: file::stdin()?, stop: stop.clone() };
            let source = StreamSource::new(Box::new(reader), "standard input", framing, limit, clock)?;
            return Ok(Some((Box::new(source), None)));
        }
        if let Some(generate) = &source.generate {
            let source = GeneratorSource::new(generate.content.clone(), generate.rate, count, 1, clock)?;
            let link = source.link_type();
            return Ok(Some((Box::new(source), link)));
        }
        Err(Error::usage("it is not said what to record: give --interface, --pcap, --udp, --stdin or --generate"))
    }
}
