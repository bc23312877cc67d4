//! What a Redis server says about its own work: changes, bytes that came in, memory. Not here: what they mean.

use std::path::Path;

/// Since the server began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Changes of its data: keys that were set, removed, or given another expiry.
    pub changes: u64,
    /// Bytes that clients have sent.
    pub received_bytes: u64,
    /// Memory that is taken now.
    pub memory_bytes: u64,
}

/// Asks; the question itself is some dozen bytes of what came in. The error names no place.
pub(super) fn ask(socket: &Path) -> Result<Told, String> {
    let answer = || -> redis::RedisResult<String> {
        let client = redis::Client::open(format!("redis+unix:{}", socket.display()))?;
        redis::cmd("INFO").query(&mut client.get_connection()?)
    };
    let info = answer().map_err(|error| format!("the Redis server does not tell its counters: {:?}", error.kind()))?;
    read(&info).ok_or_else(|| "the Redis server tells no counters that are known here".to_owned())
}

fn read(info: &str) -> Option<Told> {
    let figure = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    Some(Told {
        // The private server never saves a snapshot, so that is since it began.
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
        assert_eq!(read(info), Some(Told { changes: 17, received_bytes: 620, memory_bytes: 1_048 }));
        assert_eq!(read("used_memory:1048\r\n"), None);
    }
}
