"""The session store of one request of Django."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import (
    VALID_KEY_CHARS,
    CreateError,
    SessionBase,
    UpdateError,
)
from django.core.exceptions import SynchronousOnlyOperation
from django.core.signals import request_finished, request_started
from django.utils.crypto import get_random_string

from .. import waiting
from .._sessile import Request
from ..errors import Destroyed, Exists, InvalidId, Stale, Unsupported
from . import settings as ours

T = TypeVar("T")

KEY_LENGTH = 32
OWNER_BYTES_MAX = 255
STORED = ("stored", "touched")

Made = weakref.WeakSet["SessionStore"]
# The sessions that the current request has made. Under WSGI a thread serves one request after the
# other.
_of_request: ContextVar[Made | None] = ContextVar("sessile_of_request", default=None)
# Under ASGI a view, the response and the signals at its end run in tasks whose contexts are copies.
# They share the context of threads that Django enters for each request.
_of_asgi: weakref.WeakKeyDictionary[Any, Made] = weakref.WeakKeyDictionary()


def _made() -> Made:
    asgi = SyncToAsync.thread_sensitive_context.get(None)
    if asgi is not None:
        return _of_asgi.setdefault(asgi, Made())
    made = _of_request.get()
    if made is None:
        made = Made()
        _of_request.set(made)
    return made


def release_all(**_: Any) -> None:
    """The response is closed, or the client is gone: what is still held is given back."""
    for session in list(_made()):
        session.release()
    forget_others()


def forget_others(**_: Any) -> None:
    """What was made before a request is not its own. A test that has looked at the session would
    have the request wait for the test itself, so what is held is given back."""
    for session in list(_of_request.get() or ()):
        session.release()
    _of_request.set(None)


def owner_of(data: dict[str, Any]) -> str | None:
    """The user who is logged in, as `django.contrib.auth` notes it."""
    user = data.get(SESSION_KEY)
    return _owner(str(user)) if user else None


def _owner(user: str) -> str:
    """The user by the primary key, or by a digest of one that is longer than stores take."""
    key = user.encode(errors="surrogatepass")
    return user if len(key) <= OWNER_BYTES_MAX else f"sha256:{hashlib.sha256(key).hexdigest()}"


def revoke(user: Any, *, but: str | None = None) -> int:
    """Ends all sessions of a user, but for the one with the key `but`: after a change of the
    password, for example. Returns how many. Raises `ValueError` for a user who has been
    deleted, because the primary key is gone: end the sessions before you delete the user."""
    if user.pk is None:
        raise ValueError("the user has no primary key; end the sessions before you delete the user")
    return ours.store().revoke(_owner(user._meta.pk.value_to_string(user)), but=but)


request_started.connect(forget_others, dispatch_uid="sessile.django")
request_finished.connect(release_all, dispatch_uid="sessile.django")


class SessionStore(SessionBase):
    """A session whose data is in a store of Sessile."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self._request: Request | None = None
        # As it is stored; None if it is not.
        self._payload: bytes | None = None
        _made().add(self)

    def _opened(self) -> Request:
        if self._request is None:
            self._request = Request(ours.store(), ours.rules())
        return self._request

    # Load

    def load(self) -> dict[str, Any]:
        key = self.session_key
        return self._read(None if key is None else self._take(key))

    def _take(self, key: str) -> bytes | None:
        return waiting.open_now(self._opened(), key, error=SynchronousOnlyOperation)

    def _now(self, function: Callable[[], T]) -> T:
        return waiting.now(self._opened(), function, error=SynchronousOnlyOperation)

    async def aload(self) -> dict[str, Any]:
        key = self.session_key
        if key is None:
            return self._read(None)
        try:
            return self._read(await waiting.take(ours.store(), self._opened(), key))
        except asyncio.CancelledError:
            # Its thread may use it yet.
            self._request = None
            raise

    def _read(self, payload: bytes | None) -> dict[str, Any]:
        self._payload = payload
        if payload is None:
            # A key that is not stored is not taken from a cookie.
            self._session_key = None
        if not payload:
            return {}
        try:
            return ours.serializer()().loads(payload)
        except Exception:
            # As Django does with data of another serializer.
            logging.getLogger("django.security.SuspiciousSession").warning("Session data corrupted")
            return {}

    # Save

    def save(self, must_create: bool = False) -> None:
        if self.session_key is None:
            return self.create()
        data = self._get_session(no_load=must_create)
        if self.session_key is None:
            # It was not stored.
            return self.create()
        self._now(partial(self._store, data, must_create))

    async def asave(self, must_create: bool = False) -> None:
        if self.session_key is None:
            return await self.acreate()
        data = await self._aget_session(no_load=must_create)
        if self.session_key is None:
            return await self.acreate()
        await self._asave(partial(self._store, data, must_create), waits=not must_create)

    def _store(self, data: dict[str, Any], must_create: bool) -> None:
        key, request, age = self.session_key, self._opened(), self.get_expiry_age()
        payload = ours.serializer()().dumps(data)
        if must_create:
            request.close()

        def save() -> str:
            opened = self._reopened(must_create)
            if ours.store().has_owners:
                opened.set_owner(owner_of(data))
            changed = payload != self._payload
            idle = None if age == settings.SESSION_COOKIE_AGE else max(age, 0)
            return opened.save(key, payload, changed=changed, empty=not data, idle=idle)

        saved = self._changes(save)
        if saved not in STORED and saved != "nothing":
            raise UpdateError(f"the session is gone ({saved})")
        self._payload = payload
        # Also if it was only touched.
        request.close()
        if age <= 0:
            self.delete()

    def _reopened(self, must_create: bool = False) -> Request:
        """The request with its session: a save gives the lock back."""
        request = self._opened()
        if not must_create and not request.is_open:
            if self._payload is not None:
                request.reopen(self.session_key, self._payload)
            elif not self._is_known():
                raise UpdateError("the session is gone")
        return request

    def _is_known(self) -> bool:
        """Whether its key is stored. `clear()` reads nothing before."""
        if self._payload is None and self.session_key is not None:
            self._payload = self._take(self.session_key)
        return self._payload is not None

    def _changes(self, change: Callable[[], T]) -> T:
        try:
            return change()
        except Exists as error:
            raise CreateError from error
        except (Destroyed, Stale, Unsupported) as error:
            raise UpdateError(str(error)) from error

    def create(self) -> None:
        while True:
            self._session_key = get_random_string(KEY_LENGTH, VALID_KEY_CHARS)
            try:
                self.save(must_create=True)
            except CreateError:
                continue
            self.modified = True
            return

    async def acreate(self) -> None:
        while True:
            self._session_key = get_random_string(KEY_LENGTH, VALID_KEY_CHARS)
            try:
                await self.asave(must_create=True)
            except CreateError:
                continue
            self.modified = True
            return

    # Keys

    def cycle_key(self) -> None:
        """Gives the session a new key, and keeps it for this request. The old key is dead at once;
        the data is saved with the response, as after every change."""
        self._get_session()
        if not self._is_known():
            return self.create()
        self._now(self._cycle)

    async def acycle_key(self) -> None:
        await self._aget_session()
        # Visitors without a session would all stand in one line.
        if self.session_key is None or not await self._asave(self._is_known):
            return await self.acreate()
        await self._asave(self._cycle)

    async def _asave(self, function: Callable[[], T], *, waits: bool = True) -> T:
        key = self.session_key or ""
        return await waiting.save(ours.store(), self._opened(), key, function, waits=waits)

    def _cycle(self) -> None:
        new = get_random_string(KEY_LENGTH, VALID_KEY_CHARS)
        self._changes(lambda: self._reopened().regenerate(self.session_key, new))
        self._session_key = new
        self.modified = True

    def exists(self, session_key: str | None) -> bool:
        try:
            return session_key is not None and ours.store().exists(session_key)
        except InvalidId:
            return False

    async def aexists(self, session_key: str | None) -> bool:
        return await waiting.ask(ours.store(), self.exists, session_key)

    def delete(self, session_key: str | None = None) -> None:
        key = self.session_key if session_key is None else session_key
        if key is None:
            return
        try:
            self._opened().destroy(key)
        except InvalidId:
            return
        if key == self.session_key:
            self._payload = None

    async def adelete(self, session_key: str | None = None) -> None:
        await waiting.ask(ours.store(), self.delete, session_key)

    # Copies

    def __getstate__(self) -> dict[str, Any]:
        """A copy holds nothing. Like a second request, it saves what it has read."""
        return {**self.__dict__, "_request": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _made().add(self)

    # The end

    def release(self) -> None:
        """Gives the session back to other requests. A later change can be saved if no other request
        has changed the session since; otherwise `UpdateError` is raised."""
        if self._request is not None:
            self._request.close()

    @classmethod
    def clear_expired(cls) -> None:
        ours.store().collect()

    @classmethod
    async def aclear_expired(cls) -> None:
        await waiting.ask(ours.store(), cls.clear_expired)
