//! From what the protocol and the server report to errors of the contract.
//!
//! Invariant: no error repeats a value. The server's DETAIL prints a violated key in full, so only
//! the code and the message are taken.

use std::fmt::Display;
use std::io;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use sessile_core::{Error, ErrorKind};

use crate::connections::doubt::is_unsent;
use crate::connections::failure::{
    DISTRUSTED, FULL, Meaning, NO_DATABASE, OUT_OF_MEMORY, REFUSED, UNREACHED, distrust, error,
};
use crate::connections::pool::AttemptFailure;

/// Source: PostgreSQL's documentation, appendix "PostgreSQL Error Codes".
pub(super) mod code {
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    /// `statement_timeout` is over, or an operator cancelled it.
    pub const QUERY_CANCELED: &str = "57014";
    pub const READ_ONLY: &str = "25006";
    pub const UNDEFINED_COLUMN: &str = "42703";
}

pub(super) type Attempt<T> = Result<T, PostgresFailure>;

pub enum PostgresFailure {
    /// The contract has words for it; trying again would not help.
    Told(Error),
    /// The server refused. The connection is good unless the code says otherwise.
    Server {
        code: String,
        message: String,
    },
    Connection(io::Error),
    /// Refused here: before anything was sent, or because the answer cannot be understood.
    Client(String),
}

impl From<Error> for PostgresFailure {
    fn from(error: Error) -> PostgresFailure {
        PostgresFailure::Told(error)
    }
}

impl From<ErrorKind> for PostgresFailure {
    fn from(kind: ErrorKind) -> PostgresFailure {
        PostgresFailure::Told(kind.into())
    }
}

/// Of the client crate: a message that cannot be written or read.
impl From<io::Error> for PostgresFailure {
    fn from(error: io::Error) -> PostgresFailure {
        PostgresFailure::Client(error.to_string())
    }
}

pub fn unexpected() -> PostgresFailure {
    PostgresFailure::Client("the server answers something else than was asked".to_owned())
}

impl PostgresFailure {
    pub fn said(refusal: &ErrorResponseBody) -> PostgresFailure {
        let (mut code, mut message) = (String::new(), String::new());
        let mut fields = refusal.fields();
        // A field that cannot be read ends the list.
        while let Ok(Some(field)) = fields.next() {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => code = text(),
                b'M' => message = text(),
                _ => {}
            }
        }
        PostgresFailure::Server { code, message }
    }

    pub fn standby() -> PostgresFailure {
        let message = "it is in recovery, or its transactions are read-only".to_owned();
        PostgresFailure::Server { code: code::READ_ONLY.to_owned(), message }
    }

    pub fn gone() -> PostgresFailure {
        PostgresFailure::Connection(io::ErrorKind::ConnectionAborted.into())
    }

    pub fn no_tls(cause: impl Display) -> PostgresFailure {
        let advice =
            "check that the server has TLS (ssl = on) and who signed its certificate (tls_ca_file)";
        Error::new(ErrorKind::Denied, "no TLS connection could be made")
            .advice(advice)
            .source(cause.to_string())
            .into()
    }

    pub fn no_login(cause: impl Display) -> PostgresFailure {
        let why = "the server asks for a login that this client does not know";
        Error::new(ErrorKind::Denied, why)
            .advice("use a password (scram-sha-256 or md5 in pg_hba.conf)")
            .source(cause.to_string())
            .into()
    }

    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, PostgresFailure::Server { code, .. } if code == wanted)
    }
}

impl AttemptFailure for PostgresFailure {
    fn is_demotion(&self) -> bool {
        self.is(code::READ_ONLY)
    }

    fn leaves_doubt(&self) -> bool {
        let unsent = matches!(self, PostgresFailure::Connection(error) if is_unsent(error));
        self.breaks_connection() && !self.is_demotion() && !unsent
    }

    fn breaks_connection(&self) -> bool {
        match self {
            PostgresFailure::Told(_) => false,
            PostgresFailure::Server { code, .. } => self.is_demotion() || is_end_of_session(code),
            PostgresFailure::Connection(_) | PostgresFailure::Client(_) => true,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            PostgresFailure::Told(_) | PostgresFailure::Client(_) => false,
            PostgresFailure::Connection(error) => !is_distrust(error),
            PostgresFailure::Server { code, .. } => {
                // No free connection; lost to another transaction.
                is_end_of_session(code) || matches!(code.as_str(), "53300" | "40001" | "40P01")
            }
        }
    }
}

impl From<PostgresFailure> for Error {
    fn from(failure: PostgresFailure) -> Error {
        match failure {
            PostgresFailure::Told(error) => error,
            PostgresFailure::Server { code, message } => {
                error(describe(&code)).source(format!("{message} (SQLSTATE {code})"))
            }
            PostgresFailure::Connection(cause) => error(describe_connection(&cause)).source(cause),
            PostgresFailure::Client(text) => {
                let why = "the client and the server do not understand each other";
                let advice = "connect to PostgreSQL 12 or later; see the cause";
                Error::new(ErrorKind::Io, why).advice(advice).source(text)
            }
        }
    }
}

/// Whether the session is over, or its state is lost.
fn is_end_of_session(code: &str) -> bool {
    match code {
        // Shutdown, crash of a neighbour, start-up; idle for too long, in three ways.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" => true,
        // A plan that fits its table no more. Prepared statements that are gone, or there already;
        // messages out of turn: the session was reset, or a proxy has given us another.
        "0A000" | "26000" | "42P05" | "08P01" => true,
        _ => false,
    }
}

fn is_distrust(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::InvalidInput
}

fn describe_connection(error: &io::Error) -> Meaning {
    match error.kind() {
        _ if is_distrust(error) => distrust(&error.to_string()).unwrap_or(DISTRUSTED),
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "the operating system refuses the socket",
            "give the user of the workers access to the directory of the socket",
        ),
        _ => UNREACHED,
    }
}

fn describe(code: &str) -> Meaning {
    use ErrorKind::{Corrupt, Denied, Incompatible, Io, Unreachable};
    match code {
        "28P01" | "28000" => (
            Denied,
            "the server refuses user, password or address",
            "correct the user and password of the URL, or password_file; pg_hba.conf says who may \
             come from where",
        ),
        "3D000" => NO_DATABASE,
        "42501" => (
            Denied,
            "the server does not permit this to the user",
            "GRANT the rights that docs/servers.md lists, or open the store once as a user \
             who may create tables",
        ),
        code::READ_ONLY => {
            (Denied, "the server only reads (a hot standby?)", "name its primary in the URL, too")
        }
        "53300" => (
            Unreachable,
            "the server has no free connection",
            "raise max_connections, or the limit of the role or database; each open lease takes \
             one connection",
        ),
        "53100" => FULL,
        "53200" => OUT_OF_MEMORY,
        "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => {
            (Unreachable, "the server ended the connection", "try again; its log says why")
        }
        "57P03" => (Unreachable, "the server is up but not ready", "wait until it has recovered"),
        "57014" | "55P03" => (
            Io,
            "the server cancelled the statement",
            "raise statement_timeout and lock_timeout of the role; see the cause",
        ),
        "42P01" | "42703" | "42883" | "3F000" => (
            Incompatible,
            "the tables of the store are gone or were changed",
            "open the store anew",
        ),
        "26000" | "42P05" | "08P01" => (
            Incompatible,
            "something between us and the server mixes up sessions",
            "connect to the server itself, or to a proxy that pools sessions, not transactions",
        ),
        "XX001" | "XX002" => (Corrupt, "the server reports damaged data", "see docs/servers.md"),
        _ => REFUSED,
    }
}
