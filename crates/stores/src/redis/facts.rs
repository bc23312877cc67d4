//! What the server says of itself, for `sessile doctor`: INFO, CONFIG GET and TIME.
//!
//! Invariant: asks and changes nothing. Hosted servers forbid INFO or CONFIG: those facts are
//! missing then.

use std::time::Instant;

use redis::{RedisResult, Value};
use sessile_core::Result;

use super::connection::{Connection, Settings};
use super::failure::translate;
use crate::connections::pool::PooledConnection;
use crate::facts::ServerFacts;
use crate::store_url::StoreUrl;

const SETTINGS: &[&str] = &[
    "maxmemory",
    "maxmemory-policy",
    "hz",
    "appendonly",
    "appendfsync",
    "maxclients",
    "requirepass",
    "bind",
    "protected-mode",
];

pub fn ask(url: &StoreUrl) -> Result<ServerFacts> {
    let settings = Settings::parse(url)?;
    let deadline = Instant::now() + settings.timeouts.response;
    let mut connection = Connection::open(&settings, deadline).map_err(translate)?;
    let mut facts = ServerFacts::default();
    // A login that is wrong shows here; what follows may be forbidden.
    redis::cmd("PING").query::<Value>(&mut connection).map_err(translate)?;
    if let Ok(info) = redis::cmd("INFO").query::<String>(&mut connection) {
        for line in info.lines() {
            if let Some((name, value)) = line.trim_end().split_once(':') {
                facts.put(name, value);
            }
        }
    }
    for name in SETTINGS {
        let asked: RedisResult<Vec<String>> =
            redis::cmd("CONFIG").arg("GET").arg(name).query(&mut connection);
        match asked.as_deref() {
            // Only whether there is a password.
            Ok([_, value]) if *name == "requirepass" => {
                facts.put(name, if value.is_empty() { "no" } else { "yes" });
            }
            Ok([_, value]) => facts.put(name, value),
            _ => {}
        }
    }
    let start = Instant::now();
    if let Ok((seconds, us)) = redis::cmd("TIME").query::<(u64, u64)>(&mut connection) {
        facts.put_time(seconds * 1_000 + us / 1_000, start);
    }
    Ok(facts)
}
