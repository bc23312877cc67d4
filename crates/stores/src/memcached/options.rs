//! From a store URL to its servers.

use sessile_core::Result;

use crate::connections::key_value::PREFIX;
use crate::connections::options::{
    Address, CONNECT_TIMEOUT_MS, Login, PASSWORD_FILE, RESPONSE_TIMEOUT_MS, Timeouts, USER, is_unix,
};
use crate::locks::token::LOCK_TTL_MS;
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    // The first two are about our own items.
    LOCK_TTL_MS,
    PREFIX,
    USER,
    PASSWORD_FILE,
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
];

/// The options of a connection, independent of the owner of the items.
pub const OF_CONNECTION: &[OptionHelp] = HELP.split_at(2).1;

const DEFAULT_PORT: u16 = 11_211;
const SERVERS_MAX: usize = 64;

pub struct Endpoint {
    pub address: Address,
    pub name: String,
    pub login: Login,
    pub timeouts: Timeouts,
}

/// At least one.
pub fn servers(url: &StoreUrl) -> Result<Vec<Endpoint>> {
    if !is_unix(url) && !matches!(url.parts().path(), "" | "/") {
        return Err(invalid("a memcached URL has no path")
            .advice("write memcached://host:11211,host2:11211"));
    }
    let (login, timeouts) = (login(url)?, Timeouts::parse(url)?);
    let mut servers: Vec<Endpoint> = Vec::new();
    for address in Address::all(url, DEFAULT_PORT)? {
        let name = address.to_string();
        if servers.iter().any(|server| server.name == name) {
            return Err(invalid("a server is named twice"));
        }
        servers.push(Endpoint { address, name, login: login.clone(), timeouts });
    }
    if servers.len() > SERVERS_MAX {
        return Err(invalid(format!("there are more than {SERVERS_MAX} servers")));
    }
    Ok(servers)
}

fn login(url: &StoreUrl) -> Result<Login> {
    let login = Login::parse(url)?;
    // Both travel as two words of one line of text.
    if login.user.iter().chain(&login.password).any(|text| text.bytes().any(|b| b <= b' ')) {
        return Err(invalid("memcached takes no spaces in user and password"));
    }
    match (&login.user, &login.password) {
        (Some(_), Some(_)) | (None, None) => Ok(login),
        _ => Err(invalid("a login is a user and a password").advice(
            "write memcached://user:password@host; memcached compares both with the lines \
                     of its -Y file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Vec<Endpoint>> {
        StoreUrl::parse(url).and_then(|url| servers(&url))
    }

    fn addresses(url: &str) -> Vec<Address> {
        parse(url).unwrap().into_iter().map(|server| server.address).collect()
    }

    #[test]
    fn servers_are_listed_before_the_options() {
        let url = "memcached://u:p%2Cq@a:1,[::1]:2,c/?prefix=x";
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(addresses(url), [tcp("a", 1), tcp("::1", 2), tcp("c", 11_211)]);
        assert_eq!(parse(url).unwrap()[2].login.password.as_deref(), Some("p,q"));
        assert_eq!(addresses("memcached+unix:/run/m"), [Address::Unix("/run/m".into())]);
        assert_eq!(addresses("memcached://a:1%2Cb:2"), [tcp("a", 1), tcp("b", 2)]);
    }

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "memcached://u:s3cret@a:1,a:1",
            "memcached://u:s3cret@a:1,",
            "memcached://u:s3cret@a:1,b:x",
            "memcached://u:s3cret@a/0",
            "memcached://u:s3%20cret@a",
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
