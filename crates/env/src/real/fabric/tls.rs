//! TLS over TCP: who listens shows a certificate, who connects trusts an authority. By rustls, with the cryptography of
//! AWS-LC, and TLS 1.3 alone.
//!
//! Always: nothing is sent or taken before the handshake has ended well. It takes place when the connection is first used, so
//! that whoever hangs in it holds up nobody else; what is wrong is said then, as an [`Error`] inside the error of that use.

mod session;

pub(super) use session::duplex;

use crate::real::file;
use forebay_model::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// With what connections are made secret; without anything they are bare TCP.
#[derive(Clone, Default)]
pub struct Tls {
    shown: Option<Arc<ServerConfig>>,
    /// The certificate in it.
    own: Option<CertificateDer<'static>>,
    trusted: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Doors show this certificate: two files of PEM, the certificates with its own first, and the private key of that.
    pub fn showing(self, certificate: &Path, key: &Path) -> Result<Tls> {
        let bad = |why: String| {
            let (certificate, key) = (certificate.display(), key.display());
            Error::usage(format!("{certificate} and {key} are no certificate and its key: {why}; give both as PEM"))
        };
        let chain = certificates(certificate)?;
        let own = chain.first().cloned();
        let key = PrivateKeyDer::from_pem_slice(&file::read(key)?).map_err(|error| bad(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| bad(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.map_err(|error| bad(error.to_string()))?;
        // A ticket that its client never reads would end the connection with a reset.
        config.send_tls13_tickets = 0;
        Ok(Tls { shown: Some(Arc::new(config)), own, ..self })
    }

    /// Connections are made to those alone for whom an authority vouches: a file of PEM with the certificates of such.
    pub fn trusting(self, authority: &Path) -> Result<Tls> {
        let bad = |why: String| {
            Error::usage(format!("{} holds no certificates to trust: {why}; give PEM", authority.display()))
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| bad(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Tls { trusted: Some(Arc::new(config)), ..self })
    }

    /// Whether those who reach a door at `address`, `host:port`, find that name in the certificate that it shows.
    /// [`forebay_model::Kind::Usage`] if not.
    pub fn check_name(&self, address: &str) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let name = name_of(address)?;
        let parsed = rustls::server::ParsedCertificate::try_from(own);
        let found = parsed.and_then(|own| rustls::client::verify_server_name(&own, &name));
        found.map_err(|error| {
            Error::usage(format!(
                "clients reach this at {address}, for which its certificate is not made; make one with that name (`forebay keys \
                 make`): {error}"
            ))
        })
    }

    pub(super) fn shown(&self) -> Option<Arc<ServerConfig>> {
        self.shown.clone()
    }

    pub(super) fn trusted(&self) -> Option<Arc<ClientConfig>> {
        self.trusted.clone()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bad = |why: String| Error::usage(format!("{} holds no certificate: {why}; give PEM", path.display()));
    let text = file::read(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| bad(error.to_string()))?;
    if found.is_empty() {
        return Err(bad("there is none in it".to_string()));
    }
    Ok(found)
}

/// The name in `host:port` that has to be in the certificate.
pub(super) fn name_of(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_string())
        .map_err(|_| Error::usage(format!("{host} is no name that a certificate could have; reach it by another one")))
}

/// What is wrong with TLS, somewhere among the causes of an error; nothing if it is something else.
pub fn trouble(error: &(dyn std::error::Error + 'static), peer: &str) -> Option<Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        // An error of I/O names as its cause that of what is in it, and not that itself.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(tls) = cause.downcast_ref::<rustls::Error>().or(inner) {
            return explain(tls, peer);
        }
        next = cause.source();
    }
    None
}

/// What a failed handshake or connection means for whoever is at this end; nothing if TLS has nothing to do with it.
fn explain(error: &rustls::Error, peer: &str) -> Option<Error> {
    Some(match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Error::stale(format!(
                "the certificate of {peer} has run out; have another one made (`forebay keys make`), and that served"
            )),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Error::stale(format!("the certificate of {peer} is not valid yet; compare the clocks of both machines"))
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Error::forbidden(format!(
                    "the certificate of {peer} is for other names: reach it by one of those, or have one made with this name \
                     (`forebay keys make`): {why}"
                ))
            }
            why => Error::forbidden(format!(
                "the authority that was given does not vouch for {peer}: give the authority.pem of that cluster, and if it is, \
                 somebody is in between ({why})"
            )),
        },
        rustls::Error::InvalidMessage(_) => Error::usage(format!(
            "{peer} does not speak TLS, or not ours: check the address; for a cluster without TLS name no authority (--ca)"
        )),
        rustls::Error::PeerIncompatible(why) => {
            Error::version(format!("{peer} speaks another TLS than 1.3 ({why:?}); use the same version on both sides"))
        }
        rustls::Error::AlertReceived(alert) => {
            Error::disconnected(format!("{peer} did not go on with TLS ({alert:?}); there it is said why"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
