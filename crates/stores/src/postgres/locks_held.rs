//! The locks that are held: advisory locks of the server, found by the column `lock` of the table.
//!
//! Not seen: the lock of a new session, which has no row yet.

use std::time::{Duration, Instant};

use sessile_core::{Bin, Clock, HeldLock, Holder, Key, Result};

use super::connection::Connection;
use super::schema::Settings;
use crate::connections::pool::PooledConnection;

pub(super) fn locks_held(
    settings: &Settings,
    clock: &Clock,
    limit: usize,
) -> Result<Vec<HeldLock>> {
    let deadline = Instant::now() + settings.options.timeouts.response;
    let mut connection = <Connection as PooledConnection>::open(settings, deadline)?;
    // One row for each lock: an alias has the lock of its own id.
    let find = format!(
        "SELECT t.bin, t.id, a.application_name,
            (extract(epoch FROM clock_timestamp() - a.state_change) * 1000)::bigint,
            EXISTS (SELECT FROM pg_locks w WHERE w.locktype = 'advisory' AND NOT w.granted
                AND w.classid = l.classid AND w.objid = l.objid AND w.database = l.database)
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            JOIN {} t ON t.lock = (l.classid::bigint << 32) | l.objid::bigint
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        LIMIT {limit}",
        settings.names.table
    );
    let rows = connection.list_text(&find, limit)?;
    Ok(rows.iter().map(|row| held(row, clock)).collect())
}

fn held(row: &[Option<Vec<u8>>], clock: &Clock) -> HeldLock {
    let text = |at: usize| {
        let bytes = row.get(at).and_then(Option::as_ref);
        bytes.and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let key = Bin::new(text(0)).and_then(|bin| Key::in_bin(bin, text(1))).ok();
    // `sessile PID HOST`
    let mut words = text(2).split(' ');
    let ours = words.next() == Some("sessile");
    let pid = words.next().and_then(|pid| pid.parse().ok()).filter(|_| ours);
    let host = words.next().filter(|host| ours && !host.is_empty()).map(str::to_owned);
    let held =
        text(3).parse::<i64>().ok().map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    let since = held.map(|held| clock.now().minus(held));
    HeldLock { key, holder: Holder { pid, host, since }, has_waiters: Some(text(4) == "t") }
}
