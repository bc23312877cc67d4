"""Sessions of Flask: `Sessile(app)`.

In the shape of Flask-Session: `flask.session` is a `ServerSideSession` with `sid`, `permanent`,
`modified` and `accessed`, and `app.session_interface.regenerate(session)` gives it a new id. The
session is opened by its first use, and then held until the response."""

from __future__ import annotations

from typing import Any

from flask import Flask, g
from flask.sessions import SessionInterface, SessionMixin
from flask.wrappers import Request, Response

from ._sessile import Store
from .errors import Destroyed, Gone, InvalidId
from .serializers import Serializer
from .session import Session, raise_if_missed
from .sessions import Sessions


class ServerSideSession(Session, SessionMixin):
    """The session of one request of Flask."""

    # Flask sets it at each use.
    accessed = False

    def __init__(self, sessions: Sessions, id: str | None, permanent: bool) -> None:
        super().__init__(sessions, id)
        self._permanent = permanent
        self._cookie = id

    def _read(self, payload: bytes | None) -> dict[str, Any]:
        data = super()._read(payload)
        if payload is None and self._permanent:
            data["_permanent"] = True
        return data

    @property
    def sid(self) -> str:
        return self.id

    @property
    def new(self) -> bool:  # type: ignore[override]
        return self.is_new

    @property
    def modified(self) -> bool:
        return super().modified or (self.is_stored and self.id != self._cookie)

    @modified.setter
    def modified(self, value: bool) -> None:
        """A change inside a value is noticed without it."""

    @property
    def is_kept_for_owner(self) -> bool:
        """Whether it is stored for its owner although it is empty; not if it was emptied now."""
        if self._owner is None:
            return False
        return not self.has_changed_data if self.is_stored else self.names_owner

    def __bool__(self) -> bool:
        return len(self) > ("_permanent" in self)

    def clear(self) -> None:
        permanent = self.get("_permanent")
        super().clear()
        if permanent is not None:
            self["_permanent"] = permanent


class SessileSessionInterface(SessionInterface):
    """What Flask asks for and saves its sessions with."""

    session_class = ServerSideSession

    def __init__(self, sessions: Sessions, permanent: bool) -> None:
        self.sessions = sessions
        self.permanent = permanent

    def open_session(self, app: Flask, request: Request) -> ServerSideSession:
        id = request.cookies.get(self.get_cookie_name(app))
        session = self.session_class(self.sessions, id, self.permanent)
        g._sessile = session
        return session

    def regenerate(self, session: ServerSideSession, *, keep_old: bool = False) -> None:
        """Gives a session a new id: at each log-in and change of rights."""
        session.regenerate(keep_old=keep_old)

    def save_session(  # type: ignore[override]
        self, app: Flask, session: ServerSideSession, response: Response
    ) -> None:
        try:
            if session.is_opened:
                response.vary.add("Cookie")
                self._save(app, session, response)
            elif session._cookie and app.config["SESSION_REFRESH_EACH_REQUEST"]:
                self._touch(app, session._cookie)
        finally:
            session.release()

    def _save(self, app: Flask, session: ServerSideSession, response: Response) -> None:
        if not session and not session.is_kept_for_owner:
            if session.is_stored and session.modified:
                session.destroy()
            # Not that of an unknown session: the browser may have the cookie of a log-in by now.
            if session._cookie and session.is_destroyed:
                response.delete_cookie(self.get_cookie_name(app), **self._cookie_options(app))
            return
        if not app.config["SESSION_REFRESH_EACH_REQUEST"] and not session.modified:
            return
        idle = app.permanent_session_lifetime.total_seconds()
        session.idle = None if idle == self.sessions.idle else idle
        saved = session.save()
        raise_if_missed(saved)
        is_new_id = session.sid != session._cookie
        if saved == "stored" or (saved == "touched" and (session.permanent or is_new_id)):
            response.set_cookie(
                self.get_cookie_name(app),
                session.sid,
                expires=self.get_expiration_time(app, session),
                **self._cookie_options(app),
            )

    def _touch(self, app: Flask, id: str) -> None:
        """Without a cookie, which could arrive after that of a log-in that came meanwhile."""
        try:
            self.sessions.store.touch(id, app.permanent_session_lifetime.total_seconds())
        except (Destroyed, Gone, InvalidId):
            pass

    def _cookie_options(self, app: Flask) -> dict[str, Any]:
        options = {
            "domain": self.get_cookie_domain(app),
            "path": self.get_cookie_path(app),
            "secure": self.get_cookie_secure(app),
            "httponly": self.get_cookie_httponly(app),
            "samesite": self.get_cookie_samesite(app),
        }
        # Since Flask 3.1.
        partitioned = getattr(self, "get_cookie_partitioned", None)
        return options if partitioned is None else {**options, "partitioned": partitioned(app)}


class Sessile:
    """The extension. Settings: `SESSILE_URL`, `SESSILE_CONCURRENCY`, `SESSILE_ON_CONFLICT`,
    `SESSILE_LOCK_WAIT`, `SESSILE_FIRST_LIFETIME`, `SESSILE_LIFETIME`, `SESSILE_GRACE`, and Flask's
    and Flask-Session's `SESSION_COOKIE_...`, `SESSION_PERMANENT`, `SESSION_REFRESH_EACH_REQUEST`
    and `PERMANENT_SESSION_LIFETIME`."""

    def __init__(
        self,
        app: Flask | None = None,
        *,
        store: Store | None = None,
        serializer: Serializer | None = None,
    ) -> None:
        self._store, self._serializer = store, serializer
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        names = ("CONCURRENCY", "ON_CONFLICT", "LOCK_WAIT", "FIRST_LIFETIME", "LIFETIME", "GRACE")
        given = {name.lower(): app.config.get(f"SESSILE_{name}") for name in names}
        store = self._store or app.config.get("SESSILE_URL")
        if not store:
            raise ValueError('SESSILE_URL is not set; for example "sessile:/dev/shm/shop"')
        sessions = Sessions(
            store,
            idle=app.permanent_session_lifetime.total_seconds(),
            serializer=self._serializer,
            **{name: value for name, value in given.items() if value is not None},
        )
        permanent = app.config.get("SESSION_PERMANENT", True)
        app.session_interface = SessileSessionInterface(sessions, permanent)
        # A view that raises through Flask has no response.
        app.teardown_request(release)


def release(_: object = None) -> None:
    session = g.pop("_sessile", None)
    if session is not None:
        session.release()


__all__ = ["ServerSideSession", "Sessile", "SessileSessionInterface"]
