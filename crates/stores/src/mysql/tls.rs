//! TLS, as far as the client crate lets it be set.
//!
//! The crate trusts the public authorities of Mozilla's list, which is built in, and those of one file besides. It reads
//! files by itself, with each connection; that they can be read is checked when the store is opened.

use std::borrow::Cow;
use std::path::PathBuf;

use mysql::{ClientIdentity, SslOpts};
use sessile_core::Result;

use crate::connecting::{self, TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE, TlsFiles};
use crate::store_url::StoreUrl;

/// # Errors
///
/// `InvalidUrl` for a certificate without its key, `Denied` for a file that cannot be read.
pub(super) fn settings(url: &StoreUrl) -> Result<SslOpts> {
    connecting::install_tls_provider();
    TlsFiles::parse(url)?;
    let path = |name: &str| url.text(name).map(|path| Cow::Owned(PathBuf::from(path)));
    let identity = path(TLS_CERT_FILE.name).zip(path(TLS_KEY_FILE.name));
    let identity = identity.map(|(certificate, key)| ClientIdentity::new(certificate, key));
    Ok(SslOpts::default().with_root_cert_path(path(TLS_CA_FILE.name)).with_client_identity(identity))
}
