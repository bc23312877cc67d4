//! What each server says of itself, for `sessile doctor`: `stats` and `stats settings`.
//!
//! Invariant: asks and changes nothing.

use std::time::Instant;

use sessile_core::Result;

use super::connection::Connection;
use super::failure::translate;
use super::options::servers;
use crate::connections::pool::PooledConnection;
use crate::facts::ServerFacts;
use crate::store_url::StoreUrl;

pub fn ask(url: &StoreUrl) -> Result<Vec<ServerFacts>> {
    servers(url)?
        .iter()
        .map(|endpoint| {
            let failed = |failure| translate(failure, &endpoint.name);
            let deadline = Instant::now() + endpoint.timeouts.response;
            let mut connection = Connection::open(endpoint, deadline).map_err(failed)?;
            let mut facts = ServerFacts::default();
            facts.put("name", endpoint.name.as_str());
            let start = Instant::now();
            let statistics = connection.stats("stats").map_err(failed)?;
            for (name, value) in statistics.iter() {
                facts.put(name, value.as_str());
            }
            if let Some(seconds) = facts.number("time") {
                facts.put_time(seconds * 1_000, start);
            }
            for (name, value) in connection.stats("stats settings").map_err(failed)? {
                facts.put(&format!("setting {name}"), value);
            }
            Ok(facts)
        })
        .collect()
}
