//! TLS to a server: its options and files, and the provider.

use sessile_core::{Error, Result};

use super::options::{file, is_unix};
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const TLS: OptionHelp =
    option("tls", "1: encrypt, and accept only a server with a good certificate (default 0)");
pub const TLS_CA_FILE: OptionHelp =
    option("tls_ca_file", "PEM of the authority that signed the server (default: the system's)");
pub const TLS_CERT_FILE: OptionHelp =
    option("tls_cert_file", "PEM of a client certificate; needs tls_key_file");
pub const TLS_KEY_FILE: OptionHelp = option("tls_key_file", "PEM of the client's key");

/// The certificates of a TLS connection, in PEM.
pub struct TlsFiles {
    /// The trusted authorities; the system's if `None`.
    pub authority: Option<Vec<u8>>,
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsFiles {
    pub fn parse(url: &StoreUrl) -> Result<TlsFiles> {
        let client = match (pem(url, TLS_CERT_FILE.name)?, pem(url, TLS_KEY_FILE.name)?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(invalid("tls_cert_file and tls_key_file go together")),
        };
        Ok(TlsFiles { authority: pem(url, TLS_CA_FILE.name)?, client })
    }

    /// Those of a connection for which the option `tls` asks. `InvalidUrl` at a unix socket.
    pub fn if_wanted(url: &StoreUrl) -> Result<Option<TlsFiles>> {
        match (url.switch(TLS.name)?, is_unix(url)) {
            (true, true) => Err(invalid("a unix socket needs no TLS").advice("leave out tls")),
            (true, false) => TlsFiles::parse(url).map(Some),
            (false, _) => TlsFiles::refuse(url, "write tls=1").map(|()| None),
        }
    }

    /// `InvalidUrl` for options on a connection without TLS; `advice` says how to ask for it.
    pub fn refuse(url: &StoreUrl, advice: &'static str) -> Result<()> {
        let options = [TLS_CA_FILE.name, TLS_CERT_FILE.name, TLS_KEY_FILE.name];
        match options.into_iter().find(|name| url.text(name).is_some()) {
            Some(name) => Err(invalid(format!("option {name} needs TLS")).advice(advice)),
            None => Ok(()),
        }
    }
}

/// Chooses the TLS provider explicitly: with the features of two providers in one program, rustls
/// refuses to choose. A provider that the program has installed stays.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn pem(url: &StoreUrl, name: &str) -> Result<Option<Vec<u8>>> {
    url.text(name).map(|path| file(path, name)).transpose()
}

pub fn not_pem(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    invalid("a TLS file is not usable PEM").advice("check the tls_ options").source(error)
}
