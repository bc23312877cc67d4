"""Sessions of any WSGI application: `environ["sessile.session"]`.

A session is opened by its first use and saved when the application starts its response. Changes
that come later, while a response is streamed, are saved at its end. Its cookie has gone by then, so
a new session and a new id are errors there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .cookies import Cookie
from .session import Session, missed, raise_if_missed
from .sessions import Sessions

KEY = "sessile.session"


class SessionMiddleware:
    """`sessions`: a store URL or `Sessions`. `options` are those of `Sessions`."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        sessions: str | Sessions,
        *,
        cookie: Cookie | None = None,
        **options: Any,
    ) -> None:
        self.app = app
        self.sessions = Sessions(sessions, **options) if isinstance(sessions, str) else sessions
        self.cookie = cookie or Cookie()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        sent = self.cookie.read(environ.get("HTTP_COOKIE", ""))
        session = environ[KEY] = Session(self.sessions, sent)
        https = environ.get("wsgi.url_scheme") == "https"

        told = False

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            nonlocal told
            # A second start, after a failure, has headers in place of those of the first.
            session.cookie_is_sent = False
            if session.is_opened:
                result = session.save()
                # Once: the application's page for the error has to be sent.
                was_told, told = told, told or missed(result) is not None
                if not was_told:
                    raise_if_missed(result)
                line = self.cookie.after(sent, session, result, https)
                headers = [*headers, ("Vary", "Cookie")]
                if line:
                    headers.append(("Set-Cookie", line))
            session.cookie_is_sent = True
            return start_response(status, headers, exc_info)

        try:
            body = self.app(environ, start)
        except BaseException:
            session.release()
            raise
        return _Body(body, session)


class _Body:
    """A response whose session ends with it."""

    def __init__(self, body: Iterable[bytes], session: Session) -> None:
        self._body, self._session = body, session
        self._has_failed = False

    def __iter__(self) -> Iterator[bytes]:
        # Not `yield from`, which would close the body a second time.
        try:
            for part in self._body:
                yield part
        except GeneratorExit:
            # The browser has gone.
            raise
        except BaseException:
            self._has_failed = True
            raise

    def close(self) -> None:
        """Servers call it also after a failure, whose changes are not saved."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
            if self._session.modified and not self._has_failed:
                # A log-out in between wins, which is logged.
                told = missed(self._session.save())
                if told is not None:
                    # The visitor has the response already.
                    logging.getLogger("sessile").error(told)
        finally:
            self._session.release()
