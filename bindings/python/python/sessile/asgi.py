"""Sessions of any ASGI application: `scope["session"]`, which is `request.session` in Starlette and
FastAPI.

A session is read before the application runs, because its use cannot wait there, and saved when
the response starts. So requests of one visitor run in parallel by default, and their changes are
merged; `concurrency="exclusive"` makes them take turns from their start to their response."""

from __future__ import annotations

import logging
from typing import Any

from .cookies import Cookie
from .session import Session, missed, raise_if_missed
from .sessions import Sessions


class SessionMiddleware:
    """`sessions`: a store URL or `Sessions`. `options` are those of `Sessions`."""

    def __init__(
        self,
        app: Any,
        sessions: str | Sessions,
        *,
        cookie: Cookie | None = None,
        concurrency: str = "merge",
        **options: Any,
    ) -> None:
        self.app = app
        self.sessions = (
            Sessions(sessions, concurrency=concurrency, **options)
            if isinstance(sessions, str)
            else sessions
        )
        self.cookie = cookie or Cookie()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        sent = self._sent(scope)
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send, sent)
            return
        session = scope["session"] = Session(self.sessions, sent)
        https = scope.get("scheme") == "https"

        told = False

        async def send_with_cookie(message: Any) -> None:
            nonlocal told
            if message["type"] == "http.response.start":
                result = await session.asave()
                # Once: the application's page for the error has to be sent.
                was_told, told = told, told or missed(result) is not None
                if not was_told:
                    raise_if_missed(result)
                line = self.cookie.after(sent, session, result, https)
                headers = [*message.get("headers", ()), (b"vary", b"Cookie")]
                if line:
                    headers.append((b"set-cookie", line.encode("latin-1")))
                message = {**message, "headers": headers}
                await session.arelease()
                session.cookie_is_sent = True
            await send(message)

        try:
            if sent is not None:
                await session.load()
            await self.app(scope, receive, send_with_cookie)
        finally:
            await session.arelease()

    async def _websocket(self, scope: Any, receive: Any, send: Any, sent: str | None) -> None:
        """A connection lives for hours: it sees the session as it was, and holds nothing."""
        session = scope["session"] = Session(self.sessions, sent, locked=False)
        await session.load()
        await session.arelease()
        await self.app(scope, receive, send)
        if session.modified:
            told = "a websocket has changed its session, which is not saved: use Sessions.begin"
            logging.getLogger("sessile").warning(told)

    def _sent(self, scope: Any) -> str | None:
        for name, value in scope["headers"]:
            if name == b"cookie":
                sent = self.cookie.read(value.decode("latin-1"))
                if sent is not None:
                    return sent
        return None
