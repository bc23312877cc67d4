//! A Redis server's counters of its own work.

use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedisCounters {
    /// Keys that were set, removed, or given another expiry.
    pub changes: u64,
    /// Sent by clients.
    pub received_bytes: u64,
    pub memory_bytes: u64,
}

/// The request itself adds some dozen bytes. The error contains no path.
pub(super) fn ask(socket: &Path) -> Result<RedisCounters, String> {
    let answer = || -> redis::RedisResult<String> {
        let client = redis::Client::open(format!("redis+unix:{}", socket.display()))?;
        redis::cmd("INFO").query(&mut client.get_connection()?)
    };
    let info = answer().map_err(|error| {
        format!("the Redis server does not report its counters: {:?}", error.kind())
    })?;
    read(&info).ok_or_else(|| "the Redis server reports no known counters".to_owned())
}

fn read(info: &str) -> Option<RedisCounters> {
    let figure = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    Some(RedisCounters {
        // The private server never saves a snapshot, so this counts since its start.
        changes: figure("rdb_changes_since_last_save")?,
        received_bytes: figure("total_net_input_bytes")?,
        memory_bytes: figure("used_memory")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_tells_is_read_and_nothing_is_guessed() {
        let info = "# Memory\r\nused_memory_rss:9\r\nused_memory:1048\r\n\r\n# Persistence\r\n\
                    rdb_changes_since_last_save:17\r\n# Stats\r\ntotal_net_input_bytes:620\r\n";
        assert_eq!(
            read(info),
            Some(RedisCounters { changes: 17, received_bytes: 620, memory_bytes: 1_048 })
        );
        assert_eq!(read("used_memory:1048\r\n"), None);
    }
}
