"""Calls of coroutines. What a store answers from memory is called at once, and what waits is called
in a thread, so that the event loop never stands still.

Sessions that others hold are waited for in threads of their own, and so are the waits of saves.
Otherwise all threads could wait for a session whose holder needs a thread to save it. Those who
wait for one session stand in line and need one thread, so that one visitor with many requests holds
up no other."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ._sessile import Request, Store
from .errors import LockTimeout

T = TypeVar("T")

CALLS_MAX = 16
WAITS_MAX = 64
SAVES_MAX = 16

_threads: dict[str, ThreadPoolExecutor] = {}
# A child has none of the threads of its parent.
os.register_at_fork(after_in_child=_threads.clear)
# Of each session that coroutines of an event loop wait for; gone with the last of them.
_lines: WeakValueDictionary[tuple[Any, Store, str], asyncio.Lock] = WeakValueDictionary()


def _submitted(name: str, threads_max: int, call: Callable[[], T]) -> Future[T]:
    pool = _threads.get(name)
    if pool is None:
        pool = _threads.setdefault(name, ThreadPoolExecutor(threads_max, f"sessile-{name}"))
    return pool.submit(call)


async def _in_line(
    name: str, threads_max: int, store: Store, request: Request, id: str, call: Callable[[], T]
) -> T:
    """Calls what waits for the lock of an id, after those who came before."""
    loop, begun = asyncio.get_running_loop(), time.monotonic()
    line = _lines.setdefault((loop, store, id), asyncio.Lock())
    await line.acquire()
    try:
        request.spend_wait(time.monotonic() - begun)
        called = _submitted(name, threads_max, call)
    except BaseException:
        line.release()
        raise

    def leave() -> None:
        # A closed loop has no line.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(line.release)

    # Not earlier, also if the task is cancelled: its thread still waits.
    return await _result(called, request, leave)


async def _result(
    called: Future[T], request: Request, leave: Callable[[], None] = lambda: None
) -> T:
    """The result of a thread. If the task is cancelled, the thread may get the lock yet, for nobody:
    it gives it back then, and leaves the line after that."""
    cancelled = False

    def end(_: object) -> None:
        try:
            if cancelled:
                request.close()
        finally:
            leave()

    called.add_done_callback(end)
    try:
        return await asyncio.wrap_future(called)
    except asyncio.CancelledError:
        cancelled = True
        raise


async def ask(store: Store, function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Calls what waits for no lock."""
    if store.in_memory:
        return function(*args, **named)
    call = partial(function, *args, **named)
    return await asyncio.wrap_future(_submitted("calls", CALLS_MAX, call))


async def take(store: Store, request: Request, id: str, *, locked: bool = True) -> bytes | None:
    """`request.open`. If it fails or is cancelled, nothing stays held."""
    opened = partial(request.open, id, locked=locked)
    try:
        takes_turn = locked and request.takes_turns
        # Those in line come first.
        line = _lines.get((asyncio.get_running_loop(), store, id)) if takes_turn else None
        if line is None or not line.locked():
            with suppress(LockTimeout):
                return await _try(store, request, partial(opened, at_once=True))
        return await _in_line("waits", WAITS_MAX, store, request, id, opened)
    except BaseException:
        request.close()
        raise


async def _try(store: Store, request: Request, opened: Callable[[], T]) -> T:
    if store.in_memory:
        return opened()
    return await _result(_submitted("calls", CALLS_MAX, opened), request)


async def save(
    store: Store, request: Request, id: str, function: Callable[[], T], *, waits: bool = True
) -> T:
    """Calls what saves the session of a request. It waits for no lock that it holds. `waits` is
    False for what takes none, or that of an id that nobody else knows."""
    if not waits or request.holds_lock:
        # It may have to take the lock after all, if the session has expired meanwhile.
        request.spend_wait(math.inf)
        with suppress(LockTimeout):
            return await ask(store, function)
    return await _in_line("saves", SAVES_MAX, store, request, id, function)


def in_event_loop() -> bool:
    """Whether a wait would stop an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def open_now(
    request: Request, id: str, *, locked: bool = True, error: type[Exception] = RuntimeError
) -> bytes | None:
    """`request.open`. In a coroutine it raises instead of a wait."""
    try:
        return request.open(id, locked=locked, at_once=True)
    except LockTimeout:
        return now(request, partial(request.open, id, locked=locked), error=error)


def now(
    request: Request, function: Callable[[], T], *, error: type[Exception] = RuntimeError
) -> T:
    """Calls what may wait for the lock of a session. In a coroutine it raises instead."""
    if not in_event_loop():
        return function()
    request.spend_wait(math.inf)
    try:
        return function()
    except LockTimeout as timeout:
        told = (
            "Another request holds the session, and a coroutine cannot wait for it here: use the "
            "asynchronous methods, and await them."
        )
        raise error(told) from timeout
