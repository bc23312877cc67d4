//! The clocks of this host and of the server: records carry their expiry by the clock of the host
//! that wrote them.

use std::time::Duration;

use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;

/// A session that lives this much shorter is not noticed. memcached counts whole seconds.
const APART_MAX: Duration = Duration::from_secs(3);

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let Some((theirs, asked_for)) = facts.time else { return };
    let ours = subject.examination.clock.now();
    let apart = ours.since(theirs).max(theirs.since(ours)).saturating_sub(asked_for);
    if apart > APART_MAX {
        findings.push(Finding::warning(
            "clocks-apart",
            format!("the clocks of this host and of the server differ by {} s", apart.as_secs()),
            "sessions expire by the clock of the host that wrote them: too early, or too late",
            "run chrony or systemd-timesyncd on both",
        ));
    }
}
