//! From a store URL to connection settings.
//!
//! Invariant: a password leaves this module only inside the client crate's own type; no error
//! repeats it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use mysql::consts::CapabilityFlags;
use mysql::{ClientIdentity, Opts, OptsBuilder, SslOpts};
use sessile_core::Result;

use crate::connections::options::{
    Address, CONNECT_TIMEOUT_MS, DATABASE, Login, PASSWORD_FILE, RESPONSE_TIMEOUT_MS, Timeouts,
    USER, database,
};
use crate::connections::tls::{
    TLS, TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE, TlsFiles, install_tls_provider,
};
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    option("table", "name of the table (default sessile_session)"),
    USER,
    PASSWORD_FILE,
    DATABASE,
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
    TLS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
];

const NAME_BYTES_MAX: usize = 64;
/// What the client crate may send and receive in one packet. The limit that the server tells is
/// smaller.
const PACKET_BYTES_MAX: usize = 1 << 30;

pub struct Options {
    settings: OptsBuilder,
    pub timeouts: Timeouts,
    pub(super) database: String,
    pub table: String,
}

impl Options {
    pub fn parse(url: &StoreUrl) -> Result<Options> {
        let timeouts = Timeouts::parse(url)?;
        let (database, table) = (database_name(url)?, table(url)?);
        let Login { user, password } = Login::parse(url)?;
        let about = HashMap::from([("program_name".to_owned(), "sessile".to_owned())]);
        let settings = OptsBuilder::new()
            .user(user)
            .pass(password)
            .db_name(Some(database.clone()))
            // The client would ask the server for its socket, on every connection.
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            // An update that changes nothing counts as one.
            .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
            .connect_attrs(Some(about))
            .write_timeout(Some(timeouts.response))
            .tcp_connect_timeout(Some(timeouts.connect));
        let settings = match Address::parse(url, 3_306)? {
            Address::Unix(path) => match path.into_os_string().into_string() {
                Ok(path) => settings.socket(Some(path)),
                Err(_) => return Err(invalid("the path of the socket is not UTF-8")),
            },
            Address::Tcp { host, port } => settings.ip_or_hostname(Some(host)).tcp_port(port),
        };
        let tls = TlsFiles::if_wanted(url)?.map(|_| tls(url));
        Ok(Options { settings: settings.ssl_opts(tls), timeouts, database, table })
    }

    pub fn answering_within(&self, response: Duration) -> Opts {
        self.settings.clone().read_timeout(Some(response)).into()
    }
}

fn database_name(url: &StoreUrl) -> Result<String> {
    let name = database(url, "mysql")?;
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(['/', '\0']) {
        return Err(invalid("the URL names no database").advice(
            "write mysql://user:password@host/database, or \
                     mysql+unix:/path?user=USER&database=NAME",
        ));
    }
    Ok(name)
}

/// It stands in every statement, so it is a word.
fn table(url: &StoreUrl) -> Result<String> {
    let name = url.text("table").unwrap_or("sessile_session");
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(word) {
        return Err(invalid("option table must be 1 to 64 characters of A-Z a-z 0-9 _"));
    }
    Ok(name.to_owned())
}

/// As far as the client crate lets it be set. It trusts Mozilla's list of authorities, which is
/// built in, and those of one file. It reads files with each connection; that they can be read was
/// checked when the store was opened.
fn tls(url: &StoreUrl) -> SslOpts {
    install_tls_provider();
    let path = |name: &str| url.text(name).map(|path| Cow::Owned(PathBuf::from(path)));
    let identity = path(TLS_CERT_FILE.name).zip(path(TLS_KEY_FILE.name));
    let identity = identity.map(|(certificate, key)| ClientIdentity::new(certificate, key));
    SslOpts::default().with_root_cert_path(path(TLS_CA_FILE.name)).with_client_identity(identity)
}

#[cfg(test)]
mod tests {
    use sessile_core::ErrorKind;

    use super::*;

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "mysql://u:s3cret@host",
            "mysql://u:s3cret@host/",
            "mysql://u:s3cret@host/a/b",
            "mysql://u:s3cret@host/shop?database=shop",
            "mysql://u:s3cret@host/shop?user=u",
            "mysql://u:s3cret@host/shop?table=a%60b",
            "mysql://u:s3cret@host/shop?table=",
            "mysql://u:s3cret@host/shop?password_file=/dev/null",
            "mysql://u:s3cret@host/shop?tls_ca_file=/dev/null",
            "mysql://u:s3cret@host/shop?tls=maybe",
            "mysql://u:s3cret@host/shop?tls=1&tls_ca_file=/nowhere/ca.pem",
            "mysql://u:s3cret@host/shop?connect_timeout_ms=0",
            "mysql:///shop",
            "mysql+unix:/run/socket?user=u",
            "mysql+unix:/run/socket?user=u&database=shop&tls=1",
            "mysql+unix:relative?user=u&database=shop",
        ] {
            let error = StoreUrl::parse(url).and_then(|url| Options::parse(&url)).err().expect(url);
            assert!(
                matches!(error.kind(), ErrorKind::InvalidUrl | ErrorKind::Denied),
                "{url}: {error:?}"
            );
            assert!(!format!("{error:#}").contains("s3cret"), "{url}");
        }
    }

    #[test]
    fn what_a_url_says_reaches_the_client() {
        let parse = |url: &str| Options::parse(&StoreUrl::parse(url).unwrap()).unwrap();
        let options =
            parse("mariadb://sh%40op:p%2Fss@[::1]:3307/my%20shop?table=t1&response_timeout_ms=700");
        let opts = options.answering_within(Duration::from_millis(900));
        assert_eq!((opts.get_user(), opts.get_pass()), (Some("sh@op"), Some("p/ss")));
        assert_eq!((opts.get_ip_or_hostname().as_ref(), opts.get_tcp_port()), ("::1", 3_307));
        assert_eq!((opts.get_db_name(), options.table.as_str()), (Some("my shop"), "t1"));
        assert_eq!(opts.get_read_timeout(), Some(&Duration::from_millis(900)));
        assert_eq!(opts.get_write_timeout(), Some(&Duration::from_millis(700)));
        let options = parse("mysql+unix:/run/my%20socket?user=shop&database=d");
        let opts = options.answering_within(Duration::from_secs(1));
        assert_eq!(
            (opts.get_socket(), opts.get_user(), opts.get_pass()),
            (Some("/run/my socket"), Some("shop"), None)
        );
    }
}
