//! What each server says of itself, for `sessile doctor`: INFO, CONFIG GET and TIME.
//!
//! Invariant: asks and changes nothing. Hosted servers forbid INFO or CONFIG: those facts are
//! missing then.

use std::time::{Duration, Instant};

use redis::{RedisResult, Value};
use sessile_core::Result;

use super::connection::Connection;
use super::servers::Servers;
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

/// Asks the server, the primary behind the sentinels, or each primary of the cluster.
pub fn ask(url: &StoreUrl) -> Result<Vec<ServerFacts>> {
    let servers = Servers::parse(url)?;
    let nodes = servers.all(servers.deadline(Duration::ZERO))?;
    let asked = nodes.iter().map(|(_, node)| node.with(servers.deadline(Duration::ZERO), facts_of));
    asked.collect()
}

fn facts_of(connection: &mut Connection) -> RedisResult<ServerFacts> {
    let mut facts = ServerFacts::default();
    // A login that is wrong shows here; what follows may be forbidden.
    redis::cmd("PING").query::<Value>(connection)?;
    if let Ok(info) = redis::cmd("INFO").query::<String>(connection) {
        for line in info.lines() {
            if let Some((name, value)) = line.trim_end().split_once(':') {
                facts.put(name, value);
            }
        }
    }
    for name in SETTINGS {
        let asked: RedisResult<Vec<String>> =
            redis::cmd("CONFIG").arg("GET").arg(name).query(connection);
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
    if let Ok((seconds, us)) = redis::cmd("TIME").query::<(u64, u64)>(connection) {
        facts.put_time(seconds * 1_000 + us / 1_000, start);
    }
    Ok(facts)
}
