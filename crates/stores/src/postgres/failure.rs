//! From what the client crate and the server report to errors of the contract.
//!
//! Invariant: no text of ours repeats a value. The server's DETAIL and the position of a syntax error do (a violated key is
//! printed in full), so only the code and the message are taken from what it says.

use std::fmt;
use std::io;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use sessile_core::{Error, ErrorKind};

/// Codes that we look for. PostgreSQL's documentation, appendix "PostgreSQL Error Codes".
pub(super) mod code {
    /// `lock_timeout` is over.
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    /// `statement_timeout` is over, or an operator cancelled it.
    pub const QUERY_CANCELED: &str = "57014";
    pub const UNDEFINED_COLUMN: &str = "42703";
}

/// What came of an attempt.
pub(super) type Tried<T> = Result<T, Failure>;

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The contract already has words for it; trying again would not help.
    Told(Error),
    /// The server refused: it is there, and the connection is good unless the code says otherwise.
    Server { code: String, message: String },
    /// The connection could not be made, or broke.
    Connection(io::Error),
    /// We refused, before anything was sent or because the answer cannot be understood.
    Client(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Told(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Connection(error)
    }
}

impl Failure {
    /// The server's answer is an error.
    pub fn said(refusal: &ErrorResponseBody) -> Failure {
        let (mut code, mut message) = (String::new(), String::new());
        let mut fields = refusal.fields();
        // A field that cannot be read ends the list: what was read before it is all there is.
        while let Ok(Some(field)) = fields.next() {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => code = text(),
                b'M' => message = text(),
                _ => {}
            }
        }
        Failure::Server { code, message }
    }

    /// What came cannot be an answer to what was asked.
    pub fn unexpected() -> Failure {
        Failure::Client("the server answers something else than was asked".to_owned())
    }

    /// The bytes of a message are not well-formed, ours or the server's.
    pub fn garbled(error: io::Error) -> Failure {
        Failure::Client(error.to_string())
    }

    /// A statement was not run because the one before it failed.
    pub fn skipped() -> Failure {
        Failure::Client("a statement before it failed".to_owned())
    }

    /// The server closed the connection.
    pub fn gone() -> Failure {
        Failure::Connection(io::ErrorKind::ConnectionAborted.into())
    }

    /// A statement was run that was not prepared: an error of this program.
    pub fn unprepared() -> Failure {
        Failure::Client("a statement was not prepared".to_owned())
    }

    /// Whether the server refused with this code.
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Failure::Server { code, .. } if code == wanted)
    }

    /// Whether the connection cannot be used any more, and with it what its session held is lost.
    pub fn breaks_connection(&self) -> bool {
        match self {
            Failure::Told(_) => false,
            Failure::Server { code, .. } => is_end_of_session(code),
            Failure::Connection(_) | Failure::Client(_) => true,
        }
    }

    /// Whether the same request may succeed after a short wait, or on a new connection.
    pub fn is_transient(&self) -> bool {
        match self {
            Failure::Told(_) | Failure::Client(_) => false,
            Failure::Connection(error) => !is_distrust(error),
            Failure::Server { code, .. } => {
                // No free connection; lost to another transaction.
                is_end_of_session(code) || matches!(code.as_str(), "53300" | "40001" | "40P01")
            }
        }
    }

    /// The error of the contract.
    pub fn translate(self) -> Error {
        match self {
            Failure::Told(error) => error,
            Failure::Server { code, message } => {
                let (kind, why, advice) = describe(&code);
                Error::new(kind, why).advice(advice).source(ServerSaid { code, message })
            }
            Failure::Connection(error) => {
                let (kind, why, advice) = describe_connection(&error);
                Error::new(kind, why).advice(advice).source(error)
            }
            Failure::Client(text) => {
                let (kind, why, advice) = if text.contains("password missing") {
                    let advice = "add the password to the URL, or password_file=/path";
                    (ErrorKind::Denied, "the server asks for a password", advice)
                } else if text.contains("TLS") || text.contains("certificate") {
                    let advice =
                        "check that the server has TLS (ssl = on) and who signed its certificate (tls_ca_file)";
                    (ErrorKind::Denied, "no TLS connection could be made", advice)
                } else if text.contains("authentication") {
                    let advice = "use a password (scram-sha-256 or md5 in pg_hba.conf)";
                    (ErrorKind::Denied, "the server asks for a login that this client does not know", advice)
                } else {
                    let advice = "connect to PostgreSQL 12 or later; see the cause";
                    (ErrorKind::Io, "the client and the server do not understand each other", advice)
                };
                Error::new(kind, why).advice(advice).source(text)
            }
        }
    }
}

/// The session is over, or is not what we made of it any more.
fn is_end_of_session(code: &str) -> bool {
    match code {
        // Administrator's shutdown, crash of a neighbour, start-up; idle for too long, in three ways.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" => true,
        // A plan that fits its table no more. Prepared statements that are gone, or there already; messages out of turn: the
        // session was reset, or somebody in between has given us another.
        "0A000" | "26000" | "42P05" | "08P01" => true,
        _ => false,
    }
}

fn is_distrust(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::InvalidInput
}

fn describe_connection(error: &io::Error) -> (ErrorKind, &'static str, &'static str) {
    match error.kind() {
        _ if is_distrust(error) => (
            ErrorKind::Denied,
            "the certificates are not accepted",
            "name the authority in tls_ca_file, and a client certificate if the server asks for one",
        ),
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "the operating system refuses the socket",
            "give the user of the workers access to the directory of the socket",
        ),
        _ => (
            ErrorKind::Unreachable,
            "the server does not answer",
            "check that it runs, that address and port are right, and that no firewall is in between",
        ),
    }
}

/// Codes: PostgreSQL's documentation, appendix "PostgreSQL Error Codes".
fn describe(code: &str) -> (ErrorKind, &'static str, &'static str) {
    let see = "see docs/stores/postgres.md";
    match code {
        "28P01" | "28000" => (
            ErrorKind::Denied,
            "the server refuses user, password or address",
            "correct the user and password of the URL, or password_file; pg_hba.conf says who may come from where",
        ),
        "3D000" => (ErrorKind::InvalidUrl, "the server has no database of this name", "create it, or correct the URL"),
        "42501" => (
            ErrorKind::Denied,
            "the server does not permit this to the user",
            "GRANT the rights that docs/stores/postgres.md lists, or open the store once as a user who may create tables",
        ),
        "25006" => (ErrorKind::Denied, "the server is read-only (a hot standby?)", "connect to its primary"),
        "53300" => (
            ErrorKind::Unreachable,
            "the server has no free connection",
            "raise max_connections, or the limit of the role or database; each open lease takes one connection",
        ),
        "53100" => (ErrorKind::Full, "the server has no space left on its disk", "free space; what is stored stays"),
        "53200" => (ErrorKind::OutOfMemory, "the server has no memory left for the request", "give it more"),
        "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => {
            (ErrorKind::Unreachable, "the server ended the connection", "try again; its log says why")
        }
        "57P03" => (ErrorKind::Unreachable, "the server is up but not ready", "wait until it has recovered"),
        "57014" | "55P03" => (
            ErrorKind::Io,
            "the server cancelled the statement",
            "raise statement_timeout and lock_timeout of the role; see the cause",
        ),
        "42P01" | "42703" | "42883" | "3F000" => {
            (ErrorKind::Incompatible, "the tables of the store are gone or were changed", "open the store anew")
        }
        "26000" | "42P05" | "08P01" => (
            ErrorKind::Incompatible,
            "something between us and the server mixes up sessions",
            "connect to the server itself, or to a proxy that pools sessions, not transactions",
        ),
        "XX001" | "XX002" => (ErrorKind::Corrupt, "the server reports damaged data", see),
        _ => (ErrorKind::Io, "the server refuses a statement", "see the cause"),
    }
}

/// The server's words without its details.
#[derive(Debug)]
struct ServerSaid {
    code: String,
    message: String,
}

impl fmt::Display for ServerSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)
    }
}

impl std::error::Error for ServerSaid {}
