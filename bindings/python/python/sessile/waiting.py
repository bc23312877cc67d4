"""Calls of coroutines. What a store answers from memory is called at once, and what waits is called
in a thread, so that the event loop never stands still.

Sessions that others hold are waited for in threads of their own, and so are the short waits of
saves. Otherwise all threads could wait for a session whose holder needs a thread to save it, and
one visitor with many requests would keep all others from saving."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from ._sessile import Request, Store
from .errors import LockTimeout

T = TypeVar("T")

CALLS_MAX = 16
WAITS_MAX = 64
SAVES_MAX = 16

_threads: dict[str, ThreadPoolExecutor] = {}
# A child has none of the threads of its parent.
os.register_at_fork(after_in_child=_threads.clear)


def _in_thread(name: str, threads_max: int, call: Callable[[], T]) -> asyncio.Future[T]:
    pool = _threads.get(name)
    if pool is None:
        pool = _threads.setdefault(name, ThreadPoolExecutor(threads_max, f"sessile-{name}"))
    return asyncio.get_running_loop().run_in_executor(pool, call)


async def ask(store: Store, function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Calls what waits for no lock."""
    if store.in_memory:
        return function(*args, **named)
    return await _in_thread("calls", CALLS_MAX, partial(function, *args, **named))


async def take(store: Store, request: Request, id: str, *, locked: bool = True) -> bytes | None:
    """`request.open`. If it fails or is cancelled, nothing stays held."""
    opened = partial(request.open, id, locked=locked)
    try:
        try:
            return await ask(store, opened, at_once=True)
        except LockTimeout:
            return await _in_thread("waits", WAITS_MAX, opened)
    except BaseException:
        request.close()
        raise


async def save(
    store: Store, request: Request, function: Callable[[], T], *, waits: bool = True
) -> T:
    """Calls what saves the session of a request. It waits for no lock that it holds. `waits` is
    False for what takes none, or that of an id that nobody else knows."""
    if not waits or request.holds_lock:
        return await ask(store, function)
    return await _in_thread("saves", SAVES_MAX, function)
