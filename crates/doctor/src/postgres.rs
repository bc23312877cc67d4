//! The settings of a PostgreSQL server against what sessions need.

use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;

/// How long workers wait for a session's lock by default.
const LOCK_WAIT_MS: u64 = 30_000;

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let is_off = |name| facts.text(name) == Some("off");
    for (name, code) in [("fsync", "fsync-off"), ("full_page_writes", "full-page-writes-off")] {
        if is_off(name) {
            findings.push(Finding::critical(
                code,
                format!("{name} is off"),
                "a power cut damages the whole database, not only the last sessions",
                format!(
                    "set {name} = on; for speed set synchronous_commit = off, which loses at most \
                     the last moments"
                ),
            ));
        }
    }
    if is_off("autovacuum") {
        findings.push(Finding::warning(
            "autovacuum-off",
            "autovacuum is off",
            "each request leaves an old version of its row, and the table grows without end",
            "set autovacuum = on",
        ));
    }
    if facts.text("transactions_pooled") == Some("yes") {
        findings.push(Finding::critical(
            "transactions-pooled",
            "a proxy in between gives each transaction another session of the server",
            "locks are taken in one session and given up in another: the store refuses to open",
            "connect to the server itself, or set pool_mode = session in PgBouncer",
        ));
    }
    if facts.text("due_index") == Some("no") {
        let table = facts.text("table").unwrap_or_default();
        findings.push(Finding::critical(
            "index-missing",
            "the table has no index for its expiry",
            "each sweep reads the whole table",
            format!("CREATE INDEX {table}_due ON {table} (due, number)"),
        ));
    }
    const ENDS_LEASE: &str =
        "the server ends a connection that holds a session's lock, and the save is refused";
    const ENDS_WAIT: &str = "the server ends a request that waits for its session longer than that";
    for (name, below, why) in [
        ("idle_session_timeout", u64::MAX, ENDS_LEASE),
        ("statement_timeout", LOCK_WAIT_MS, ENDS_WAIT),
        ("transaction_timeout", LOCK_WAIT_MS, ENDS_WAIT),
    ] {
        if facts.number(name).is_some_and(|ms| 0 < ms && ms < below) {
            findings.push(Finding::warning(
                "server-timeout",
                format!("{name} is {} ms", facts.text(name).unwrap_or_default()),
                why,
                format!("ALTER ROLE ... SET {name} = 0 for the user of the sessions"),
            ));
        }
    }
    let workers = subject.examination.workers.unwrap_or(0);
    if let Some(most) = facts.number("max_connections").filter(|most| *most < workers) {
        findings.push(Finding::warning(
            "few-connections",
            format!("max_connections is {most}, and there are {workers} workers"),
            "a worker that gets no connection has no session",
            format!("set max_connections to {} or more", workers + 16),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examination::with_subject;

    #[test]
    fn a_proxy_that_pools_transactions_is_found() {
        for (planted, codes) in [
            (&[("transactions_pooled", "no")] as &[_], &[] as &[&str]),
            (&[("transactions_pooled", "yes")] as &[_], &["transactions-pooled"] as &[&str]),
        ] {
            let found = with_subject("postgres://127.0.0.1/shop", |subject, findings| {
                let mut facts = ServerFacts::default();
                planted.iter().for_each(|(name, value): &(&str, &str)| facts.put(name, *value));
                check(subject, &facts, findings);
            });
            assert_eq!(found, codes, "{planted:?}");
        }
    }
}
