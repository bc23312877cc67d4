//! The settings of a Redis or Valkey server against what sessions need.

use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;

/// The default of Redis.
const HZ_SLOW: u64 = 10;
const MEMORY_PERCENT_MAX: u64 = 90;
/// A worker has a connection, and one more while it waits for a lock.
const CONNECTIONS_OF_WORKER: u64 = 2;

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    check_memory(facts, findings);
    if facts.number("hz").is_some_and(|hz| hz <= HZ_SLOW) {
        findings.push(Finding::warning(
            "redis-hz",
            format!("hz is {}", facts.text("hz").unwrap_or_default()),
            "Redis removes expired keys for up to a quarter of each tick and answers nobody \
             meanwhile: 25 ms at hz 10",
            "set hz 100",
        ));
    }
    let failed = |name| facts.text(name).is_some_and(|status| status != "ok");
    if failed("rdb_last_bgsave_status") || failed("aof_last_write_status") {
        findings.push(Finding::critical(
            "redis-persistence-failed",
            "the last snapshot or the last write of the log has failed",
            "a restart brings back old sessions, and Redis may refuse all writes",
            "look into the log of the server; often its disk is full or not writable",
        ));
    }
    if facts.text("role").is_some_and(|role| role != "master") {
        findings.push(Finding::critical(
            "redis-replica",
            "the server is a replica",
            "it refuses writes, or loses them at the next synchronisation",
            "name the primary in the URL",
        ));
    }
    // Encrypted connections and sockets are for those who have the right.
    if matches!(subject.url.scheme(), "redis" | "redis+cluster" | "redis+sentinel")
        && facts.text("requirepass") == Some("no")
        && facts.text("protected-mode") == Some("no")
        && subject.url.parts().password().is_none()
        && !facts.text("bind").is_some_and(is_loopback_only)
    {
        findings.push(Finding::critical(
            "redis-open",
            "the server lets in everybody: no password, and protected-mode no",
            "a host that reaches the port reads all sessions",
            "set requirepass or an ACL, or protected-mode yes",
        ));
    }
    let needed = subject.examination.workers.unwrap_or(0) * CONNECTIONS_OF_WORKER;
    if let Some(most) = facts.number("maxclients").filter(|most| *most < needed) {
        findings.push(Finding::warning(
            "few-connections",
            format!("maxclients is {most}, and the workers may have {needed} connections"),
            "a worker that gets no connection has no session",
            format!("set maxclients to {} or more", needed + 32),
        ));
    }
}

/// `127.0.0.1 -::1`: no other host gets there. An empty one is every address.
fn is_loopback_only(bind: &str) -> bool {
    let mut names = bind.split_whitespace().peekable();
    names.peek().is_some()
        && names.all(|name| {
            let name = name.trim_start_matches('-').parse::<std::net::IpAddr>();
            name.is_ok_and(|address| address.is_loopback())
        })
}

fn check_memory(facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let policy = facts.text("maxmemory-policy").or_else(|| facts.text("maxmemory_policy"));
    let most = facts.number("maxmemory");
    if let Some(policy) = policy.filter(|policy| *policy != "noeviction" && most != Some(0)) {
        findings.push(Finding::critical(
            "redis-evicts",
            format!("maxmemory-policy is {policy}"),
            "when memory is full the server drops live sessions: visitors are logged out",
            "set maxmemory-policy noeviction, so that a save fails loudly instead",
        ));
    }
    if most == Some(0) {
        findings.push(Finding::warning(
            "redis-memory-unlimited",
            "maxmemory is 0: no limit",
            "a server that grows beyond the memory of its host is killed, with all sessions",
            "set maxmemory to half of the host's memory",
        ));
    }
    if let (Some(most), Some(used)) = (most.filter(|most| *most > 0), facts.number("used_memory"))
        && used * 100 / most >= MEMORY_PERCENT_MAX
    {
        findings.push(Finding::critical(
            "redis-nearly-full",
            format!("{} MiB of {} MiB are in use", used >> 20, most >> 20),
            "a full server refuses saves, or drops live sessions",
            "raise maxmemory, lower the time to live, or move large payloads (route:)",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examination::with_subject;

    #[test]
    fn a_server_that_takes_everybody_is_found_unless_only_this_host_reaches_it() {
        for (planted, codes) in [
            (
                &[("requirepass", "no"), ("protected-mode", "no"), ("bind", "* -::*")] as &[_],
                &["redis-open"] as &[&str],
            ),
            (
                &[("requirepass", "no"), ("protected-mode", "no"), ("bind", "")] as &[_],
                &["redis-open"] as &[&str],
            ),
            (
                &[("requirepass", "no"), ("protected-mode", "no"), ("bind", "127.0.0.1 -::1")]
                    as &[_],
                &[] as &[&str],
            ),
            (
                &[("requirepass", "yes"), ("protected-mode", "no"), ("bind", "*")] as &[_],
                &[] as &[&str],
            ),
        ] {
            let found = with_subject("redis://127.0.0.1", |subject, findings| {
                let mut facts = ServerFacts::default();
                planted.iter().for_each(|(name, value): &(&str, &str)| facts.put(name, *value));
                check(subject, &facts, findings);
            });
            assert_eq!(found, codes, "{planted:?}");
        }
    }
}
