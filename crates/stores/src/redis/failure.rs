//! From what the client crate and the server report to errors of the contract.
//!
//! Invariant: no id, payload or password gets into an error. The server repeats the arguments of
//! what it refuses (`unknown command 'EVALSHA', with args beginning with ...`), and the crate the
//! values that it cannot convert. So their texts are searched for known words and never passed on.

use redis::{ErrorKind as Cause, RedisError};
use sessile_core::{Error, ErrorKind};

use crate::connections::failure::{Meaning, UNREACHED, distrust, error};
use crate::connections::pool::AttemptFailure;

use ErrorKind::{Corrupt, Denied, Full, InvalidUrl, Io, OutOfMemory, Unreachable, Unsupported};

/// What the server refuses: the code, or a part of the text where the code says nothing.
const REFUSALS: &[(&str, Meaning)] = &[
    // The first one: its text repeats arguments.
    (
        "unknown command",
        (
            Denied,
            "the server does not know a command that this store needs",
            "connect to Redis 6.0 or later, and rename none of the commands that \
             docs/servers.md lists",
        ),
    ),
    ("WRONGPASS", LOGIN),
    ("NOAUTH", LOGIN),
    (
        "OOM",
        (
            OutOfMemory,
            "the server has reached its maxmemory",
            "raise maxmemory; keep maxmemory-policy noeviction, so that sessions are never dropped \
             silently",
        ),
    ),
    (
        "NOPERM",
        (
            Denied,
            "the server does not permit a command or key",
            "allow the user the scripts and keys that docs/servers.md lists",
        ),
    ),
    (READ_ONLY, (Denied, "the server is a read-only replica", "connect to its primary")),
    (
        "MISCONF",
        (
            Full,
            "the server cannot save to disk and refuses writes",
            "free disk space for its snapshots, or turn off stop-writes-on-bgsave-error",
        ),
    ),
    (
        "NOREPLICAS",
        (
            Unreachable,
            "the server has too few replicas and refuses writes",
            "bring its replicas back, or lower min-replicas-to-write",
        ),
    ),
    ("LOADING", NOT_READY),
    ("BUSY", NOT_READY),
    ("UNBLOCKED", NOT_READY),
    ("TRYAGAIN", NOT_READY),
    ("MASTERDOWN", NOT_READY),
    ("CLUSTERDOWN", NOT_READY),
    ("MOVED", CLUSTER),
    ("CROSSSLOT", CLUSTER),
    ("ASK", CLUSTER),
    (
        "WRONGTYPE",
        (
            Corrupt,
            "a key of this store holds another type",
            "find out who else writes keys with this prefix",
        ),
    ),
    ("DB index", DATABASE),
    ("invalid DB", DATABASE),
    (
        "max number of clients",
        (Unreachable, "the server has no free connection", "raise its maxclients"),
    ),
];

const READ_ONLY: &str = "READONLY";
const LOGIN: Meaning = (
    Denied,
    "the server refuses user or password",
    "correct the user and password of the URL, or password_file",
);
const NOT_READY: Meaning =
    (Unreachable, "the server is up but not ready", "wait until it has loaded its data");
pub const CLUSTER: Meaning = (
    Unsupported,
    "the server is part of a cluster",
    "write redis+cluster:// in place of redis://, or connect to a server that is not part of a \
     cluster",
);
const DATABASE: Meaning =
    (InvalidUrl, "the server has no database of this number", "correct it, or raise `databases`");

/// The first known word of what the server has refused, and what it means.
fn refusal(error: &RedisError) -> Option<&'static (&'static str, Meaning)> {
    let refused = error.clone().into_server_errors()?;
    let (_, refused) = refused.first()?;
    let text = refused.details().unwrap_or_default();
    let says = |word: &str| {
        // Redis 6 wraps what failed inside a script into a text of its own.
        refused.code() == word || text.contains(&format!("{word} "))
    };
    REFUSALS.iter().find(|(word, _)| says(word))
}

/// What a server of a cluster says that does not have the slot, or not all of it.
pub enum Redirection {
    /// It is at `host:port`.
    Moved(String),
    /// It is on the way.
    Unstable,
}

pub fn redirection(error: &RedisError) -> Option<Redirection> {
    let refused = error.clone().into_server_errors()?;
    let (_, refused) = refused.first()?;
    match refused.code() {
        "MOVED" => {
            let to = refused.details()?.split_ascii_whitespace().nth(1)?;
            Some(Redirection::Moved(to.to_owned()))
        }
        "ASK" | "TRYAGAIN" => Some(Redirection::Unstable),
        _ => None,
    }
}

impl AttemptFailure for RedisError {
    fn is_transient(&self) -> bool {
        match self.kind() {
            Cause::Io => distrust(&self.to_string()).is_none(),
            _ => refusal(self).is_some_and(|(_, (kind, ..))| *kind == Unreachable),
        }
    }

    fn breaks_connection(&self) -> bool {
        use Cause::{Client, Parse, UnexpectedReturnType};
        matches!(self.kind(), Cause::Io | Parse | Client | UnexpectedReturnType)
            || self.is_demotion()
    }

    fn is_demotion(&self) -> bool {
        refusal(self).is_some_and(|(word, _)| *word == READ_ONLY)
    }

    fn leaves_doubt(&self) -> bool {
        // The crate keeps the error of the socket to itself.
        let unsent = self.to_string().contains("Broken pipe");
        self.breaks_connection() && !self.is_demotion() && !unsent
    }
}

/// The failure of a login for which the server has no code.
pub fn refused_login(error: RedisError) -> RedisError {
    let told = error.kind() == Cause::Io || refusal(&error).is_some();
    if told { error } else { (Cause::AuthenticationFailed, "the login was refused").into() }
}

pub fn translate(failure: RedisError) -> Error {
    if let Some((word, meaning)) = refusal(&failure) {
        return error(meaning.clone()).source(format!("the server says {word}"));
    }
    match failure.kind() {
        Cause::AuthenticationFailed => error(LOGIN),
        // The error of a socket or of TLS, which have seen no values.
        Cause::Io => error(distrust(&failure.to_string()).unwrap_or(UNREACHED)).source(failure),
        Cause::Parse | Cause::UnexpectedReturnType | Cause::Client => unexpected(),
        _ => error((Io, "the server refuses a command", "look into its log")),
    }
}

pub fn unexpected() -> Error {
    Error::new(
        ErrorKind::Incompatible,
        "the server gave an answer that no script of this store gives",
    )
    .advice("connect to Redis 6.0 or later, or to a server compatible with it")
}
