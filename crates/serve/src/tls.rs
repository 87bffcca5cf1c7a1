//! The files of TLS, in a directory of their own: whom a cluster trusts, and what one of its processes shows.

use forebay_control::{ClientTls, ServerTls, is_loopback};
use forebay_env::real::{Tls, file};
use forebay_model::{Error, Result};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The certificate of the authority that vouches for all of a cluster: everybody may have it.
pub const AUTHORITY: &str = "authority.pem";
/// Its private key: only where certificates are made.
pub const AUTHORITY_KEY: &str = "authority.key";
/// What a process shows.
pub const CERTIFICATE: &str = "certificate.pem";
/// The private key of that.
pub const KEY: &str = "certificate.key";

/// What a manager or a node has to show, and whom it trusts.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    dir: PathBuf,
}

impl TlsFiles {
    /// Those in `dir`. [`forebay_model::Kind::Missing`] if one of them is not there.
    pub fn of(dir: &Path) -> Result<TlsFiles> {
        for name in [AUTHORITY, CERTIFICATE, KEY] {
            if !file::exists(dir.join(name)) {
                return Err(Error::missing(format!(
                    "there is no {name} in {}; make what is needed with `forebay keys make {0}`",
                    dir.display()
                )));
            }
        }
        Ok(TlsFiles { dir: dir.to_path_buf() })
    }

    /// For connections of data that come in.
    pub(crate) fn showing(&self) -> Result<Tls> {
        Tls::default().showing(&self.dir.join(CERTIFICATE), &self.dir.join(KEY))
    }

    /// For gRPC that comes in.
    pub(crate) fn control(&self) -> ServerTls {
        ServerTls { certificate: self.dir.join(CERTIFICATE), key: self.dir.join(KEY) }
    }

    /// For what goes out.
    pub(crate) fn client(&self) -> ClientTls {
        ClientTls { authority: self.dir.join(AUTHORITY), name: None }
    }
}

/// For connections of data that go out.
pub(crate) fn trusting(tls: Option<&ClientTls>) -> Result<Tls> {
    tls.map_or(Ok(Tls::default()), |tls| Tls::default().trusting(&tls.authority))
}

/// Where a node that listens at `bound` is reached by others; `known_as` is a host, or with its port.
pub(crate) fn reached_at(bound: &str, known_as: Option<&str>) -> Result<String> {
    let (host, port) = bound.rsplit_once(':').unwrap_or((bound, ""));
    match known_as {
        Some(known) if has_port(known) => Ok(known.to_string()),
        Some(known) => Ok(format!("{known}:{port}")),
        None if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) => {
            Err(Error::usage(format!(
                "{bound} is all addresses of this machine, and nobody else's way to it; say with --address where clients \
                 reach it"
            )))
        }
        None => Ok(bound.to_string()),
    }
}

fn has_port(known: &str) -> bool {
    let ends_in_port = known.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    ends_in_port && (known.starts_with('[') || known.matches(':').count() == 1)
}

/// The host of what may have a port.
pub(crate) fn host_of(known: &str) -> &str {
    if has_port(known) { known.rsplit_once(':').map_or(known, |(host, _)| host) } else { known }
}

/// Bytes of files go to other machines encrypted, or not at all.
pub(crate) fn check_here(address: &str, has_tls: bool) -> Result<()> {
    match is_loopback(address) || has_tls {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{address} can be reached from other machines, and without TLS anybody between them reads the bytes of files: make \
             certificates (`forebay keys make DIR NAME`) and give --tls DIR, or listen at 127.0.0.1"
        ))),
    }
}

#[cfg(test)]
mod tests;
