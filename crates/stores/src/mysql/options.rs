//! From a store URL to connection settings.
//!
//! Invariant: no error repeats a password, and nothing here prints it.

use sessile_core::Result;

use crate::connections::hosts::Hosts;
use crate::connections::options::{
    CLEAR_PASSWORD, CONNECT_TIMEOUT_MS, DATABASE, Login, PASSWORD_FILE, RESPONSE_TIMEOUT_MS,
    Timeouts, USER, database, is_unix,
};
use crate::connections::tls::{Host, TLS, TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE};
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    option("table", "name of the table (default sessile_session)"),
    USER,
    PASSWORD_FILE,
    DATABASE,
    CLEAR_PASSWORD,
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
    TLS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
];

const DEFAULT_PORT: u16 = 3_306;
const NAME_BYTES_MAX: usize = 64;

/// Settings of one opened store. Without `Debug`, which would print the password.
pub struct Options {
    pub hosts: Hosts<Host>,
    pub timeouts: Timeouts,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// Whether the password itself may be sent: over TLS, to a unix socket, or because the URL says
    /// so.
    pub(super) may_tell_password: bool,
    pub(super) database: String,
    pub(super) table: String,
}

impl Options {
    pub fn parse(url: &StoreUrl) -> Result<Options> {
        let hosts = Host::all(url, DEFAULT_PORT)?;
        let has_tls = hosts.iter().any(|host| host.tls.is_some());
        let Login { user, password } = Login::parse(url)?;
        Ok(Options {
            timeouts: Timeouts::parse(url)?,
            user,
            password,
            may_tell_password: has_tls || is_unix(url) || url.switch(CLEAR_PASSWORD.name)?,
            database: database_name(url)?,
            table: table(url)?,
            hosts: Hosts::new(hosts),
        })
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

#[cfg(test)]
mod tests {
    use sessile_core::ErrorKind;

    use super::*;
    use crate::connections::options::Address;

    fn addresses(url: &str) -> Vec<Address> {
        let hosts = Host::all(&StoreUrl::parse(url).unwrap(), DEFAULT_PORT).unwrap();
        hosts.into_iter().map(|host| host.address).collect()
    }

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
        let url =
            "mariadb://sh%40op:p%2Fss@[::1]:3307,b/my%20shop?table=t1&response_timeout_ms=700";
        let options = parse(url);
        assert_eq!(
            (options.user.as_deref(), options.password.as_deref()),
            (Some("sh@op"), Some("p/ss"))
        );
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(addresses(url), [tcp("::1", 3_307), tcp("b", 3_306)]);
        assert!(options.hosts.failover().is_some());
        assert_eq!((options.database.as_str(), options.table.as_str()), ("my shop", "t1"));
        assert_eq!(options.timeouts.response.as_millis(), 700);
        let url = "mysql+unix:/run/my%20socket?user=shop&database=d";
        let options = parse(url);
        assert_eq!(addresses(url), [Address::Unix("/run/my socket".into())]);
        assert!(options.hosts.failover().is_none());
        assert_eq!((options.user.as_deref(), options.password), (Some("shop"), None));
    }
}
