//! The settings of a MySQL or MariaDB server against what sessions need.

use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;

/// What a packet has beside the payload.
const PACKET_OVERHEAD: u64 = 1_024;

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    check_packet(subject, facts, findings);
    if facts.text("innodb_doublewrite").is_some_and(|word| word.eq_ignore_ascii_case("off")) {
        findings.push(Finding::critical(
            "without-doublewrite",
            "innodb_doublewrite is OFF",
            "a power cut in the middle of a page damages the table",
            "set innodb_doublewrite=ON, unless the file system writes pages atomically",
        ));
    }
    if facts.text("read_only").is_some_and(|word| matches!(word, "ON" | "1")) {
        findings.push(Finding::critical(
            "server-read-only",
            "the server is read-only",
            "no session can be saved; it may be a replica",
            "name the primary in the URL",
        ));
    }
    let several = facts.text("wsrep_on") == Some("ON")
        || facts.text("group_replication_single_primary_mode") == Some("OFF");
    // Of several that the URL names, all workers use the first one that is there.
    if several && subject.url.further_hosts().is_empty() {
        findings.push(Finding::critical(
            "several-primaries",
            "several servers of a cluster take writes",
            "none knows the locks of another, so commits are refused as stale",
            "name all of them in the URL, in the same order on all web servers",
        ));
    }
    if facts.text("behind_proxy") == Some("yes") {
        findings.push(Finding::warning(
            "behind-proxy",
            "there is a proxy before the server",
            "a lock belongs to one connection: a proxy that shares connections loses it",
            "turn off its multiplexing and its reads from replicas, or go past it",
        ));
    }
    if let Some(indexes) = facts.text("indexes")
        && !indexes.split(',').any(|name| name.eq_ignore_ascii_case("due"))
    {
        findings.push(Finding::critical(
            "index-missing",
            "the table has no index `due`",
            "each sweep reads the whole table",
            format!("ALTER TABLE {} ADD KEY due (due)", facts.text("table").unwrap_or_default()),
        ));
    }
    let workers = subject.examination.workers.unwrap_or(0);
    if let Some(most) = facts.number("max_connections").filter(|most| *most < workers) {
        findings.push(Finding::warning(
            "few-connections",
            format!("max_connections is {most}, and there are {workers} workers"),
            "a worker that gets no connection has no session",
            format!("set max_connections to {} or more", workers + 32),
        ));
    }
}

fn check_packet(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let Some(packet) = facts.number("max_allowed_packet") else { return };
    let wanted = subject.url.number("payload_bytes_max", 0, 0..=u64::MAX).unwrap_or(0);
    let largest = facts.number("largest_payload").unwrap_or(0);
    // A payload that travels in the text of a statement takes twice its bytes.
    let needed = (wanted + PACKET_OVERHEAD).max(2 * largest);
    if packet < needed {
        findings.push(Finding::critical(
            "packet-small",
            format!(
                "max_allowed_packet is {packet} bytes; the URL allows payloads of {wanted}, and \
                 the largest that was found has {largest}"
            ),
            "a larger session is refused at its save",
            format!("set max_allowed_packet to {} or more", needed.next_power_of_two()),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examination::with_subject;

    #[test]
    fn planted_facts_of_a_cluster_and_a_proxy_are_found() {
        for (planted, codes) in [
            (
                &[
                    ("behind_proxy", "no"),
                    ("wsrep_on", "OFF"),
                    ("group_replication_single_primary_mode", "ON"),
                ] as &[_],
                &[] as &[&str],
            ),
            (&[("behind_proxy", "yes")] as &[_], &["behind-proxy"] as &[&str]),
            (&[("wsrep_on", "ON")] as &[_], &["several-primaries"] as &[&str]),
            (
                &[("group_replication_single_primary_mode", "OFF")] as &[_],
                &["several-primaries"] as &[&str],
            ),
        ] {
            let found = with_subject("mysql://127.0.0.1/shop", |subject, findings| {
                let mut facts = ServerFacts::default();
                planted.iter().for_each(|(name, value): &(&str, &str)| facts.put(name, *value));
                check(subject, &facts, findings);
            });
            assert_eq!(found, codes, "{planted:?}");
        }
        let found = with_subject("mysql://127.0.0.1,127.0.0.2/shop", |subject, findings| {
            let mut facts = ServerFacts::default();
            facts.put("wsrep_on", "ON");
            check(subject, &facts, findings);
        });
        assert_eq!(found, [] as [&str; 0], "all nodes are named");
    }
}
