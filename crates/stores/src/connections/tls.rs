//! TLS to a server: its options, its settings, and a stream that may be encrypted.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sessile_core::{Error, ErrorKind, Result};

use super::options::{Address, file};
use super::stream::Stream;
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const TLS: OptionHelp =
    option("tls", "1: encrypt, and accept only a server with a good certificate (default 0)");
pub const TLS_CA_FILE: OptionHelp =
    option("tls_ca_file", "PEM of the authority that signed the server (default: the system's)");
pub const TLS_CERT_FILE: OptionHelp =
    option("tls_cert_file", "PEM of a client certificate; needs tls_key_file");
pub const TLS_KEY_FILE: OptionHelp = option("tls_key_file", "PEM of the client's key");

/// A server that a URL names.
pub struct Host {
    pub address: Address,
    pub tls: Option<Tls>,
}

impl Host {
    /// All that the URL names: a primary and its standbys, of which any may be the primary one day.
    pub fn all(url: &StoreUrl, default_port: u16) -> Result<Vec<Host>> {
        let addresses = Address::all(url, default_port)?.into_iter();
        addresses.map(|address| Ok(Host { tls: Tls::if_wanted(url, &address)?, address })).collect()
    }
}

/// What TLS to one server needs.
#[derive(Clone)]
pub struct Tls {
    /// The name that the server must prove.
    server: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// If the option `tls` asks for it. `InvalidUrl` at a unix socket.
    pub fn if_wanted(url: &StoreUrl, address: &Address) -> Result<Option<Tls>> {
        match (url.switch(TLS.name)?, address) {
            (true, Address::Unix(_)) => {
                Err(invalid("a unix socket needs no TLS").advice("leave out tls"))
            }
            (true, Address::Tcp { host, .. }) => Tls::parse(url, host).map(Some),
            (false, _) => Tls::refuse(url, "write tls=1").map(|()| None),
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

    pub fn parse(url: &StoreUrl, host: &str) -> Result<Tls> {
        // Explicitly: with the features of two providers in one program, rustls refuses to choose.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("TLS cannot be set up").source(error))?
            .with_root_certificates(authorities(pem(url, TLS_CA_FILE.name)?)?);
        let mut config = match (pem(url, TLS_CERT_FILE.name)?, pem(url, TLS_KEY_FILE.name)?) {
            (None, None) => client.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(not_pem)?;
                client.with_client_auth_cert(certificates(&certificate)?, key).map_err(not_pem)?
            }
            _ => return Err(invalid("tls_cert_file and tls_key_file go together")),
        };
        // A cache of sessions is behind a mutex, which may be locked for ever in a child.
        config.resumption = Resumption::disabled();
        let server = server_name(host)?;
        Ok(Tls { server, config: Arc::new(config) })
    }

    /// With the same settings, to another server.
    pub fn to(&self, host: &str) -> Result<Tls> {
        Ok(Tls { server: server_name(host)?, config: Arc::clone(&self.config) })
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| invalid("the host is no name that a certificate could have"))
}

fn authorities(pem: Option<Vec<u8>>) -> Result<RootCertStore> {
    let trusted = match pem {
        Some(pem) => certificates(&pem)?,
        // Unreadable ones are passed over; without any, no server is trusted.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(trusted);
    if added == 0 {
        return Err(Error::new(ErrorKind::Denied, "there is no authority to trust")
            .advice("name one in tls_ca_file, or install the system's (package ca-certificates)"));
    }
    Ok(store)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<_, _>>().map_err(not_pem)
}

fn pem(url: &StoreUrl, name: &str) -> Result<Option<Vec<u8>>> {
    url.text(name).map(|path| file(path, name)).transpose()
}

fn not_pem(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    invalid("a TLS file is not usable PEM").advice("check the tls_ options").source(error)
}

/// A stream to a server, encrypted or not.
///
/// Invariant: dropping it sends nothing, no end of TLS either.
pub struct Channel {
    stream: Stream,
    tls: Option<Box<ClientConnection>>,
}

impl From<Stream> for Channel {
    fn from(stream: Stream) -> Channel {
        Channel { stream, tls: None }
    }
}

impl Channel {
    pub fn encrypt(&mut self, tls: &Tls) -> io::Result<()> {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.server.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut self.stream)?;
        }
        self.tls = Some(Box::new(connection));
        Ok(())
    }

    /// Of the server, if the channel is encrypted.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// See [`Stream::is_probe`].
    pub fn is_probe(&self) -> bool {
        self.stream.is_probe()
    }

    /// See [`Stream::set_deadline`].
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.stream.set_deadline(deadline);
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(buffer),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.write(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).flush(),
        }
    }
}
