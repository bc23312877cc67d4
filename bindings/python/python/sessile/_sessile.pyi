from typing import Literal

from .errors import Error

__version__: str

_Saved = Literal[
    "stored", "touched", "nothing", "withdraw-cookie", "logged-out", "replaced", "ended"
]

class Store:
    def __new__(
        cls,
        url: str,
        *,
        payload_bytes_max: int | None = None,
        hashed_ids: bool = False,
        request_time_max: float | None = None,
    ) -> Store: ...
    @property
    def label(self) -> str: ...
    @property
    def in_memory(self) -> bool: ...
    def peek(self, id: str) -> bytes | None: ...
    def exists(self, id: str) -> bool: ...
    def create(self, id: str, payload: bytes, idle: float) -> None: ...
    def touch(self, id: str, idle: float) -> None: ...
    def destroy(self, id: str) -> None: ...
    def collect(self, *, all: bool = True) -> int: ...
    def counters(self) -> dict[str, int]: ...

class Rules:
    def __new__(
        cls,
        *,
        idle: float,
        lifetime: float | None = None,
        lock_wait: float = 30.0,
        grace: float = 30.0,
        lazy_start: bool = True,
        touch_unlocked: bool = False,
        best_effort: bool = False,
        read_on_lock_timeout: bool = False,
        concurrency: str = "exclusive",
        format: str | None = None,
        on_conflict: str = "last",
    ) -> Rules: ...

class Request:
    def __new__(cls, store: Store, rules: Rules) -> Request: ...
    def open(
        self, id: str, *, locked: bool = True, at_once: bool = False, strict: bool = True
    ) -> bytes | None: ...
    @property
    def warning(self) -> Error | None: ...
    def save(
        self,
        id: str,
        payload: bytes | None,
        *,
        changed: bool = True,
        empty: bool = False,
        headers_open: bool = True,
        idle: float | None = None,
    ) -> _Saved: ...
    def reopen(self, id: str, saved: bytes) -> None: ...
    def regenerate(self, old: str, new: str, *, keeps: bool = False) -> None: ...
    def is_taken(self, id: str) -> bool: ...
    def destroy(self, id: str) -> None: ...
    def close(self, *, headers_open: bool = True) -> Literal["done", "withdraw-cookie"]: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def holds_lock(self) -> bool: ...
