//! Certificates for the processes of a cluster, and the authority that vouches for them: made here, without anybody else.

use crate::tls::{AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY};
use forebay_env::real::{clock, file};
use forebay_model::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::path::Path;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long an authority vouches.
const AUTHORITY_LASTS: u32 = 3650;
/// What an authority that was made here is called.
const AUTHORITY_NAME: &str = "Forebay authority";

/// What is made.
#[derive(Debug, Clone)]
pub struct MakeOptions {
    /// The names and addresses by which clients reach whoever shows it.
    pub names: Vec<String>,
    /// For how many days.
    pub days: u32,
}

/// Makes a certificate in `dir`, in place of one that may be there, for which the authority in `authority` vouches, and that
/// too if it is not there: true then.
pub fn make(dir: &Path, authority: &Path, options: &MakeOptions) -> Result<bool> {
    for place in [dir, authority] {
        if !file::exists(place) {
            file::make_directory(place)?;
        }
    }
    let is_new = !file::exists(authority.join(AUTHORITY));
    if is_new {
        make_authority(authority)?;
    }
    let key = read_key(&authority.join(AUTHORITY_KEY))
        .map_err(|error| error.of("certificates are made where the authority's private key is"))?;
    let issuer = Issuer::new(authority_params(), key);
    let mut params = CertificateParams::new(options.names.clone()).map_err(|error| {
        let names = options.names.join(", ");
        Error::usage(format!("nothing is called {names}: {error}; give names like node.example or 10.0.0.7"))
    })?;
    params.distinguished_name = named(options.names.first().map_or("forebay", String::as_str));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    lasts(&mut params, options.days);
    let own = KeyPair::generate().map_err(|error| trouble("making a key", &error))?;
    let certificate = params.signed_by(&own, &issuer).map_err(|error| trouble("signing a certificate", &error))?;
    file::remove(dir.join(KEY))?;
    file::create_secret(dir.join(KEY), own.serialize_pem().as_bytes())?;
    file::replace(dir.join(CERTIFICATE), certificate.pem().as_bytes())?;
    let trusted = file::read(authority.join(AUTHORITY))?;
    if !file::exists(dir.join(AUTHORITY)) || file::read(dir.join(AUTHORITY))? != trusted {
        file::replace(dir.join(AUTHORITY), &trusted)?;
    }
    Ok(is_new)
}

fn make_authority(dir: &Path) -> Result<()> {
    let mut params = authority_params();
    lasts(&mut params, AUTHORITY_LASTS);
    let path = dir.join(AUTHORITY_KEY);
    // One without a certificate is left of an attempt that did not come to its end.
    let key = match file::exists(&path) {
        true => read_key(&path)?,
        false => {
            let key = KeyPair::generate().map_err(|error| trouble("making a key", &error))?;
            file::create_secret(&path, key.serialize_pem().as_bytes())?;
            key
        }
    };
    let certificate = params.self_signed(&key).map_err(|error| trouble("signing a certificate", &error))?;
    file::replace(dir.join(AUTHORITY), certificate.pem().as_bytes())
}

fn read_key(path: &Path) -> Result<KeyPair> {
    KeyPair::from_pem(&file::read_text(path)?).map_err(|error| {
        Error::damaged(format!(
            "{} is no private key: {error}; restore it, or remove it and {AUTHORITY} beside it to make another authority",
            path.display()
        ))
    })
}

/// The same each time but for the key, so that certificates are signed without reading the authority's own.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// From yesterday on, so that clocks need not agree to the second.
fn lasts(params: &mut CertificateParams, days: u32) {
    let now = date_time_ymd(1970, 1, 1) + Duration::from_nanos(u64::try_from(clock::wall().0).unwrap_or(0));
    params.not_before = now - DAY;
    params.not_after = now + DAY * days;
}

fn trouble(doing: &str, error: &rcgen::Error) -> Error {
    Error::refused(format!("{doing} failed: {error}; look whether this machine has random numbers, and try again"))
}

#[cfg(test)]
mod tests;
