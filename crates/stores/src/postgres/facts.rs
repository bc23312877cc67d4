//! What the server says of itself, for `sessile doctor`: settings, the table, its index, and
//! whether a proxy hands out its sessions a transaction at a time.
//!
//! Invariant: asks and changes nothing; a table that is missing is a missing fact.

use std::time::Instant;

use sessile_core::Result;

use super::connection::Connection;
use super::options::Options;
use super::schema::connect;
use crate::facts::ServerFacts;
use crate::store_url::StoreUrl;

const SETTINGS: &[&str] = &[
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "autovacuum",
    "max_connections",
    "statement_timeout",
    "idle_session_timeout",
    "transaction_timeout",
];

pub fn ask(url: &StoreUrl) -> Result<ServerFacts> {
    let options = Options::parse(url)?;
    let deadline = Instant::now() + 2 * options.timeouts.response;
    let (mut connection, _) = connect(&options, deadline)?;
    let mut facts = ServerFacts::default();
    let names = SETTINGS.join("', '");
    let values = format!(
        "SELECT string_agg(name || '=' || setting, chr(10)) FROM pg_settings WHERE name IN \
         ('{names}')"
    );
    for line in cell(&mut connection, &values)?.unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once('=') {
            facts.put(name, value);
        }
    }
    let table = &options.table; // a word, as the options demand
    facts.put("table", table);
    let found = format!("SELECT count(*) FROM pg_class WHERE relname = '{table}'");
    if cell(&mut connection, &found)?.is_some_and(|count| count != "0") {
        let index = format!("SELECT count(*) FROM pg_class WHERE relname = '{table}_due'");
        let index = cell(&mut connection, &index)?.is_some_and(|count| count != "0");
        facts.put("due_index", if index { "yes" } else { "no" });
    }
    let start = Instant::now();
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    if let Some(ms) = cell(&mut connection, now)?.and_then(|ms| ms.parse().ok()) {
        facts.put_time(ms, start);
    }
    // A proxy that pools transactions serves two connections by one process of the server.
    let second = connect(&options, deadline);
    let pooled = second.is_ok_and(|(second, _)| second.backend == connection.backend);
    facts.put("transactions_pooled", if pooled { "yes" } else { "no" });
    Ok(facts)
}

fn cell(connection: &mut Connection, sql: &str) -> Result<Option<String>> {
    Ok(connection.run_text(sql)?.into_iter().flatten().flatten().next())
}
