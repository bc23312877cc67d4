//! What a private Redis server tells of its work.

use std::path::Path;

/// What it tells in a section; `default` for the usual ones. For one it does little beside its
/// work.
pub(super) fn info(socket: &Path, section: &str) -> redis::RedisResult<String> {
    let client = redis::Client::open(format!("redis+unix:{}", socket.display()))?;
    redis::cmd("INFO").arg(section).query(&mut client.get_connection()?)
}

pub(super) fn figure(info: &str, name: &str) -> Option<u64> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_tells_is_read_and_nothing_is_guessed() {
        let info = "# Memory\r\nused_memory_rss:9\r\nused_memory:1048\r\n\r\n# Persistence\r\n\
                    rdb_changes_since_last_save:17\r\n";
        assert_eq!(figure(info, "used_memory"), Some(1_048));
        assert_eq!(figure(info, "rdb_changes_since_last_save"), Some(17));
        assert_eq!(figure(info, "total_net_input_bytes"), None);
    }
}
