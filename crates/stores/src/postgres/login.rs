//! The login on a new connection.
//!
//! Source: PostgreSQL's documentation, "Message Flow", Start-up and "SASL Authentication".
//! `postgres-protocol` computes the proofs.
//!
//! Invariants: the password itself is sent only over TLS, to a unix socket, or because the URL says
//! so: whoever answers at the port may ask for it in clear; no error repeats it.

use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::CertificateDer;
use sessile_core::{Error, ErrorKind};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, SHA_1_WITH_RSA_ENCRYPTION,
    SHA_256_WITH_RSA_ENCRYPTION, SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
};

use super::failure::{Attempt, PostgresFailure, unexpected};
use super::options::Options;
use super::wire::Wire;

impl Wire {
    pub fn log_in(&mut self, options: &Options) -> Attempt<()> {
        let name = Options::name_of_this_process();
        let database = options.database.as_deref().map(|database| ("database", database));
        let words =
            [("client_encoding", "UTF8"), ("user", &options.user), ("application_name", &name)];
        let words = words.into_iter().chain(database);
        let asked = self.ask(|out| frontend::startup_message(words, out))?;
        let accepted = match asked {
            Message::AuthenticationOk => asked,
            Message::AuthenticationCleartextPassword => {
                let text = password(options)?;
                if !options.may_tell_password {
                    return Err(in_clear());
                }
                self.ask(|out| frontend::password_message(text, out))?
            }
            Message::AuthenticationMd5Password(asked) => {
                let hash = md5_hash(options.user.as_bytes(), password(options)?, asked.salt());
                self.ask(|out| frontend::password_message(hash.as_bytes(), out))?
            }
            Message::AuthenticationSasl(asked) => self.prove(&asked, options)?,
            _ => return Err(unknown_method()),
        };
        if !matches!(accepted, Message::AuthenticationOk) {
            return Err(unexpected());
        }
        loop {
            match self.answer()? {
                Message::BackendKeyData(_) => {}
                Message::ReadyForQuery(_) => {
                    self.allow_payloads();
                    return Ok(());
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// Each side proves to the other that it knows the password.
    fn prove(&mut self, asked: &AuthenticationSaslBody, options: &Options) -> Attempt<Message> {
        let offered: Vec<&str> = asked.mechanisms().collect()?;
        let bound =
            self.certificate().and_then(end_point).map(ChannelBinding::tls_server_end_point);
        let (binding, mechanism) = match bound {
            Some(binding) if offered.contains(&SCRAM_SHA_256_PLUS) => (binding, SCRAM_SHA_256_PLUS),
            _ if !offered.contains(&SCRAM_SHA_256) => return Err(unknown_method()),
            // Tells the server that binding was possible, so that nobody in between can have
            // removed the better offer.
            Some(_) => (ChannelBinding::unrequested(), SCRAM_SHA_256),
            None => (ChannelBinding::unsupported(), SCRAM_SHA_256),
        };
        let mut scram = ScramSha256::new(password(options)?, binding);
        let first =
            |out: &mut BytesMut| frontend::sasl_initial_response(mechanism, scram.message(), out);
        let Message::AuthenticationSaslContinue(challenge) = self.ask(first)? else {
            return Err(unexpected());
        };
        scram.update(challenge.data()).map_err(PostgresFailure::no_login)?;
        let proof = |out: &mut BytesMut| frontend::sasl_response(scram.message(), out);
        let Message::AuthenticationSaslFinal(proof) = self.ask(proof)? else {
            return Err(unexpected());
        };
        scram.finish(proof.data()).map_err(PostgresFailure::no_login)?;
        self.answer()
    }

    fn ask(&mut self, encode: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Attempt<Message> {
        encode(&mut self.out)?;
        self.send()?;
        self.answer()
    }

    fn answer(&mut self) -> Attempt<Message> {
        match self.next()? {
            Message::ErrorResponse(refusal) => Err(PostgresFailure::said(&refusal)),
            answer => Ok(answer),
        }
    }
}

fn unknown_method() -> PostgresFailure {
    PostgresFailure::no_login("unknown method of authentication")
}

fn in_clear() -> PostgresFailure {
    Error::new(ErrorKind::Denied, "the server asks for the password in clear, without TLS")
        .advice(
            "write scram-sha-256 for password in pg_hba.conf, or tls=1 into the URL; with \
             clear_password=1 everybody on the way can read the password",
        )
        .into()
}

fn password(options: &Options) -> Attempt<&[u8]> {
    let password = options.password.as_ref().map(String::as_bytes);
    password.ok_or_else(|| {
        Error::new(ErrorKind::Denied, "the server asks for a password")
            .advice("add the password to the URL, or password_file=/path")
            .into()
    })
}

/// The digest of the server's certificate that binds a login to its TLS (RFC 5929,
/// "tls-server-end-point"), with the hash of its signature, or a better one. `None` for signatures
/// without a hash of their own.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    match Certificate::from_der(certificate).ok()?.signature_algorithm.oid {
        SHA_1_WITH_RSA_ENCRYPTION | SHA_256_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_256 => {
            Some(Sha256::digest(certificate).to_vec())
        }
        SHA_384_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_384 => {
            Some(Sha384::digest(certificate).to_vec())
        }
        SHA_512_WITH_RSA_ENCRYPTION | ECDSA_WITH_SHA_512 => {
            Some(Sha512::digest(certificate).to_vec())
        }
        _ => None,
    }
}
