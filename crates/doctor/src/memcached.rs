//! The settings of a memcached server against what sessions need.

use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;

const MEMORY_PERCENT_MAX: u64 = 80;

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let name = facts.text("name").unwrap_or_default();
    if facts.text("setting cas_enabled") == Some("no") {
        findings.push(Finding::critical(
            "without-cas",
            format!("{name} runs without CAS (-C)"),
            "nothing prevents lost updates, and the store refuses to open",
            "start it without -C",
        ));
    }
    let wanted = subject.url.number("payload_bytes_max", 0, 0..=u64::MAX).unwrap_or(0);
    if let Some(most) = facts.number("setting item_size_max").filter(|most| *most < wanted) {
        findings.push(Finding::critical(
            "item-size-small",
            format!("{name} takes items of {most} bytes (-I), the URL allows {wanted}"),
            "a larger session is refused at its save",
            "start it with a larger -I, or lower payload_bytes_max, or use route:",
        ));
    }
    if let Some(evicted) = facts.number("evictions").filter(|evicted| *evicted > 0) {
        let days = facts.number("uptime").unwrap_or(0) / 86_400;
        // The server does not tell when: what was too small a month ago is no emergency.
        findings.push(Finding::warning(
            "memcached-evicts",
            format!("{name} has evicted {evicted} items in the {days} days since its start"),
            "live sessions were dropped for new ones: visitors were logged out",
            "start it with a larger -m, or keep caches on another server",
        ));
    } else if let (Some(used), Some(most)) =
        (facts.number("bytes"), facts.number("limit_maxbytes").filter(|most| *most > 0))
        && used * 100 / most >= MEMORY_PERCENT_MAX
    {
        findings.push(Finding::warning(
            "memcached-nearly-full",
            format!("{name} uses {} MiB of {} MiB (-m)", used >> 20, most >> 20),
            "a full server drops live sessions for new ones",
            "start it with a larger -m",
        ));
    }
    let workers = subject.examination.workers.unwrap_or(0);
    if let Some(most) = facts.number("setting maxconns").filter(|most| *most < workers) {
        findings.push(Finding::warning(
            "few-connections",
            format!("{name} takes {most} connections (-c), and there are {workers} workers"),
            "a worker that gets no connection has no session",
            format!("start it with -c {} or more", workers + 32),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;
    use crate::examination::with_subject;

    #[test]
    fn a_server_that_fills_up_is_found_before_it_evicts() {
        for (used, codes) in [("50", &[] as &[&str]), ("90", &["memcached-nearly-full"])] {
            let found = with_subject("memcached://127.0.0.1", |subject, findings| {
                let mut facts = ServerFacts::default();
                for (name, value) in [("bytes", used), ("limit_maxbytes", "100")] {
                    facts.put(name, value);
                }
                check(subject, &facts, findings);
            });
            assert_eq!(found, codes, "{used}");
        }
    }

    /// A server that was too small a month ago was a critical finding until its next start.
    #[test]
    fn what_was_evicted_is_told_with_the_time_in_which_it_was() {
        let mut facts = ServerFacts::default();
        for (name, value) in [("evictions", "3"), ("uptime", "864000")] {
            facts.put(name, value);
        }
        let mut told = Vec::new();
        with_subject("memcached://127.0.0.1", |subject, _| check(subject, &facts, &mut told));
        let [finding] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("3 items in the 10 days"), "{finding:?}");
    }
}
