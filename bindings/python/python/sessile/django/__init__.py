"""Sessions of Django: `SESSION_ENGINE = "sessile.django"`.

A request holds its session from the first access on, so that parallel requests of one visitor take
turns and lose nothing. It gives it back with the response, at the latest when that is closed."""

from .store import SessionStore, revoke

__all__ = ["SessionStore", "revoke"]
