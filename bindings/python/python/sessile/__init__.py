"""Sessions of web applications: shared by processes, locked, never lost silently."""

from . import errors
from ._sessile import Request, Rules, Store, __version__
from .errors import *  # noqa: F403
from .serializers import JSON, MsgSpec, Pickle, Serializer
from .session import Session
from .sessions import Sessions

__all__ = [
    *errors.__all__,
    "JSON",
    "MsgSpec",
    "Pickle",
    "Request",
    "Rules",
    "Serializer",
    "Session",
    "Sessions",
    "Store",
    "__version__",
]
