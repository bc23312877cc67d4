//! From what the connection and the server report to errors of the contract.
//!
//! Invariant: no id, payload or password gets into an error. The server quotes what it refuses
//! (`Duplicate entry ...`), so its texts are passed on only where they name users, hosts, databases
//! and tables; of all others the number is kept. Source of the numbers: the vendors' lists of
//! server error codes.

use std::io;

use mysql_common::packets::ServerError;
use sessile_core::{Error, ErrorKind};

use crate::connections::failure::{
    FULL, Meaning, NO_DATABASE, OUT_OF_MEMORY, REFUSED, UNREACHED, distrust, error,
};
use crate::connections::pool::AttemptFailure;

pub enum MysqlFailure {
    /// The server refused. The connection is good unless the code says otherwise.
    Server {
        code: u16,
        state: String,
        message: String,
    },
    Connection(io::Error),
    /// What the server says cannot be understood.
    Garbled,
    Contract(Error),
    /// The row changed between two looks at it. Nothing was done.
    RowChanged,
}

impl From<ErrorKind> for MysqlFailure {
    fn from(kind: ErrorKind) -> MysqlFailure {
        MysqlFailure::Contract(kind.into())
    }
}

impl From<Error> for MysqlFailure {
    fn from(error: Error) -> MysqlFailure {
        MysqlFailure::Contract(error)
    }
}

pub(super) type Attempt<T> = Result<T, MysqlFailure>;

pub(super) const DUPLICATE_COLUMN: u16 = 1_060;
pub(super) const DUPLICATE_INDEX: u16 = 1_061;
pub(super) const DUPLICATE: u16 = 1_062;
pub(super) const LOCK_WAIT: u16 = 1_205;
pub(super) const DEADLOCK: u16 = 1_213;
/// A column that must have a value got NULL: how the statement of a commit says that the lock is
/// lost.
pub(super) const NO_VALUE: u16 = 1_048;
/// A prepared statement that the server has lost, or cannot bring up to date with its table.
/// Nothing was executed.
pub(super) const FORGOTTEN: [u16; 2] = [1_243, 1_615];
/// `max_prepared_stmt_count` is reached.
pub(super) const NO_MORE_STATEMENTS: u16 = 1_461;
/// By an option, by the role in a replication.
const READ_ONLY: [u16; 2] = [1_290, 1_836];
/// Of a node that has lost its cluster, or has not joined it yet. This statement was not executed.
const OUTSIDE_CLUSTER: u16 = 1_047;
/// In a cluster: the node lost the others while they decided (Galera, Group Replication). They may
/// have made the change.
const COMMIT_FAILED: [u16; 2] = [1_180, 3_100];
/// Group Replication: another server's change of the same row came first. Rolled back.
const CERTIFICATION: u16 = 3_101;
/// Shutdown, KILL, time-out of the network.
const ENDING: [u16; 10] = [1_053, 1_077, 1_079, 1_080, 1_158, 1_159, 1_160, 1_161, 1_927, 4_031];
/// Of all, of a user, by resource limits.
const CROWDED: [u16; 3] = [1_040, 1_203, 1_226];
/// The texts that name users, hosts, databases, tables and options, and never a value.
const QUOTABLE: [u16; 19] = [
    1_040, 1_044, 1_045, 1_047, 1_049, 1_129, 1_130, 1_142, 1_143, 1_146, 1_203, 1_226, 1_227,
    1_290, 1_370, 1_665, 1_698, 1_836, 1_927,
];

impl MysqlFailure {
    pub(super) fn said(refusal: &ServerError<'_>) -> MysqlFailure {
        MysqlFailure::Server {
            code: refusal.error_code(),
            state: refusal.sql_state_ref().map_or("?".into(), |state| state.as_str()).into_owned(),
            message: refusal.message_str().into_owned(),
        }
    }

    /// As the server refuses a change.
    pub(super) fn demoted() -> MysqlFailure {
        MysqlFailure::standby("The MySQL server is running with the --read-only option")
    }

    /// Of a server that might take a change, and must not.
    pub(super) fn standby(why: &str) -> MysqlFailure {
        let [code, _] = READ_ONLY;
        MysqlFailure::Server { code, state: "HY000".to_owned(), message: why.to_owned() }
    }

    /// Of a node that is not in step with its cluster.
    pub(super) fn outside_cluster(why: &str) -> MysqlFailure {
        let (code, state) = (OUTSIDE_CLUSTER, "08S01".to_owned());
        MysqlFailure::Server { code, state, message: why.to_owned() }
    }

    pub(super) fn is(&self, codes: &[u16]) -> bool {
        matches!(self, MysqlFailure::Server { code, .. } if codes.contains(code))
    }

    /// Whether the server closes the connection, and says why.
    pub(super) fn ends_session(&self) -> bool {
        self.is(&ENDING)
    }

    /// Whether another transaction on the same rows was in the way. This one was rolled back, or
    /// must be.
    pub(super) fn is_collision(&self) -> bool {
        matches!(self, MysqlFailure::RowChanged)
            || self.is(&[DEADLOCK, LOCK_WAIT, DUPLICATE, CERTIFICATION])
    }
}

impl AttemptFailure for MysqlFailure {
    fn is_transient(&self) -> bool {
        match self {
            MysqlFailure::Connection(error) => distrust(&error.to_string()).is_none(),
            _ => {
                self.ends_session()
                    || self.is(&CROWDED)
                    || self.is(&COMMIT_FAILED)
                    || self.is_collision()
            }
        }
    }

    fn breaks_connection(&self) -> bool {
        match self {
            MysqlFailure::Server { .. } => {
                self.ends_session() || self.is_demotion() || self.is(&COMMIT_FAILED)
            }
            MysqlFailure::Connection(_) | MysqlFailure::Garbled => true,
            MysqlFailure::Contract(_) | MysqlFailure::RowChanged => false,
        }
    }

    fn is_demotion(&self) -> bool {
        self.is(&READ_ONLY) || self.is(&[OUTSIDE_CLUSTER])
    }

    /// A node that loses its cluster refuses one statement of a message after the commit of the one
    /// before it.
    fn leaves_doubt(&self) -> bool {
        self.breaks_connection() && !self.is(&READ_ONLY)
    }
}

impl From<MysqlFailure> for Error {
    fn from(failure: MysqlFailure) -> Error {
        match failure {
            MysqlFailure::Contract(error) => error,
            MysqlFailure::RowChanged => {
                Error::new(ErrorKind::Io, "others changed the record again and again meanwhile")
            }
            MysqlFailure::Server { code, state, message } => {
                let text = if QUOTABLE.contains(&code) { &message } else { "its text is left out" };
                error(meaning(code)).source(format!("server error {code} ({state}): {text}"))
            }
            // The error of a socket or of TLS, which have seen no values.
            MysqlFailure::Connection(cause) => {
                error(distrust(&cause.to_string()).unwrap_or(UNREACHED)).source(cause)
            }
            MysqlFailure::Garbled => {
                Error::new(ErrorKind::Incompatible, "the server gave an answer that cannot be read")
                    .advice("connect to MySQL or MariaDB")
            }
        }
    }
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn meaning(code: u16) -> Meaning {
    use ErrorKind::{Denied, Incompatible, Io, Unreachable};
    match code {
        1_045 | 1_698 => (
            Denied,
            "the server refuses user or password",
            "correct the user and password of the URL, or password_file",
        ),
        1_044 => (
            Denied,
            "the user may not use the database",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON the database TO the user",
        ),
        1_049 => NO_DATABASE,
        1_129 | 1_130 => (
            Denied,
            "the server does not let this host in",
            "GRANT access to user@host, or FLUSH HOSTS after too many failed attempts",
        ),
        1_142 | 1_143 | 1_227 | 1_370 => (
            Denied,
            "the user lacks a right",
            "GRANT SELECT, INSERT, UPDATE, DELETE on the table, and CREATE for the first start",
        ),
        code if READ_ONLY.contains(&code) => (
            Denied,
            "the server is read-only",
            "connect to the primary; a replica and a server with read_only take no sessions",
        ),
        OUTSIDE_CLUSTER => (
            Unreachable,
            "the server is outside of its cluster",
            "look at wsrep_cluster_status and wsrep_ready; name several nodes in the URL",
        ),
        code if COMMIT_FAILED.contains(&code) => (
            Unreachable,
            "the server failed to commit, and may have",
            "begin anew and look at the session; the server's log says why",
        ),
        code if CROWDED.contains(&code) => (
            Unreachable,
            "the server has no free connection",
            "raise max_connections (or the user's limit): each worker needs one, and one for each \
             session it holds",
        ),
        code if ENDING.contains(&code) => (
            Unreachable,
            "the server closed the connection",
            "look into the server's log: it was restarted, or the connection was killed",
        ),
        1_021 | 1_114 => FULL,
        1_037 | 1_038 | 1_041 | 1_135 => OUT_OF_MEMORY,
        1_146 | 1_054 => (
            Incompatible,
            "the table is gone or is another one",
            "restart the workers: the table is created when the store is opened",
        ),
        1_665 => (
            Incompatible,
            "the server's binary log works in statements only",
            "set binlog_format to MIXED or ROW, which all present servers have by default",
        ),
        LOCK_WAIT | DEADLOCK | CERTIFICATION => (
            Io,
            "another transaction keeps the row locked",
            "look for a tool that holds a transaction open on the table (SHOW ENGINE INNODB \
             STATUS)",
        ),
        1_118 | 1_153 | 1_301 | 1_713 => (
            Io,
            "the server does not take a row of this size",
            "raise max_allowed_packet and the size of its redo log, or lower payload_bytes_max",
        ),
        _ => REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, message: &str) -> MysqlFailure {
        MysqlFailure::Server { code, state: "HY000".into(), message: message.into() }
    }

    fn contract_error(code: u16, message: &str) -> Error {
        of(code, message).into()
    }

    #[test]
    fn what_the_server_quotes_stays_out_of_the_error() {
        let error = contract_error(1_062, "Duplicate entry 'session-s3cret' for key 'PRIMARY'");
        assert!(!format!("{error:#}").contains("s3cret"));
        assert!(format!("{error:#}").contains("1062"));
        let error = contract_error(1_064, "You have an error near 's3cret'");
        assert!(!format!("{error:?}").contains("s3cret"));
        let error =
            contract_error(1_045, "Access denied for user 'shop'@'web1' (using password: YES)");
        assert!(format!("{error:#}").contains("'shop'@'web1'"));
    }

    #[test]
    fn each_trouble_of_an_operator_is_told_apart() {
        let code = |number| contract_error(number, "").kind().code();
        assert_eq!([1_045, 1_044, 1_142, 1_290, 1_130].map(code), ["denied"; 5]);
        assert_eq!([1_040, 1_203, 1_226, 1_053, 1_927].map(code), ["unreachable"; 5]);
        assert_eq!([1_047, 1_180].map(code), ["unreachable"; 2]);
        assert_eq!(
            [1_049, 1_114, 1_041, 1_146].map(code),
            ["invalid-url", "full", "out-of-memory", "incompatible"]
        );
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_not_is_told_at_once() {
        for code in [1_040, 1_053, 1_062, 1_205, 1_213, 1_927] {
            assert!(of(code, "").is_transient(), "{code}");
        }
        for code in [1_045, 1_044, 1_049, 1_064, 1_290, 1_146] {
            assert!(!of(code, "").is_transient(), "{code}");
        }
    }

    /// A cluster may have taken the change of a node that lost it meanwhile: told as refused, it
    /// would be made twice. A node refuses `DO RELEASE_LOCK` after it has committed the change
    /// before it in the message.
    #[test]
    fn only_a_server_that_is_read_only_has_certainly_not_made_a_change() {
        for (code, is_demotion, leaves_doubt) in [
            (1_290, true, false),
            (1_836, true, false),
            (1_047, true, true),
            (1_180, false, true),
            (3_100, false, true),
        ] {
            let failure = of(code, "");
            assert_eq!(failure.is_demotion(), is_demotion, "{code}");
            assert_eq!(failure.leaves_doubt(), leaves_doubt, "{code}");
            assert!(failure.breaks_connection(), "{code}");
        }
    }
}
