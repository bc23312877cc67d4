"""Django's session middleware, which gives the session back with the response."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.middleware import SessionMiddleware as Base

from .store import SessionStore


class SessionMiddleware(Base):
    """In the place of `django.contrib.sessions.middleware.SessionMiddleware`: a session that was
    only read, or whose view has failed, is free before a streamed response ends."""

    def process_response(self, request: Any, response: Any) -> Any:
        try:
            return super().process_response(request, response)
        finally:
            session = getattr(request, "session", None)
            if isinstance(session, SessionStore):
                session.release()
