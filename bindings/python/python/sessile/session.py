"""The session of one request, as a dictionary.

It is opened by its first use. What it does with its store is decided by `Request`."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterator, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from . import waiting
from ._sessile import Request
from .errors import Destroyed, InvalidId, Unsupported

if TYPE_CHECKING:
    from .sessions import Sessions


class Session(MutableMapping[str, Any]):
    """The session of one request. A context manager saves it, unless its block raises."""

    def __init__(self, sessions: Sessions, id: str | None = None, *, locked: bool = True) -> None:
        self._sessions = sessions
        self._request = Request(sessions.store, sessions.rules)
        self._id = id
        self._locked = locked
        self._data: dict[str, Any] | None = None
        # As it is stored; None if it is not.
        self._payload: bytes | None = None
        # What the serialiser makes of it, if that is not it; None if nobody had to know.
        self._unchanged: bytes | None = None
        self._is_destroyed = False
        # In a tuple the owner that the next save sets; None if that keeps the one of before.
        self._owner: tuple[str | None] | None = None
        # The process that has opened it.
        self._process = os.getpid()
        # Why a save was not possible: what it was to store must not come back by another one.
        self._lost: str | None = None
        self.cookie_is_sent = False
        """The response has begun: the browser cannot be told of a new id any more."""
        self.idle: float | None = None
        """How many seconds it lives from now on, if that is not what `Sessions` says."""

    # What it is

    @property
    def id(self) -> str:
        """The secret of the cookie. A new session gets it here or when it is saved."""
        if self._data is None and self._id is not None:
            self._load()
        if self._id is None:
            self._id = new_id()
        return self._id

    @property
    def is_new(self) -> bool:
        """Whether no request has stored it."""
        self._loaded()
        return self._payload is None

    @property
    def is_stored(self) -> bool:
        """Whether this request has read or stored a session."""
        return self._payload is not None

    @property
    def is_opened(self) -> bool:
        """Whether the application has used it."""
        return self._data is not None or self._owner is not None

    @property
    def is_destroyed(self) -> bool:
        """Whether this request has destroyed a session."""
        return self._is_destroyed

    @property
    def modified(self) -> bool:
        """Whether it differs from what is stored; changes inside its values count, and so does an
        owner that is not saved."""
        return self._owner is not None or self.has_changed_data

    @property
    def has_changed_data(self) -> bool:
        """Whether its values differ from what is stored."""
        return self._data is not None and self._is_changed(self._dumped())

    @property
    def names_owner(self) -> bool:
        """Whether the next save sets an owner."""
        return self._owner is not None and bool(self._owner[0])

    # What is in it

    def _loaded(self) -> dict[str, Any]:
        return self._load() if self._data is None else self._data

    def __getitem__(self, key: str) -> Any:
        return self._loaded()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._loaded()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._loaded()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def __contains__(self, key: object) -> bool:
        return key in self._loaded()

    def get(self, key: str, default: Any = None) -> Any:
        return self._loaded().get(key, default)

    def clear(self) -> None:
        self._loaded().clear()

    def copy(self) -> dict[str, Any]:
        """Its values, as a dictionary that is not saved."""
        return dict(self._loaded())

    def __repr__(self) -> str:
        state = "not opened" if self._data is None else f"{len(self._data)} values"
        return f"<{type(self).__name__}: {state}>"

    # What is done with it

    def _load(self) -> dict[str, Any]:
        payload = None
        if self._id is not None:
            payload = waiting.open_now(self._request, self._id, locked=self._locked)
        return self._read(payload)

    async def load(self) -> None:
        """Opens it; a coroutine does this before its first use."""
        if self._data is None:
            payload = None
            if self._id is not None:
                payload = await self._take(self._id)
            self._read(payload)

    async def _take(self, id: str) -> bytes | None:
        sessions = self._sessions
        try:
            return await waiting.take(sessions.store, self._request, id, locked=self._locked)
        except asyncio.CancelledError:
            # Its thread may use the request yet, and gives back what it gets: another load has
            # another one.
            self._request = Request(sessions.store, sessions.rules)
            raise

    def _read(self, payload: bytes | None) -> dict[str, Any]:
        if payload is None:
            # An id that a store does not know is not taken from a cookie.
            self._id = None
        self._payload, self._unchanged, self._process = payload, None, os.getpid()
        if payload:
            self._data = self._parsed(payload)
        else:
            self._data = {}
            self._unchanged = self._dumped()
        return self._data

    def _parsed(self, payload: bytes) -> dict[str, Any]:
        """Its data; none if that cannot be read, which would fail in each request to come."""
        try:
            read = self._sessions.serializer.loads(payload)
            if isinstance(read, dict):
                return read
            told = f"it is a {type(read).__name__}"
        except Exception as error:
            told = type(error).__name__
        # Neither the id nor the data.
        logging.getLogger("sessile").warning(f"a session cannot be read, and is empty: {told}")
        self._unchanged = self._sessions.serializer.dumps({})
        return {}

    def _is_changed(self, dumped: bytes, *, saves: bool = False) -> bool:
        """Whether this is not what is stored."""
        if self._unchanged is None and self._payload is not None:
            if dumped == self._payload:
                return False
            serializer = self._sessions.serializer
            # Without the lock a change of the bytes alone would be a change of every value.
            if saves and self._request.holds_lock and getattr(serializer, "is_canonical", False):
                return True
            # Another serialiser, or another version of this one, may have written the payload.
            self._unchanged = self._sessions.serializer.dumps(self._parsed(self._payload))
        return dumped != self._unchanged

    def _dumped(self) -> bytes:
        return self._sessions.serializer.dumps(self._data or {})

    def set_owner(self, owner: str | None) -> None:
        """Says whose session it is, for example the number of the user after a log-in; None takes
        that away. It counts with the next save, and later saves keep it."""
        self._owner = (owner,)

    def save(self) -> str:
        """Stores it and gives its lock back; another save takes it again. Names the result:
        `stored`, `touched` if only its life is longer now, `nothing`; if another request has
        ended it meanwhile `logged-out`, `replaced` (by a new id) or `ended`."""
        if not self.is_opened:
            return "nothing"
        self._loaded()
        return waiting.now(self._request, partial(self._store, self._dumped()))

    async def asave(self) -> str:
        """`save` for a coroutine."""
        if not self.is_opened:
            return "nothing"
        await self.load()
        dumped = self._dumped()
        # The lock of a session that was read without it is not taken for a touch.
        is_touch = (
            self._request.is_open
            and self._owner is None
            and not self._is_changed(dumped, saves=True)
        )
        return await waiting.save(
            self._sessions.store,
            self._request,
            self.id,
            partial(self._store, dumped),
            waits=self._payload is not None and not is_touch,
        )

    def _store(self, dumped: bytes) -> str:
        if self._lost is None:
            saved = self._try_to_store(dumped)
            if saved not in ("replaced", "ended"):
                return saved
            self._lost = saved
        is_changed = self._owner is not None or self._is_changed(dumped)
        return self._lost if is_changed else "nothing"

    def _try_to_store(self, dumped: bytes) -> str:
        if self._payload is None and not self._data and not self.names_owner:
            return "nothing"
        id, before = self.id, self._payload
        if before is None:
            self._check_cookie("the new session, which is not saved")
        elif not self._request.is_open:
            result = self._reopen(before, dumped)
            if result is not None:
                return result
        changed = self._is_changed(dumped, saves=True)
        payload = before if before is not None and not changed else dumped
        if self._owner is not None:
            self._request.set_owner(*self._owner)
        saved = self._request.save(
            id, payload, changed=changed, empty=not self._data, idle=self.idle
        )
        # Also if it was only touched.
        self._request.close()
        if saved in ("stored", "touched"):
            self._payload, self._unchanged, self._owner = payload, dumped, None
        return saved

    def _reopen(self, before: bytes, dumped: bytes) -> str | None:
        """Takes the lock again that an earlier save has given back. Names the result of the save if
        that is not possible any more."""
        is_of_parent = self._process != os.getpid()
        if is_of_parent and self._owner is None and not self._is_changed(dumped):
            return "nothing"
        try:
            self._request.reopen(self.id, before)
        except Destroyed:
            return "logged-out"
        except Unsupported:
            if is_of_parent:
                raise
            return "replaced"
        return None

    def _check_cookie(self, of: str) -> None:
        if self.cookie_is_sent:
            raise Destroyed(
                f"the response has begun without the cookie of {of}: change the session before the "
                "response starts"
            )

    def regenerate(self, *, keep_old: bool = False) -> None:
        """Gives it a new id: at each log-in and change of rights. If `keep_old`, requests that are
        under way see the session under the old id as it was, for the grace."""
        self._loaded()
        waiting.now(self._request, partial(self._regenerate, keep_old))

    def _regenerate(self, keep_old: bool) -> None:
        self._check_cookie("a new id, and the session keeps the one that it has")
        new = new_id()
        if self._payload is not None:
            if not self._request.is_open:
                self._request.reopen(self.id, self._payload)
            self._request.regenerate(self.id, new, keeps=keep_old)
        self._id = new

    async def aregenerate(self, *, keep_old: bool = False) -> None:
        """`regenerate` for a coroutine."""
        await self.load()
        await waiting.save(
            self._sessions.store,
            self._request,
            self.id,
            partial(self._regenerate, keep_old),
        )

    def destroy(self) -> None:
        """Ends it: a log-out. What comes after it is a new session."""
        if self._id is not None:
            try:
                self._request.destroy(self._id)
            except InvalidId:
                # A malformed cookie names no session.
                pass
        self._forget()

    async def adestroy(self) -> None:
        """`destroy` for a coroutine."""
        await waiting.ask(self._sessions.store, self.destroy)

    def _forget(self) -> None:
        self._id, self._payload, self._data, self._owner = None, None, {}, None
        self._unchanged, self._is_destroyed, self._lost = self._dumped(), True, None

    def release(self) -> None:
        """Gives the lock back without saving."""
        self._request.close()

    async def arelease(self) -> None:
        """`release` for a coroutine."""
        if self._request.is_open:
            await waiting.ask(self._sessions.store, self.release)

    def __enter__(self) -> Session:
        self._loaded()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                raise_if_lost(self.save())
        finally:
            self.release()

    async def __aenter__(self) -> Session:
        await self.load()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                raise_if_lost(await self.asave())
        finally:
            await self.arelease()


_LOST = {
    "logged-out": "another request has destroyed the session; nothing is saved",
    "replaced": "another request has given the session a new id; nothing is saved",
    "ended": "the session has reached the end of its absolute lifetime; nothing is saved",
}


def raise_if_lost(saved: str) -> None:
    """Raises what a save says that was not possible any more."""
    if saved in _LOST:
        raise Destroyed(_LOST[saved])


def missed(saved: str) -> str | None:
    """What a response has lost by a save that was not possible any more. After a log-out there is
    nothing that the visitor could miss."""
    return None if saved == "logged-out" else _LOST.get(saved)


def raise_if_missed(saved: str) -> None:
    """`raise_if_lost` for a response that has not begun."""
    told = missed(saved)
    if told is not None:
        raise Destroyed(told)


def new_id() -> str:
    """A new session id, of 192 random bits."""
    return secrets.token_urlsafe(24)

