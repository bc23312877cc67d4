//! What the server says of itself, for `sessile doctor`: variables, the table, its indexes.
//!
//! Invariant: asks and changes nothing; a table that is missing is a missing fact.

use std::time::Instant;

use sessile_core::Result;

use super::connection::Connection;
use super::options::Options;
use super::row::Row;
use super::statement::Message;
use crate::connections::pool::PooledConnection;
use crate::facts::ServerFacts;
use crate::sql::row::Columns;
use crate::sql::value::Value;
use crate::store_url::StoreUrl;

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_allowed_packet',
    'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'read_only', 'max_connections',
    'wsrep_on', 'group_replication_single_primary_mode')";
const INDEXES: &str = "SELECT INDEX_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = DATABASE() AND LOWER(TABLE_NAME) = LOWER(?) AND SEQ_IN_INDEX = 1";
const LARGEST_ROWS: u32 = 100_000;

pub fn ask(url: &StoreUrl) -> Result<ServerFacts> {
    let options = Options::parse(url)?;
    let deadline = Instant::now() + options.timeouts.response;
    let mut connection = Connection::open(&options, deadline)?;
    let mut facts = ServerFacts::default();
    let word = |row: &Row, column| row.text(column).ok().flatten().unwrap_or_default().to_owned();
    for row in connection.run(&Message::of(VARIABLES, &[]))?.rows() {
        facts.put(&word(&row, 0).to_ascii_lowercase(), word(&row, 1));
    }
    facts.put("behind_proxy", if connection.facts.behind_proxy { "yes" } else { "no" });
    let table = options.table.as_str();
    facts.put("table", table);
    let indexes = connection.run(&Message::of(INDEXES, &[Value::Word(table)]))?.rows();
    let indexes: Vec<String> = indexes.iter().map(|row| word(row, 0)).collect();
    if !indexes.is_empty() {
        facts.put("indexes", indexes.join(","));
        // Bounded, along the key: the largest of the first rows is enough for a warning.
        let largest = format!(
            "SELECT MAX(bytes) FROM (SELECT bytes FROM `{table}` FORCE INDEX (PRIMARY) LIMIT \
             {LARGEST_ROWS}) AS first"
        );
        if let Ok(Some(row)) = connection.row(&largest, &[])
            && let Ok(Some(bytes)) = row.integer(0)
        {
            facts.put("largest_payload", bytes.to_string());
        }
    }
    let start = Instant::now();
    let now = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)";
    if let Ok(Some(row)) = connection.row(now, &[])
        && let Ok(Some(ms)) = row.integer(0)
    {
        facts.put_time(ms.unsigned_abs(), start);
    }
    Ok(facts)
}
