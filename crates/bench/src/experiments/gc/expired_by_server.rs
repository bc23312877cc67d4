//! How many records a private server has removed by itself.
//!
//! Asked of the server, not of the store: reads hide expired records whether they still take memory or not.
//! One more line here for each kind of server whose expiry is native.

use std::path::Path;

/// Keys that a Redis server has expired since it started.
pub(super) fn count(socket: &Path) -> Option<u64> {
    let client = redis::Client::open(format!("redis+unix:{}", socket.display())).ok()?;
    let mut connection = client.get_connection().ok()?;
    let info: String = redis::cmd("INFO").arg("stats").query(&mut connection).ok()?;
    info.lines().find_map(|line| line.strip_prefix("expired_keys:"))?.trim().parse().ok()
}
