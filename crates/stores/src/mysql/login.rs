//! The login on a new connection.
//!
//! Source: MariaDB's documentation, "Connection"; MySQL's, "Caching SHA-2 Pluggable
//! Authentication". `mysql_common` computes the proofs.
//!
//! Invariants: the password itself is sent only over TLS, to a unix socket, or because the URL says
//! so: without TLS the key that encrypts it comes from whatever answers at the port; no error
//! repeats it.

use std::collections::HashMap;

use mysql_common::collations::CollationId;
use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};
use mysql_common::packets::{
    AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest,
};
use sessile_core::{Error, ErrorKind};

use super::failure::{Attempt, MysqlFailure};
use super::options::Options;
use super::public_key::encrypt;
use super::wire::{Wire, parse};
use crate::connections::options::Address;
use crate::connections::tls::Host;

const WANTED: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_CONNECT_WITH_DB)
    .union(CapabilityFlags::CLIENT_CONNECT_ATTRS)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_MULTI_STATEMENTS)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    // An update that changes nothing counts as one.
    .union(CapabilityFlags::CLIENT_FOUND_ROWS);

const PACKET_BYTES_MAX: u32 = 1 << 30;
/// Any from 5.5 on: the collation of the login is chosen by it.
const VERSION: (u16, u16, u16) = (10, 0, 0);

impl Wire {
    pub(super) fn log_in(&mut self, options: &Options, host: &Host) -> Attempt<()> {
        let greeting = self.next()?.to_vec();
        let greeting: HandshakePacket<'_> = parse(&greeting, ())?;
        let offered = greeting.capabilities();
        if greeting.protocol_version() != 10
            || !offered.contains(CapabilityFlags::CLIENT_PROTOCOL_41)
        {
            return Err(MysqlFailure::Garbled);
        }
        self.capabilities = WANTED & offered;
        // MariaDB says so by not offering what every server has.
        if !offered.contains(CapabilityFlags::CLIENT_LONG_PASSWORD) {
            self.extensions = greeting.mariadb_ext_capabilities()
                & MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA;
        }
        if let Some(tls) = &host.tls {
            if !offered.contains(CapabilityFlags::CLIENT_SSL) {
                let why = "the server offers no TLS";
                return Err(denied(why, "give it a certificate, or leave out tls=1"));
            }
            self.capabilities |= CapabilityFlags::CLIENT_SSL;
            let collation = CollationId::UTF8MB4_GENERAL_CI as u8;
            self.send_struct(&SslRequest::new(self.capabilities, PACKET_BYTES_MAX, collation))?;
            self.encrypt(tls)?;
        }
        self.authenticate(&greeting, options, host)?;
        self.number = greeting.connection_id();
        self.allow_payloads();
        Ok(())
    }

    fn authenticate(
        &mut self,
        greeting: &HandshakePacket<'_>,
        options: &Options,
        host: &Host,
    ) -> Attempt<()> {
        let password = options.password.as_deref();
        let mut nonce = greeting.nonce();
        let mut method = match greeting.auth_plugin() {
            Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
            _ => AuthPlugin::MysqlNativePassword,
        };
        let proof = method.gen_data(password, &nonce);
        let about = HashMap::from([("program_name".to_owned(), "sessile".to_owned())]);
        let response = HandshakeResponse::new(
            proof.as_deref(),
            VERSION,
            options.user.as_deref().map(str::as_bytes),
            Some(options.database.as_bytes()),
            Some(method.borrow()),
            self.capabilities,
            Some(about),
            PACKET_BYTES_MAX,
        );
        self.send_struct(&response.with_mariadb_ext_capabilities(self.extensions))?;
        let mut switched = false;
        loop {
            let packet = self.next()?.to_vec();
            match packet.as_slice() {
                [0x00, ..] => return Ok(()),
                [0xfe, _, ..] if !switched => {
                    let asked: AuthSwitchRequest<'_> = parse(&packet, ())?;
                    method = asked.auth_plugin().into_owned();
                    if !matches!(
                        method,
                        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password
                    ) {
                        return Err(unknown_method());
                    }
                    nonce = asked.plugin_data().to_vec();
                    let proof = method.gen_data(password, &nonce);
                    self.send(&mut proof.as_deref().unwrap_or_default())?;
                    switched = true;
                }
                // The server remembers the password.
                [0x01, 0x03] if method == AuthPlugin::CachingSha2Password => {}
                [0x01, 0x04] if method == AuthPlugin::CachingSha2Password => {
                    self.send_password(&nonce, options, host)?;
                }
                _ => return Err(unknown_method()),
            }
        }
    }

    /// A server takes it in clear over TLS and at a unix socket, and encrypted elsewhere.
    fn send_password(&mut self, nonce: &[u8], options: &Options, host: &Host) -> Attempt<()> {
        if !options.may_tell_password {
            return Err(untrusted());
        }
        let password = options.password.as_deref().unwrap_or_default();
        let mut password = [password.as_bytes(), &[0]].concat();
        let is_private = host.tls.is_some() || matches!(host.address, Address::Unix(_));
        if !is_private {
            self.send(&mut [0x02].as_slice())?;
            let key = self.next()?.get(1..).unwrap_or_default();
            let mask = nonce.iter().cycle();
            password.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
            password = encrypt(&password, key).ok_or_else(unusable_key)?;
        }
        self.send(&mut password.as_slice())
    }
}

fn untrusted() -> MysqlFailure {
    denied(
        "the server asks for the password itself, without TLS",
        "write tls=1 into the URL or connect to the unix socket; with clear_password=1 whatever \
         answers at the port can read the password",
    )
}

fn unusable_key() -> MysqlFailure {
    denied(
        "the server's public key cannot encrypt the password",
        "write tls=1 into the URL, or give the server an RSA key of 2048 bits, which take \
         passwords of up to 213 bytes",
    )
}

fn unknown_method() -> MysqlFailure {
    denied(
        "the server asks for a way to log in that the client does not know",
        "give the user a password by mysql_native_password or caching_sha2_password",
    )
}

fn denied(why: &'static str, advice: &'static str) -> MysqlFailure {
    Error::new(ErrorKind::Denied, why).advice(advice).into()
}
