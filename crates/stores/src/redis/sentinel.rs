//! `redis+sentinel://host,host/name`: which server is the primary of this name now.
//!
//! Sentinels are asked for each new connection, and once in a second before an idle one is used:
//! an old primary that is cut off from its sentinels goes on taking writes, which are lost later.
//! Source: the vendor's "Guidelines for Redis clients with support for Redis Sentinel".
//!
//! Invariant: a connection is only used if its server says that it is a primary. Not here: a login
//! at the sentinels.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value};
use sessile_core::Result;

use super::connection::{Connection, Settings, is_behind_sentinels};
use crate::connections::deadline::Deadline;
use crate::connections::options::{Address, Login, decoded};
use crate::locks::process_local::ProcessLocal;
use crate::store_url::{StoreUrl, invalid};

const PORT: u16 = 26_379;
const CHECK_EACH: Duration = Duration::from_secs(1);
/// Sentinels that do not answer must not slow down requests that have a connection.
const CHECK_FOR: Duration = Duration::from_millis(500);

pub struct Sentinels {
    addresses: Vec<Address>,
    primary: String,
    /// When they were asked last, and the address that they told.
    told: ProcessLocal<Option<(Instant, Address)>>,
    /// The sentinel that answered last is asked first.
    answered: AtomicUsize,
}

impl Sentinels {
    /// If the URL names some.
    pub fn parse(url: &StoreUrl) -> Result<Option<Sentinels>> {
        if !is_behind_sentinels(url) {
            return Ok(None);
        }
        let primary = decoded(url.parts().path().trim_matches('/'), "name of the primary")?;
        if primary.is_empty() || primary.contains('/') {
            return Err(invalid("the URL does not name the primary")
                .advice("write redis+sentinel://host,host/NAME, as in `sentinel monitor NAME`"));
        }
        let (addresses, told) = (Address::all(url, PORT)?, ProcessLocal::default());
        // Each process begins with another one: all ask once a second.
        let answered = AtomicUsize::new(std::process::id() as usize % addresses.len().max(1));
        Ok(Some(Sentinels { addresses, primary, told, answered }))
    }

    /// To the primary.
    pub fn connect(&self, settings: &Settings, deadline: Instant) -> RedisResult<Connection> {
        let address = self.ask(settings, deadline)?;
        let to_primary = settings.at(&address).map_err(|_| no_address())?;
        let mut connection = Connection::connect(&to_primary, deadline)?;
        let role: Vec<Value> = redis::cmd("ROLE").query(&mut connection)?;
        if role.first() != Some(&Value::BulkString(b"master".to_vec())) {
            let why = "the sentinels name a server that is not a primary (yet, or any more)";
            return Err(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, why).into());
        }
        self.told.put(Some((Instant::now(), address)));
        Ok(connection)
    }

    /// Whether the sentinels still name the server of an idle connection. Yes if none answers.
    pub fn still_lead_to(
        &self,
        connection: &Connection,
        settings: &Settings,
        deadline: Deadline,
    ) -> bool {
        let told = self.told.with(|told| told.clone()).flatten();
        if let Some((at, address)) = told
            && at.elapsed() < CHECK_EACH
        {
            return address == connection.address;
        }
        let end = deadline.of_answer(Duration::ZERO).min(Instant::now() + CHECK_FOR);
        let address = self.ask(settings, end).unwrap_or_else(|_| connection.address.clone());
        let same = address == connection.address;
        self.told.put(Some((Instant::now(), address)));
        same
    }

    /// The first answer counts; each sentinel gets an equal share of the time.
    fn ask(&self, settings: &Settings, deadline: Instant) -> RedisResult<Address> {
        let mut failure = None;
        // Relaxed: any order will do.
        let first = self.answered.load(Ordering::Relaxed);
        let sentinels = self.addresses.iter().enumerate().cycle().skip(first);
        for (asked, (number, sentinel)) in sentinels.take(self.addresses.len()).enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let others = u32::try_from(self.addresses.len() - asked).unwrap_or(u32::MAX);
            match self.ask_one(sentinel, settings, Instant::now() + left / others) {
                Ok(address) => {
                    self.answered.store(number, Ordering::Relaxed);
                    return Ok(address);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(no_address))
    }

    fn ask_one(
        &self,
        sentinel: &Address,
        settings: &Settings,
        deadline: Instant,
    ) -> RedisResult<Address> {
        let mut settings = settings.at(sentinel).map_err(|_| no_address())?.of_sentinel();
        // All of its share: a shorter silence would not count as a failure.
        let share = deadline.saturating_duration_since(Instant::now()).min(CHECK_FOR);
        settings.timeouts.connect = settings.timeouts.connect.min(share);
        let mut connection = Connection::connect(&settings, deadline)?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("get-master-addr-by-name").arg(&self.primary);
        let answer: Option<(String, u16)> = ask.query(&mut connection)?;
        let unknown = || {
            let why = "the sentinels know no primary of this name";
            RedisError::from(std::io::Error::new(std::io::ErrorKind::NotFound, why))
        };
        answer.map(|(host, port)| Address::Tcp { host, port }).ok_or_else(unknown)
    }
}

fn no_address() -> RedisError {
    let why = "the sentinels give no address that can be used";
    std::io::Error::new(std::io::ErrorKind::NotFound, why).into()
}

impl Settings {
    /// Without login and database.
    fn of_sentinel(self) -> Settings {
        self.with_login(Login { user: None, password: None })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// A server that gives this answer to whatever it is sent.
    fn server_that_says(answer: String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while let Ok(1..) = stream.read(&mut [0; 512]) {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    fn connect_to_a_server_of_role(role: &str) -> RedisResult<Connection> {
        let server = server_that_says(format!("*1\r\n${}\r\n{role}\r\n", role.len()));
        let port = server.port().to_string();
        let told = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
        let sentinel = server_that_says(told);
        let url = StoreUrl::parse(&format!("redis+sentinel://{sentinel}/shop")).unwrap();
        let sentinels = Sentinels::parse(&url).unwrap().unwrap();
        let settings = Settings::parse(&url).unwrap();
        sentinels.connect(&settings, Instant::now() + Duration::from_secs(20))
    }

    /// Before a replica is promoted, and after an old primary was demoted, sentinels may name a
    /// replica. What is read there is old.
    #[test]
    fn a_server_that_is_no_primary_is_not_used_although_the_sentinels_name_it() {
        assert!(connect_to_a_server_of_role("master").is_ok());
        let refused = connect_to_a_server_of_role("slave").err().expect("a replica was used");
        assert!(refused.to_string().contains("not a primary"), "{refused}");
    }

    fn sentinels(url: &str) -> Result<Option<Sentinels>> {
        Sentinels::parse(&StoreUrl::parse(url)?)
    }

    #[test]
    fn sentinels_have_their_own_port_and_name_a_primary() {
        let parsed = sentinels("redis+sentinel://u:p@a,b:1/shop").unwrap().unwrap();
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(parsed.addresses, [tcp("a", 26_379), tcp("b", 1)]);
        assert_eq!(parsed.primary, "shop");
        assert!(sentinels("redis://a/0").unwrap().is_none());
        for url in ["redis+sentinel://a,b", "redis+sentinel://a/", "redis+sentinel://a/b/c"] {
            assert!(sentinels(url).is_err(), "{url}");
        }
    }
}
