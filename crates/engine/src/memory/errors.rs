//! Errors of the engine that more than one room returns.

use std::borrow::Cow;

use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

pub fn full() -> Error {
    Error::new(ErrorKind::Full, "the store has reached its size limit, or its file system is full")
        .advice(
            "raise `size_bytes_max` in the URL or free room on the file system, lower time to live \
             or payloads, or run `sessile gc`",
        )
}

pub fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "a record is not what its entry says, or was damaged").advice(
        "run `sessile check` on the store; destroying the session makes its id usable again",
    )
}

pub fn refused(why: impl Into<Cow<'static, str>>, errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::Full,
        Errno::NOMEM => ErrorKind::OutOfMemory,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, why).source(std::io::Error::from(errno))
}

pub trait Explained<T> {
    fn explained(self, why: &'static str) -> Result<T>;
}

impl<T> Explained<T> for rustix::io::Result<T> {
    fn explained(self, why: &'static str) -> Result<T> {
        self.map_err(|errno| refused(why, errno))
    }
}
