//! Records that a private server has expired by itself.
//!
//! The server is asked, not the store: reads hide expired records that still take memory. Each
//! server with native expiry needs a function here.

use std::path::Path;

pub(super) fn count(socket: &Path) -> Option<u64> {
    let client = redis::Client::open(format!("redis+unix:{}", socket.display())).ok()?;
    let mut connection = client.get_connection().ok()?;
    let info: String = redis::cmd("INFO").arg("stats").query(&mut connection).ok()?;
    info.lines().find_map(|line| line.strip_prefix("expired_keys:"))?.trim().parse().ok()
}
