//! The locks that are held: named locks of the server, looked up by the keys of the table.
//!
//! The server does not list its named locks. Not seen: the lock of a new session, which has no row
//! yet, and locks beyond the first rows.

use sessile_core::{Clock, HeldLock, Result};

use super::connection::Connection;
use super::lock::{DIGEST_BYTES, LockNames, holder};
use super::options::Options;
use super::statement::Message;
use crate::sql::row::key;
use crate::sql::value::Value;

const ROWS_MAX: u32 = 100_000;

pub(super) fn locks_held(
    connection: &mut Connection,
    (options, names): (&Options, &LockNames),
    clock: &Clock,
    limit: usize,
) -> Result<Vec<HeldLock>> {
    let Options { database, table, .. } = options;
    // The names of `LockNames`, made by the server.
    let name = format!(
        "CONCAT('sessile.', LEFT(SHA2(CONCAT(?, CHAR(0), ?, CHAR(0), bin, CHAR(0), id), 256), {}))",
        2 * DIGEST_BYTES
    );
    let find = format!(
        "SELECT bin, id FROM (SELECT bin, id FROM `{table}` FORCE INDEX (PRIMARY) LIMIT \
         {ROWS_MAX}) AS first WHERE IS_USED_LOCK({name}) IS NOT NULL LIMIT {limit}"
    );
    let values = [Value::Bytes(database.as_bytes()), Value::Word(table)];
    let rows = connection.run(&Message::of(&find, &values))?.rows();
    let mut found = Vec::new();
    for row in &rows {
        let key = key(row, 0)?;
        let holder = holder(connection, &names.name(&key), clock)?;
        found.push(HeldLock { key: Some(key), holder, has_waiters: None });
    }
    Ok(found)
}
