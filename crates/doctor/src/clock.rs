//! The clocks of this host and of the server: records carry their expiry by the clock of the host
//! that wrote them.

use std::time::Duration;

use sessile_stores::ask_server::{ServerFacts, ServerTime};

use crate::examination::Subject;
use crate::finding::Finding;

/// A session that lives this much shorter is not noticed. memcached counts whole seconds.
const APART_MAX: Duration = Duration::from_secs(3);

pub fn check(subject: &Subject<'_>, facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let Some(ServerTime { said: theirs, took, at }) = facts.time else { return };
    // When the answer came: the questions after it may have taken long.
    let ours = subject.examination.clock.now().minus(at.elapsed());
    let apart = ours.since(theirs).max(theirs.since(ours)).saturating_sub(took);
    if apart > APART_MAX {
        findings.push(Finding::warning(
            "clocks-apart",
            format!("the clocks of this host and of the server differ by {} s", apart.as_secs()),
            "sessions expire by the clock of the host that wrote them: too early, or too late",
            "run chrony or systemd-timesyncd on both",
        ));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::examination::with_subject;

    /// The time that the other questions took was taken for a difference of the clocks.
    #[test]
    fn a_slow_examination_is_no_difference_of_clocks() {
        let found = |apart: u64| {
            with_subject("memcached://127.0.0.1", |subject, findings| {
                let (ago, took) = (Duration::from_secs(60), Duration::from_millis(1));
                let then = subject.examination.clock.now().minus(ago);
                let said = then.minus(Duration::from_secs(apart));
                let at = Instant::now().checked_sub(ago).unwrap();
                let mut facts = ServerFacts::default();
                facts.time = Some(ServerTime { said, took, at });
                check(subject, &facts, findings);
            })
        };
        assert_eq!(found(0), Vec::<&str>::new());
        assert_eq!(found(10), ["clocks-apart"]);
    }
}
