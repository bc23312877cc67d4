//! From what the client crate and the server report to errors of the contract.
//!
//! Invariant: no id, payload or password gets into an error. The server quotes what it refuses (`Duplicate entry ...`,
//! `syntax error near ...`), so its texts are passed on only where they name users, hosts, databases and tables; of all
//! others the number is kept. Source of the numbers: the vendors' lists of server error codes.

use std::fmt;

use mysql::{DriverError, Error as Cause, MySqlError};
use sessile_core::{Error, ErrorKind, Result};

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The client crate or the server says no.
    Driver(Cause),
    /// The contract does.
    Ours(Error),
    /// Someone changed the row between two looks at it. Nothing was done.
    Moved,
}

impl From<Cause> for Fault {
    fn from(cause: Cause) -> Fault {
        Fault::Driver(cause)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Ours(error)
    }
}

pub(super) type Attempt<T> = std::result::Result<T, Fault>;

const DUPLICATE: u16 = 1_062;
/// A column that must have a value would get none.
const NO_VALUE: u16 = 1_048;
/// A prepared statement that the server does not know (any more), and one that it cannot bring up to date with its table.
const FORGOTTEN: [u16; 2] = [1_243, 1_615];
/// `max_prepared_stmt_count` is reached.
const NO_MORE_STATEMENTS: u16 = 1_461;
const LOCK_WAIT: u16 = 1_205;
const DEADLOCK: u16 = 1_213;
/// The server ends the connection: shutdown, KILL, time-out of the network.
const ENDING: [u16; 10] = [1_053, 1_077, 1_079, 1_080, 1_158, 1_159, 1_160, 1_161, 1_927, 4_031];
/// Not now: too many connections (of all, of a user, by resource limits).
const CROWDED: [u16; 3] = [1_040, 1_203, 1_226];
/// Whose texts name users, hosts, databases, tables and options, and never a value.
const QUOTABLE: [u16; 18] = [
    1_040, 1_044, 1_045, 1_049, 1_129, 1_130, 1_142, 1_143, 1_146, 1_203, 1_226, 1_227, 1_290, 1_370, 1_665, 1_698,
    1_836, 1_927,
];

impl Fault {
    fn code(&self) -> Option<u16> {
        match self {
            Fault::Driver(Cause::MySqlError(error)) => Some(error.code),
            _ => None,
        }
    }

    fn is(&self, codes: &[u16]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Whether the same request may succeed after a short wait, or on a new connection.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Fault::Moved => true,
            // A connection that breaks within a packet is one of the codec.
            Fault::Driver(cause @ (Cause::IoError(_) | Cause::CodecError(_))) => !is_distrust(&cause.to_string()),
            Fault::Driver(Cause::DriverError(error)) => {
                matches!(error, DriverError::ConnectTimeout | DriverError::CouldNotConnect(_) | DriverError::Timeout)
            }
            _ => self.is(&ENDING) || self.is(&CROWDED) || self.is_collision(),
        }
    }

    /// Whether it is about another transaction on the same rows: this one was rolled back, or must be.
    pub(super) fn is_collision(&self) -> bool {
        matches!(self, Fault::Moved) || self.is(&[DEADLOCK, LOCK_WAIT])
    }

    /// Whether a row with this key is there already.
    pub(super) fn is_duplicate(&self) -> bool {
        self.is(&[DUPLICATE])
    }

    /// Whether a column was given no value: how the statement of a commit says that the lock is not ours any more.
    pub(super) fn is_lack_of_value(&self) -> bool {
        self.is(&[NO_VALUE])
    }

    /// Whether the server prepares no more statements, or has lost one. Nothing was executed.
    pub(super) fn is_lack_of_statements(&self) -> bool {
        self.is(&[NO_MORE_STATEMENTS]) || self.is_forgotten()
    }

    /// Whether a statement that was prepared is of no more use. It was not executed.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is(&FORGOTTEN)
    }

    /// Whether the row, or the table, stayed locked by others for too long.
    pub(super) fn is_long_wait(&self) -> bool {
        self.is(&[LOCK_WAIT])
    }

    /// Whether the connection can no longer be used.
    pub(super) fn breaks_connection(&self) -> bool {
        match self {
            Fault::Driver(Cause::MySqlError(_)) => self.is(&ENDING),
            Fault::Driver(_) => true,
            Fault::Ours(_) | Fault::Moved => false,
        }
    }

    /// The error of the contract.
    pub(super) fn into_error(self) -> Error {
        match self {
            Fault::Ours(error) => error,
            Fault::Moved => Error::new(ErrorKind::Io, "others changed the record again and again meanwhile"),
            Fault::Driver(Cause::MySqlError(error)) => refused(&error),
            Fault::Driver(cause) => unreached(cause),
        }
    }
}

/// The result of the last attempt as the contract has it.
pub(super) fn settled<T>(attempt: Attempt<T>) -> Result<T> {
    attempt.map_err(Fault::into_error)
}

/// Whether one side did not accept the certificate of the other. The TLS library's own error is out of reach behind that
/// of the client crate, so its text has to do; were it reworded, the error would be `Unreachable`.
fn is_distrust(text: &str) -> bool {
    text.contains("invalid peer certificate") || text.contains("received fatal alert")
}

/// What the client crate could not do.
fn unreached(cause: Cause) -> Error {
    let text = cause.to_string();
    let (kind, why, advice) = match &cause {
        Cause::TlsError(_) => (ErrorKind::Denied, "TLS cannot be set up", "check the tls_ options and their files"),
        _ if is_distrust(&text) => (
            ErrorKind::Denied,
            "the certificates are not accepted",
            "name the authority in tls_ca_file, and a client certificate if the server asks for one",
        ),
        Cause::DriverError(DriverError::TlsNotSupported) => {
            (ErrorKind::Denied, "the server offers no TLS", "give it a certificate, or leave out tls=1")
        }
        Cause::DriverError(
            DriverError::UnknownAuthPlugin(_)
            | DriverError::OldMysqlPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        ) => (
            ErrorKind::Denied,
            "the server asks for a way to log in that the client does not know",
            "give the user a password by mysql_native_password or caching_sha2_password",
        ),
        Cause::IoError(_) | Cause::CodecError(_) | Cause::DriverError(_) => (
            ErrorKind::Unreachable,
            "the server does not answer",
            "check that it runs, that address and port are right, and that no firewall is in between",
        ),
        _ => (ErrorKind::Incompatible, "the server gave an answer that cannot be read", "connect to MySQL or MariaDB"),
    };
    Error::new(kind, why).advice(advice).source(Unquoted(match cause {
        // These two may contain a value of a row.
        Cause::FromRowError(_) | Cause::FromValueError(_) | Cause::MySqlError(_) => "a value cannot be read".into(),
        _ => text,
    }))
}

/// What the server does not do.
fn refused(error: &MySqlError) -> Error {
    let (kind, why, advice) = meaning(error.code);
    let text = if QUOTABLE.contains(&error.code) { error.message.as_str() } else { "its text is left out" };
    let source = Unquoted(format!("server error {} ({}): {text}", error.code, error.state));
    Error::new(kind, why).advice(advice).source(source)
}

fn meaning(code: u16) -> (ErrorKind, &'static str, &'static str) {
    match code {
        1_045 | 1_698 => (
            ErrorKind::Denied,
            "the server refuses user or password",
            "correct the user and password of the URL, or password_file",
        ),
        1_044 => (
            ErrorKind::Denied,
            "the user may not use the database",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON the database TO the user",
        ),
        1_049 => (ErrorKind::InvalidUrl, "the server has no database of this name", "correct it, or create it"),
        1_129 | 1_130 => (
            ErrorKind::Denied,
            "the server does not let this host in",
            "GRANT access to user@host, or FLUSH HOSTS after too many failed attempts",
        ),
        1_142 | 1_143 | 1_227 | 1_370 => (
            ErrorKind::Denied,
            "the user lacks a right",
            "GRANT SELECT, INSERT, UPDATE, DELETE on the table, and CREATE for the first start",
        ),
        1_290 | 1_836 => (
            ErrorKind::Denied,
            "the server is read-only",
            "connect to the primary; a replica and a server with read_only take no sessions",
        ),
        code if CROWDED.contains(&code) => (
            ErrorKind::Unreachable,
            "the server has no free connection",
            "raise max_connections (or the user's limit): each worker needs one, and one for each session it holds",
        ),
        code if ENDING.contains(&code) => (
            ErrorKind::Unreachable,
            "the server closed the connection",
            "look into the server's log: it was restarted, or the connection was killed",
        ),
        1_021 | 1_114 => (ErrorKind::Full, "the server has no space left", "free disk space on the server"),
        1_037 | 1_038 | 1_041 | 1_135 => (ErrorKind::OutOfMemory, "the server has no memory left", "give it more"),
        1_146 | 1_054 => (
            ErrorKind::Incompatible,
            "the table is gone or is another one",
            "restart the workers: the table is created when the store is opened",
        ),
        1_665 => (
            ErrorKind::Incompatible,
            "the server's binary log works in statements only",
            "set binlog_format to MIXED or ROW, which all present servers have by default",
        ),
        LOCK_WAIT | DEADLOCK => (
            ErrorKind::Io,
            "another transaction keeps the row locked",
            "look for a tool that holds a transaction open on the table (SHOW ENGINE INNODB STATUS)",
        ),
        1_118 | 1_153 | 1_301 | 1_713 => (
            ErrorKind::Io,
            "the server does not take a row of this size",
            "raise max_allowed_packet and the size of its redo log, or lower payload_bytes_max",
        ),
        _ => (ErrorKind::Io, "the server refuses a statement", "look up the number in the cause"),
    }
}

/// A cause that was checked to quote nothing.
#[derive(Debug)]
struct Unquoted(String);

impl fmt::Display for Unquoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unquoted {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, message: &str) -> Fault {
        Fault::Driver(Cause::MySqlError(MySqlError { state: "HY000".into(), message: message.into(), code }))
    }

    #[test]
    fn what_the_server_quotes_stays_out_of_the_error() {
        let error = of(1_062, "Duplicate entry 'session-s3cret' for key 'PRIMARY'").into_error();
        assert!(!format!("{error:#}").contains("s3cret"));
        assert!(format!("{error:#}").contains("1062"));
        let error = of(1_064, "You have an error near 's3cret'").into_error();
        assert!(!format!("{error:?}").contains("s3cret"));
        let error = of(1_045, "Access denied for user 'shop'@'web1' (using password: YES)").into_error();
        assert!(format!("{error:#}").contains("'shop'@'web1'"));
    }

    #[test]
    fn each_trouble_of_an_operator_is_told_apart() {
        let code = |number| of(number, "").into_error().kind().code();
        assert_eq!([1_045, 1_044, 1_142, 1_290, 1_130].map(code), ["denied"; 5]);
        assert_eq!([1_040, 1_203, 1_226, 1_053, 1_927].map(code), ["unreachable"; 5]);
        assert_eq!([1_049, 1_114, 1_041, 1_146].map(code), ["invalid-url", "full", "out-of-memory", "incompatible"]);
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_not_is_told_at_once() {
        for code in [1_040, 1_053, 1_205, 1_213, 1_927] {
            assert!(of(code, "").is_transient(), "{code}");
        }
        for code in [1_045, 1_044, 1_049, 1_064, 1_062, 1_290, 1_146] {
            assert!(!of(code, "").is_transient(), "{code}");
        }
    }
}
