//! TLS, from files: by rustls, with the cryptography of AWS-LC. Where it may be missing is said here too.

use forebay_env::real::file;
use forebay_model::{Error, Result};
use forebay_wire::source::TLS_ALERT;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long it is tried to find out whether somebody speaks TLS.
const ASKING: Duration = Duration::from_secs(1);

/// What a server shows.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// A file with its certificates, its own first: PEM.
    pub certificate: PathBuf,
    /// A file with the private key of the first: PEM.
    pub key: PathBuf,
}

/// Whom a client trusts.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// A file with the certificates of those who may vouch for the manager: PEM.
    pub authority: PathBuf,
    /// The name in the manager's certificate, if not that of its address.
    pub name: Option<String>,
}

impl ServerTls {
    pub(crate) fn config(&self) -> Result<ServerTlsConfig> {
        let identity = Identity::from_pem(file::read(&self.certificate)?, file::read(&self.key)?);
        Ok(ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE))
    }

    /// Why there is no TLS with these files.
    pub(crate) fn refused(&self, error: &tonic::transport::Error) -> Error {
        Error::usage(format!(
            "{} and {} are no certificate and its key: {}; give both as PEM",
            self.certificate.display(),
            self.key.display(),
            causes(error)
        ))
    }
}

impl ClientTls {
    pub(crate) fn config(&self) -> Result<ClientTlsConfig> {
        let authority = Certificate::from_pem(file::read(&self.authority)?);
        let config = ClientTlsConfig::new().ca_certificate(authority).timeout(HANDSHAKE);
        Ok(match &self.name {
            Some(name) => config.domain_name(name),
            None => config,
        })
    }

    /// Why there is no TLS with this file.
    pub(crate) fn refused(&self, error: &tonic::transport::Error) -> Error {
        let causes = causes(error);
        Error::usage(format!("{} holds no certificates to trust: {causes}; give PEM", self.authority.display()))
    }
}

/// Whether an address, `host:port`, is of this machine alone.
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether who listens at an address answers what is none with an alert of TLS.
pub(crate) async fn speaks_tls(address: &str) -> bool {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&[0; 16]).await?;
        let mut said = [0; 2];
        stream.read_exact(&mut said).await?;
        std::io::Result::Ok(said == TLS_ALERT)
    };
    matches!(tokio::time::timeout(ASKING, asking).await, Ok(Ok(true)))
}

/// What went wrong, and why, and why that.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_says = cause.to_string();
        if !text.ends_with(&cause_says) {
            text = format!("{text}: {cause_says}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
