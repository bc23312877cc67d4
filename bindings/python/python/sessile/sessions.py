"""The sessions of one application: a store and the rules of its requests."""

from __future__ import annotations

from ._sessile import Rules, Store
from .serializers import JSON, Serializer
from .session import Session


class Sessions:
    """An open store with the rules of one application. Threads share it, and forked workers.

    * `url`: the store, for example `sessile:/dev/shm/shop` or `redis://localhost`.
    * `idle`: a session lives for so many seconds after each request; `first_lifetime`: for so many
      until a second request uses it, or it has an owner; `lifetime`: at most for so many after its
      creation.
    * `concurrency`: requests of one session take turns (`exclusive`), or run in parallel and their
      changes are merged by the keys of the session (`merge`), or run in parallel and a save that
      would undo the change of another one raises `Stale` (`detect`). `on_conflict`: what `merge`
      does if two have changed the same key, `last` (stands, counted and logged) or `fail`.
    * `lock_wait`: how many seconds a request waits for the lock.
    * `grace`: for so many seconds `regenerate(keep_old=True)` keeps the old id.
    * `serializer`: `JSON()`, `Pickle()` or your own.
    """

    def __init__(
        self,
        url: str | Store,
        *,
        idle: float = 1440.0,
        first_lifetime: float | None = None,
        lifetime: float | None = None,
        concurrency: str = "exclusive",
        on_conflict: str = "last",
        lock_wait: float = 30.0,
        grace: float = 30.0,
        serializer: Serializer | None = None,
        hashed_ids: bool = False,
        payload_bytes_max: int | None = None,
    ) -> None:
        self.serializer: Serializer = serializer or JSON()
        self.idle = idle
        self.rules = Rules(
            idle=idle,
            first_lifetime=first_lifetime,
            lifetime=lifetime,
            concurrency=concurrency,
            on_conflict=on_conflict,
            lock_wait=lock_wait,
            grace=grace,
            format=self.serializer.format,
        )
        self.store = (
            url
            if isinstance(url, Store)
            else Store(url, hashed_ids=hashed_ids, payload_bytes_max=payload_bytes_max)
        )

    def begin(self, id: str | None = None) -> Session:
        """The session of an id, which no other request changes until it is saved; a new one
        without an id, or for one that the store does not know."""
        return Session(self, id)

    def read(self, id: str) -> Session:
        """The session of an id to look at: it waits for nobody and cannot be changed."""
        return Session(self, id, locked=False)

    def revoke(self, owner: str, *, but: str | None = None) -> int:
        """Ends all sessions of an owner, but for the one with the id `but`: a log-out everywhere.
        Returns how many."""
        return self.store.revoke(owner, but=but)

    def destroy(self, id: str) -> None:
        """Ends the session of an id, even while a request has it."""
        self.store.destroy(id)
