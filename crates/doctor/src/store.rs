//! The store itself: whether it can be reached and opened, and what has expired in it.

use sessile_core::{Capabilities, Error, ErrorKind, Expiry};
use sessile_stores::{Context, registry};

use crate::examination::Subject;
use crate::finding::Finding;
use crate::place::Place;

/// The code of a server that cannot be asked.
pub const UNREACHABLE: &str = "unreachable";
/// Fewer expired records than this take no notable room.
const EXPIRED_MIN: u64 = 1_000;

pub fn unreachable(error: &Error) -> Finding {
    let code = match error.kind() {
        ErrorKind::Unreachable | ErrorKind::Denied => UNREACHABLE,
        _ => "server-refuses",
    };
    Finding::critical(
        code,
        format!("{error:#}"),
        "no session can be read or saved",
        "follow the advice in the message",
    )
}

pub fn check(subject: &Subject<'_>, place: Option<&Place>, findings: &mut Vec<Finding>) {
    let examination = subject.examination;
    if let Some(owner) = place.and_then(|place| place.foreign_to_root(subject)) {
        findings.push(Finding::warning(
            "not-opened",
            format!("the store belongs to {owner}, and this examination runs as root"),
            "files that root makes could not be opened by the workers, so nothing was opened",
            format!("run it as {owner}: setpriv --reuid={owner} or sudo -u {owner}"),
        ));
        return;
    }
    let context = Context { clock: examination.clock.clone() };
    let opened = registry::check_exists(&examination.url)
        .and_then(|()| registry::open_to_look(&examination.url, &context));
    let sessions = match opened {
        Ok(sessions) => sessions,
        Err(error) => {
            // Said in better words by a rule that knows the cause.
            if findings.iter().any(|finding| EXPLAIN_REFUSAL.contains(&finding.code)) {
                return;
            }
            findings.push(Finding::critical(
                "cannot-open",
                format!("{error:#}"),
                "no session can be read or saved",
                "follow the advice in the message; the first request creates a store that was \
                 never used",
            ));
            return;
        }
    };
    let Ok(stat) = sessions.stat() else { return };
    let Capabilities { expiry, .. } = sessions.capabilities();
    if expiry == Expiry::Sweep && stat.expired >= EXPIRED_MIN && stat.expired > stat.sessions {
        findings.push(Finding::warning(
            "no-collector",
            format!("{} sessions have expired, and {} live", stat.expired, stat.sessions),
            "nobody removes expired sessions, which take space and slow each look at the store",
            "run sessile gc from a timer (docs/operations.md, \"Remove: gc\")",
        ));
    }
}

const EXPLAIN_REFUSAL: [&str; 6] = [
    "read-only",
    "writable-by-others",
    "network-file-system",
    "transactions-pooled",
    "without-cas",
    "server-refuses",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_is_told_from_one_that_is_not_there() {
        let code = |kind| unreachable(&Error::new(kind, "planted")).code;
        assert_eq!(code(ErrorKind::Unreachable), UNREACHABLE);
        assert_eq!(code(ErrorKind::Denied), UNREACHABLE);
        assert_eq!(code(ErrorKind::Unsupported), "server-refuses");
        assert_eq!(code(ErrorKind::Io), "server-refuses");
    }
}
