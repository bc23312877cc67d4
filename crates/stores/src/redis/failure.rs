//! From what the client crate reports to errors of the contract.
//!
//! Invariant: no text of ours contains a password. The crate's own errors name commands and codes,
//! never arguments, with one exception that is left out: details of failed authentication.

use redis::ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, TryAgain};
use redis::{ErrorKind as Cause, RedisError};
use sessile_core::{Error, ErrorKind};

use crate::connections::failure::{DISTRUSTED, UNREACHED, is_distrust};
use crate::connections::pool::AttemptFailure;

impl AttemptFailure for RedisError {
    fn is_transient(&self) -> bool {
        match self.kind() {
            Cause::Io => !is_distrust(&self.to_string()),
            Cause::Server(BusyLoading | TryAgain | MasterDown | ClusterDown) => true,
            _ => matches!(self.code(), Some("BUSY" | "UNBLOCKED")),
        }
    }

    fn breaks_connection(&self) -> bool {
        use Cause::{Client, Io, Parse, UnexpectedReturnType};
        matches!(self.kind(), Io | Parse | Client | UnexpectedReturnType)
    }

    fn leaves_doubt(&self) -> bool {
        // The crate keeps the error of the socket to itself.
        self.breaks_connection() && !self.to_string().contains("Broken pipe")
    }
}

pub fn translate(error: RedisError) -> Error {
    let text = error.detail().unwrap_or_default().to_owned();
    // Redis 6 wraps what failed inside a script into a text of its own.
    let says = |word: &str| error.code() == Some(word) || text.contains(&format!("{word} "));
    if matches!(error.kind(), Cause::AuthenticationFailed) || says("WRONGPASS") || says("NOAUTH") {
        return Error::new(ErrorKind::Denied, "the server refuses user or password")
            .advice("correct the user and password of the URL, or password_file");
    }
    let (kind, why, advice) = if says("OOM") {
        let advice = "raise maxmemory; keep maxmemory-policy noeviction, so that sessions are \
                      never dropped silently";
        (ErrorKind::OutOfMemory, "the server has reached its maxmemory", advice)
    } else if says("NOPERM") {
        let advice = "allow the user the scripts and keys that docs/stores/redis.md lists";
        (ErrorKind::Denied, "the server does not permit a command or key", advice)
    } else if says("READONLY") {
        (ErrorKind::Denied, "the server is a read-only replica", "connect to its primary")
    } else if says("MISCONF") {
        let advice = "free disk space for its snapshots, or turn off stop-writes-on-bgsave-error";
        (ErrorKind::Full, "the server cannot save to disk and refuses writes", advice)
    } else if says("LOADING") || says("BUSY") || says("MASTERDOWN") || says("CLUSTERDOWN") {
        (
            ErrorKind::Unreachable,
            "the server is up but not ready",
            "wait until it has loaded its data",
        )
    } else if says("MOVED") || says("CROSSSLOT") || says("ASK") {
        let advice = "connect to a server that is not part of a cluster";
        (ErrorKind::Unsupported, "the server is part of a cluster", advice)
    } else if says("WRONGTYPE") {
        let advice = "find out who else writes keys with this prefix";
        (ErrorKind::Corrupt, "a key of this store holds another type", advice)
    } else if text.contains("DB index") || text.contains("invalid DB") {
        (
            ErrorKind::InvalidUrl,
            "the server has no database of this number",
            "correct it, or raise `databases`",
        )
    } else if text.contains("max number of clients") {
        (ErrorKind::Unreachable, "the server has no free connection", "raise its maxclients")
    } else if is_distrust(&error.to_string()) {
        DISTRUSTED
    } else if matches!(error.kind(), Cause::Io) {
        UNREACHED
    } else if matches!(error.kind(), Cause::Parse | Cause::UnexpectedReturnType) {
        return unexpected().source(error);
    } else if matches!(error.kind(), Cause::InvalidClientConfig) {
        (ErrorKind::InvalidUrl, "the connection settings are not usable", "correct the URL")
    } else {
        (ErrorKind::Io, "the server refuses a command", "the cause is in the details of this error")
    };
    Error::new(kind, why).advice(advice).source(error)
}

pub fn unexpected() -> Error {
    Error::new(
        ErrorKind::Incompatible,
        "the server gave an answer that no script of this store gives",
    )
    .advice("connect to Redis 6.0 or later, or to a server compatible with it")
}
