//! From a store URL to servers and settings.

use std::time::Duration;

use sessile_core::Result;

use super::names::PREFIX_BYTES_MAX;
use crate::connecting::{self, Address, Login, Timeouts};
use crate::key_value;
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

/// The options of this store, for the registry.
pub(super) const HELP: &[OptionHelp] = &[
    // The first two are about our own items.
    key_value::LOCK_TTL_MS,
    key_value::PREFIX,
    OptionHelp { name: "user", help: "user name, for memcached+unix (memcached:// takes it before the @)" },
    connecting::PASSWORD_FILE,
    connecting::CONNECT_TIMEOUT_MS,
    connecting::RESPONSE_TIMEOUT_MS,
];

/// Those of them that a connection takes, whoever the items belong to.
pub(super) const OF_CONNECTION: &[OptionHelp] = HELP.split_at(2).1;

const DEFAULT_PORT: u16 = 11_211;
const SERVERS_MAX: usize = 64;

/// Settings of one opened store.
pub(super) struct Options {
    /// Where the servers listen, at least one.
    pub(super) addresses: Vec<Address>,
    pub(super) login: Login,
    pub(super) timeouts: Timeouts,
    pub(super) lock_ttl: Duration,
    pub(super) prefix: String,
}

impl Options {
    /// # Errors
    ///
    /// `InvalidUrl` for what contradicts itself or is malformed, `Denied` for a password file that cannot be read.
    pub(super) fn parse(url: &StoreUrl) -> Result<Options> {
        Options::with_prefix(url, key_value::prefix(url, PREFIX_BYTES_MAX)?)
    }

    /// The same with a prefix that was read elsewhere: that of another program has another form.
    pub(super) fn with_prefix(url: &StoreUrl, prefix: String) -> Result<Options> {
        Ok(Options {
            addresses: addresses(url)?,
            login: login(url)?,
            timeouts: Timeouts::parse(url)?,
            lock_ttl: key_value::lock_ttl(url)?,
            prefix,
        })
    }
}

fn addresses(url: &StoreUrl) -> Result<Vec<Address>> {
    let mut addresses = vec![Address::parse(url, DEFAULT_PORT)?];
    for further in url.further_hosts() {
        addresses.push(Address::parse(further, DEFAULT_PORT)?);
    }
    let twice = addresses.iter().enumerate().any(|(n, address)| addresses.iter().take(n).any(|other| other == address));
    if twice {
        return Err(invalid("a server is named twice"));
    }
    if addresses.len() > SERVERS_MAX {
        return Err(invalid(format!("there are more than {SERVERS_MAX} servers")));
    }
    if !connecting::is_unix(url) && !matches!(url.parts().path(), "" | "/") {
        return Err(invalid("a memcached URL has no path").advice("write memcached://host:11211,host2:11211"));
    }
    Ok(addresses)
}

fn login(url: &StoreUrl) -> Result<Login> {
    let login = Login::parse(url)?;
    // Both travel as two words of one line of text.
    let word = |text: &Option<String>| text.as_deref().is_none_or(|text| !text.bytes().any(|b| b <= b' '));
    if !word(&login.user) || !word(&login.password) {
        return Err(invalid("memcached takes no spaces in user and password"));
    }
    match (&login.user, &login.password) {
        (Some(_), Some(_)) | (None, None) => Ok(login),
        _ => Err(invalid("a login is a user and a password")
            .advice("write memcached://user:password@host; memcached compares both with the lines of its -Y file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Options> {
        StoreUrl::parse(url).and_then(|url| Options::parse(&url))
    }

    #[test]
    fn servers_are_listed_before_the_options() {
        let options = parse("memcached://u:p%2Cq@a:1,[::1]:2,c/?prefix=x").unwrap();
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(options.addresses, [tcp("a", 1), tcp("::1", 2), tcp("c", 11_211)]);
        assert_eq!(options.login.password.as_deref(), Some("p,q"));
        assert_eq!(parse("memcached+unix:/run/m").unwrap().addresses, [Address::Unix("/run/m".into())]);
        assert_eq!(parse("memcached://a:1%2Cb:2").unwrap().addresses, [tcp("a", 1), tcp("b", 2)]);
    }

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "memcached://u:s3cret@a:1,a:1",
            "memcached://u:s3cret@a:1,",
            "memcached://u:s3cret@a:1,b:x",
            "memcached://u:s3cret@a/0",
            "memcached://u:s3%20cret@a",
            "memcached://u:s3cret@a?prefix=a%20b",
            "memcached://u:s3cret@a?lock_ttl_ms=0",
            "memcached://u:s3cret@a?user=u",
            "memcached://u@a",
            "memcached:///x",
            "memcached+unix:relative",
        ] {
            let error = parse(url).err().expect(url);
            assert!(!format!("{error:#}").contains("s3cret"), "{url}: {error:#}");
        }
    }
}
