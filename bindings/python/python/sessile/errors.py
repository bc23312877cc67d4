"""The exceptions: one class for each kind of failure, with the code that logs and other
languages use. `str()` says which operation failed on which store, why, and what to do; it never
contains a session id.

Written by errors_from_header.py."""

from __future__ import annotations


class Error(Exception):
    """Any failure of a store."""

    code = "error"


class InvalidId(Error):
    """The id is malformed. No store was asked."""

    code = "invalid-id"


class InvalidUrl(Error):
    """The store URL is malformed, or its scheme or an option is unknown."""

    code = "invalid-url"


class InvalidArgument(Error):
    """An argument is out of range."""

    code = "invalid-argument"


class Unsupported(Error):
    """The store does not have this operation."""

    code = "unsupported"


class Exists(Error):
    """The id is taken."""

    code = "exists"


class Gone(Error):
    """The record is gone: expired, swept, or lost with a restart."""

    code = "gone"


class Destroyed(Error):
    """The session was destroyed after it was read, and stays destroyed."""

    code = "destroyed"


class Stale(Error):
    """The lease was lost, and another holder has had the lock since."""

    code = "stale"


class LockTimeout(Error):
    """The lock was not free in time; the message names its holder."""

    code = "lock-timeout"
    holder_pid: int | None = None
    holder_host: str | None = None
    waited: float = 0.0


class TooLarge(Error):
    """The payload exceeds the limit; the stored payload is unchanged."""

    code = "too-large"
    size: int = 0
    limit: int = 0


class Unreachable(Error):
    """The store cannot be reached."""

    code = "unreachable"


class Denied(Error):
    """The store refuses access: wrong password, missing permission, foreign owner."""

    code = "denied"


class Full(Error):
    """No space left: disk, quota or the configured size."""

    code = "full"


class OutOfMemory(Error):
    """The server is out of memory."""

    code = "out-of-memory"


class Evicted(Error):
    """The store dropped a live record to make room."""

    code = "evicted"


class Corrupt(Error):
    """Stored bytes were altered; they are left as they are."""

    code = "corrupt"


class Incompatible(Error):
    """The stored format is newer than this library, or foreign."""

    code = "incompatible"


class Io(Error):
    """Any other failure of the operating system or the driver."""

    code = "io"


BY_CODE: dict[str, type[Error]] = {kind.code: kind for kind in Error.__subclasses__()}

__all__ = [
    "BY_CODE",
    "Corrupt",
    "Denied",
    "Destroyed",
    "Error",
    "Evicted",
    "Exists",
    "Full",
    "Gone",
    "Incompatible",
    "InvalidArgument",
    "InvalidId",
    "InvalidUrl",
    "Io",
    "LockTimeout",
    "OutOfMemory",
    "Stale",
    "TooLarge",
    "Unreachable",
    "Unsupported",
]
