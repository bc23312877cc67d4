//! The first words on a connection: who we are, and the proof of it.
//!
//! Source: PostgreSQL's documentation, "Message Flow", Start-up and "SASL Authentication". The proofs are computed by
//! `postgres-protocol`.
//!
//! Invariants: the server never sees the password but where it insists on it in clear or as MD5, which its operator has
//! chosen; no error repeats it.

use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, SHA_1_WITH_RSA_ENCRYPTION, SHA_256_WITH_RSA_ENCRYPTION,
    SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
};

use super::failure::{Failure, Tried};
use super::options::Options;
use super::wire::Wire;

impl Wire {
    /// Logs in. When it returns, the server waits for statements.
    pub fn log_in(&mut self, options: &Options) -> Tried<()> {
        let name = Options::name_of_this_process();
        let database = options.database.as_deref().map(|database| ("database", database));
        let words = [("client_encoding", "UTF8"), ("user", &options.user), ("application_name", &name)];
        frontend::startup_message(words.into_iter().chain(database), &mut self.out).map_err(Failure::garbled)?;
        self.send(options.timeouts.response)?;
        match self.next()? {
            Message::AuthenticationOk => return self.ready(),
            Message::AuthenticationCleartextPassword => {
                let password = password(options)?;
                frontend::password_message(password, &mut self.out).map_err(Failure::garbled)?;
                self.send(options.timeouts.response)?;
            }
            Message::AuthenticationMd5Password(asked) => {
                let hash = md5_hash(options.user.as_bytes(), password(options)?, asked.salt());
                frontend::password_message(hash.as_bytes(), &mut self.out).map_err(Failure::garbled)?;
                self.send(options.timeouts.response)?;
            }
            Message::AuthenticationSasl(asked) => self.prove(&asked, options)?,
            Message::ErrorResponse(refusal) => return Err(Failure::said(&refusal)),
            _ => return Err(Failure::Client("unknown method of authentication".to_owned())),
        }
        match self.next()? {
            Message::AuthenticationOk => self.ready(),
            Message::ErrorResponse(refusal) => Err(Failure::said(&refusal)),
            _ => Err(Failure::unexpected()),
        }
    }

    /// Proves that we know the password, and has the server prove that it knows it too.
    fn prove(&mut self, asked: &AuthenticationSaslBody, options: &Options) -> Tried<()> {
        let offered: Vec<&str> = asked.mechanisms().collect().map_err(Failure::garbled)?;
        let bound = self.certificate().and_then(end_point).map(ChannelBinding::tls_server_end_point);
        let (binding, mechanism) = match bound {
            Some(binding) if offered.contains(&SCRAM_SHA_256_PLUS) => (binding, SCRAM_SHA_256_PLUS),
            // Tells the server that we could have, so that nobody in between can have left the better offer out.
            Some(_) if offered.contains(&SCRAM_SHA_256) => (ChannelBinding::unrequested(), SCRAM_SHA_256),
            None if offered.contains(&SCRAM_SHA_256) => (ChannelBinding::unsupported(), SCRAM_SHA_256),
            _ => return Err(Failure::Client("unknown method of authentication".to_owned())),
        };
        let mut scram = ScramSha256::new(password(options)?, binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut self.out).map_err(Failure::garbled)?;
        self.send(options.timeouts.response)?;
        let failed = |error: std::io::Error| Failure::Client(format!("authentication: {error}"));
        match self.next()? {
            Message::AuthenticationSaslContinue(challenge) => scram.update(challenge.data()).map_err(failed)?,
            Message::ErrorResponse(refusal) => return Err(Failure::said(&refusal)),
            _ => return Err(Failure::unexpected()),
        }
        frontend::sasl_response(scram.message(), &mut self.out).map_err(Failure::garbled)?;
        self.send(options.timeouts.response)?;
        match self.next()? {
            Message::AuthenticationSaslFinal(proof) => scram.finish(proof.data()).map_err(failed),
            Message::ErrorResponse(refusal) => Err(Failure::said(&refusal)),
            _ => Err(Failure::unexpected()),
        }
    }

    /// What the server says of itself before it waits for statements.
    fn ready(&mut self) -> Tried<()> {
        loop {
            match self.next()? {
                Message::ReadyForQuery(_) => {
                    self.let_in();
                    return Ok(());
                }
                Message::BackendKeyData(_) => {}
                Message::ErrorResponse(refusal) => return Err(Failure::said(&refusal)),
                _ => return Err(Failure::unexpected()),
            }
        }
    }
}

fn password(options: &Options) -> Tried<&[u8]> {
    let password = options.password.as_ref().map(String::as_bytes);
    password.ok_or_else(|| Failure::Client("password missing".to_owned()))
}

/// The digest of the server's certificate that binds a login to its TLS (RFC 5929, "tls-server-end-point"): with the hash of
/// its signature, or a better one. `None` for signatures without a hash of their own.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    match Certificate::from_der(certificate).ok()?.signature_algorithm.oid {
        SHA_1_WITH_RSA_ENCRYPTION | SHA_256_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_256 => {
            Some(Sha256::digest(certificate).to_vec())
        }
        SHA_384_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_384 => Some(Sha384::digest(certificate).to_vec()),
        SHA_512_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_512 => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}
