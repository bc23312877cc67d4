//! Errors: the failure, its store, its cause, and advice.
//!
//! One type with a kind. A kind has standard words (`ErrorKind::Destroyed.into()`); a store that
//! knows more uses `Error::new(kind, why).advice(..).source(..)`. [`crate::Sessions`] adds the
//! operation, the store and the tag of the key. No error carries an id, a payload or a password:
//! ids appear as tags, URLs are redacted, and driver errors that may quote their input are the
//! `source`, which only `{:#}` prints.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::{Clock, Timestamp};

/// The result of every operation of the contract.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure. The C codes and the exceptions of the bindings derive from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The id is malformed; it never reached a store.
    InvalidId,
    /// The store URL is malformed, or its scheme or an option is unknown.
    InvalidUrl,
    /// An argument lies outside its limits.
    InvalidArgument,
    /// The store does not declare this capability.
    Unsupported,
    /// `create`, `regenerate`: the id is taken.
    Exists,
    /// `touch`, `commit`: the record is gone (expired, swept, or lost with a restart).
    Gone,
    /// `commit`, `touch`: the session was destroyed after it was read, and stays destroyed.
    Destroyed,
    /// `commit`, `touch`: the lease was lost, and another holder has had the lock since.
    Stale,
    /// The lock was not free within the wait. Never an empty session.
    LockTimeout {
        /// The holder, as far as the store knows.
        holder: Holder,
        /// How long this caller waited.
        waited: Duration,
    },
    /// The payload is over the limit; the old payload is untouched.
    TooLarge {
        /// Size of the refused payload in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The store cannot be reached: no server, connection lost, network time-out.
    Unreachable,
    /// The store refuses access: wrong password, missing permission, foreign owner.
    Denied,
    /// No space left: disk, quota or the configured size.
    Full,
    /// The server has no memory left for the write.
    OutOfMemory,
    /// The store dropped a live record to make room.
    Evicted,
    /// Stored bytes are not what was written. They stay as they are.
    Corrupt,
    /// The stored format or schema is newer than this program, or foreign.
    Incompatible,
    /// Any other failure of the operating system or driver.
    Io,
}

impl ErrorKind {
    /// A stable word for logs, JSON and the tables of the bindings.
    pub const fn code(&self) -> &'static str {
        self.texts().0
    }

    /// The code, and the words of an error without a reason of its own.
    const fn texts(&self) -> (&'static str, &'static str) {
        use ErrorKind::*;
        match self {
            InvalidId => ("invalid-id", "the id is malformed"),
            InvalidUrl => ("invalid-url", "the store URL is malformed"),
            InvalidArgument => ("invalid-argument", "an argument lies outside its limits"),
            Unsupported => ("unsupported", "this store cannot do that"),
            Exists => ("exists", "the id is taken"),
            Gone => ("gone", "there is no live record"),
            Destroyed => ("destroyed", "the session was destroyed after it was read"),
            Stale => ("stale", "the lease was lost, and another holder has had the lock since"),
            LockTimeout { .. } => ("lock-timeout", "another request holds the session"),
            TooLarge { .. } => ("too-large", "the payload is too large"),
            Unreachable => ("unreachable", "the store cannot be reached"),
            Denied => ("denied", "the store refuses access"),
            Full => ("full", "the store has no space left"),
            OutOfMemory => ("out-of-memory", "the server has no memory left"),
            Evicted => ("evicted", "the store has dropped the record to make room"),
            Corrupt => ("corrupt", "the stored bytes are not what was written"),
            Incompatible => {
                ("incompatible", "the stored format is newer than this program, or foreign")
            }
            Io => ("io", "the operation failed"),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        let words = kind.texts().1;
        Error::new(kind, words)
    }
}

/// The holder of a lock, as far as the store knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Process id on its host.
    pub pid: Option<u32>,
    /// Host name.
    pub host: Option<String>,
    /// When it took the lock.
    pub since: Option<Timestamp>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => write!(f, "an unknown process")?,
        }
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        if let Some(since) = self.since {
            let held = Clock::system().now().since(since);
            write!(f, " for {:.1} s", held.as_secs_f64())?;
        }
        Ok(())
    }
}

/// An operation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the operation of the same name in `Store`")]
pub enum Operation {
    Open,
    Begin,
    Peek,
    Create,
    Commit,
    SetOwner,
    Revoke,
    Touch,
    Release,
    Destroy,
    Regenerate,
    Sweep,
    Stat,
    List,
    Details,
    Locks,
    Verify,
    Sync,
    Drop,
}

impl Operation {
    pub(crate) const fn saves(self) -> bool {
        matches!(self, Operation::Create | Operation::Commit | Operation::Regenerate)
    }

    const fn name(self) -> &'static str {
        use Operation::*;
        match self {
            Open => "open",
            Begin => "begin",
            Peek => "peek",
            Create => "create",
            Commit => "commit",
            SetOwner => "set the owner of",
            Revoke => "end the sessions of an owner in",
            Touch => "touch",
            Release => "release",
            Destroy => "destroy",
            Regenerate => "regenerate",
            Sweep => "sweep",
            Stat => "stat",
            List => "list",
            Details => "show details",
            Locks => "list locks",
            Verify => "verify",
            Sync => "sync",
            Drop => "drop",
        }
    }
}

/// A failure.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    why: Cow<'static, str>,
    advice: Option<Cow<'static, str>>,
    operation: Option<Operation>,
    store: Option<String>,
    tag: Option<String>,
    /// The size of the payload of a failed save, and the limit, in bytes.
    payload: Option<(u64, u64)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind; `why` is one clause without a full stop and without secrets.
    pub fn new(kind: ErrorKind, why: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner {
            kind,
            why: why.into(),
            advice: None,
            operation: None,
            store: None,
            tag: None,
            payload: None,
            source: None,
        }))
    }

    /// Adds advice for the reader.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<Cow<'static, str>>) -> Error {
        self.0.advice = Some(advice.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the failed operation, the store and the tag of the key. Behind a decorator the first
    /// store and operation stay; the key is the decorator's.
    #[must_use]
    pub fn during(mut self, operation: Operation, store: &str, tag: Option<String>) -> Error {
        self.0.operation.get_or_insert(operation);
        self.0.store.get_or_insert_with(|| store.to_owned());
        self.0.tag = tag.or(self.0.tag);
        self
    }

    /// Adds the size of a failed save's payload and the store's limit, in bytes. A decorator
    /// replaces them.
    #[must_use]
    pub(crate) fn of_payload(mut self, size: u64, limit: u64) -> Error {
        // `TooLarge` has the numbers itself; a taken id is no failed save.
        if !matches!(self.0.kind, ErrorKind::TooLarge { .. } | ErrorKind::Exists) {
            self.0.payload = Some((size, limit));
        }
        self
    }

    /// Adds the time that a caller has waited for its turn to wait for the lock.
    #[must_use]
    pub fn after(mut self, queued: Duration) -> Error {
        if let ErrorKind::LockTimeout { waited, .. } = &mut self.0.kind {
            *waited = waited.saturating_add(queued);
        }
        self
    }

    /// The kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// `None` until the error has passed [`crate::Sessions`].
    pub(crate) fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The cause, without operation, store and advice.
    pub fn why(&self) -> &str {
        &self.0.why
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(store) = &inner.store {
            write!(f, "{store}: ")?;
        }
        if let Some(operation) = inner.operation {
            write!(f, "cannot {}", operation.name())?;
            if let Some(tag) = &inner.tag {
                write!(f, " session {tag}")?;
            }
            if let Some((size, limit)) = inner.payload {
                write!(f, " ({size} bytes, limit {limit} bytes)")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", inner.why)?;
        match &inner.kind {
            ErrorKind::LockTimeout { holder, waited } => {
                write!(f, " (held by {holder}; waited {:.1} s)", waited.as_secs_f64())?;
            }
            ErrorKind::TooLarge { size, limit } => {
                write!(f, " ({size} bytes, limit {limit} bytes)")?
            }
            _ => {}
        }
        if f.alternate() {
            // Many errors of libraries repeat their source.
            let (mut source, mut said) = (StdError::source(self), inner.why.to_string());
            while let Some(error) = source {
                let text = error.to_string();
                if !said.contains(&text) {
                    write!(f, ": {text}")?;
                    said = text;
                }
                source = error.source();
            }
        }
        if let Some(advice) = &inner.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {self:#}", self.0.kind.code())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_why_and_what_to_do() {
        let error = Error::new(ErrorKind::Unreachable, "the server does not answer")
            .advice("start it or correct the URL")
            .source(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
            .during(Operation::Begin, "redis://localhost", Some("#00c0ffee".into()));
        assert_eq!(
            error.to_string(),
            "redis://localhost: cannot begin session #00c0ffee: the server does not answer; \
             start it or correct the URL"
        );
        assert!(format!("{error:#}").contains("connection refused"));
    }

    /// Only what was too large told its size: after a save that a full disk had refused nobody knew
    /// whether it was a matter of 100 bytes or of 8 MB.
    #[test]
    fn a_failed_save_says_how_much_was_to_be_stored_and_what_the_limit_is() {
        let saved = |kind| {
            Error::new(kind, "it cannot").of_payload(1_500, 9_000).during(
                Operation::Commit,
                "x",
                None,
            )
        };
        assert_eq!(
            saved(ErrorKind::Full).to_string(),
            "x: cannot commit (1500 bytes, limit 9000 bytes): it cannot"
        );
        let decorated = saved(ErrorKind::Full).of_payload(7, 8);
        assert!(decorated.to_string().contains("(7 bytes, limit 8 bytes)"), "{decorated}");
        let large = saved(ErrorKind::TooLarge { size: 1_500, limit: 1_000 });
        assert_eq!(large.to_string(), "x: cannot commit: it cannot (1500 bytes, limit 1000 bytes)");
        assert_eq!(saved(ErrorKind::Exists).to_string(), "x: cannot commit: it cannot");
    }
}
