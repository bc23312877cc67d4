"""Sessions of web applications: shared by processes, locked, never lost silently."""

from ._sessile import Request, Rules, Store, __version__
from .errors import (
    Corrupt,
    Denied,
    Destroyed,
    Error,
    Evicted,
    Exists,
    Full,
    Gone,
    Incompatible,
    InvalidArgument,
    InvalidId,
    InvalidUrl,
    Io,
    LockTimeout,
    OutOfMemory,
    Stale,
    TooLarge,
    Unreachable,
    Unsupported,
)
from .serializers import JSON, MsgSpec, Pickle, Serializer
from .session import Session
from .sessions import Sessions

__all__ = [
    "JSON",
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
    "MsgSpec",
    "OutOfMemory",
    "Pickle",
    "Request",
    "Rules",
    "Serializer",
    "Session",
    "Sessions",
    "Stale",
    "Store",
    "TooLarge",
    "Unreachable",
    "Unsupported",
    "__version__",
]
