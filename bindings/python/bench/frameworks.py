"""Times load + change + save of one session through the session classes of Django and Flask: ours
and those that are in use. Takes a private Redis and memcached and a directory in memory.

    python frameworks.py [--json] [ROUNDS] [CALLS]

The rows of a round follow each other, and a row is the fastest of its rounds: other programs of the
machine only make it slower, and leave some of many short rounds alone. Each request adds one to a
counter, and a row whose counter is wrong at the end has no figure. The rows `floor` keep nothing:
they show what a framework, its cookie or a serialiser takes whatever keeps the sessions.

With `--json` each row is a line: `row`, `us` of a request in each round, and `checked`, the
requests that the counter has seen; or `row` with what is `missing`, or `wrong`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

AS_JSON = "--json" in sys.argv
_numbers = [int(given) for given in sys.argv[1:] if given != "--json"]
ROUNDS, CALLS = (*_numbers, *(60, 100)[len(_numbers) :])
VALUES = {f"value{number}": "x" * 40 for number in range(20)}
START_SECONDS_MAX = 10


class Row(NamedTuple):
    """What makes so many requests, and how many the session has counted; None without a session."""

    calls: Callable[[int], None]
    count: Callable[[], int] | None


@contextmanager
def server(socket: Path, *command: object) -> Iterator[Path | None]:
    """The socket of a private server; None if its program is missing."""
    if shutil.which(str(command[0])) is None:
        yield None
        return
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_SECONDS_MAX
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command[0]} does not start")
            time.sleep(0.01)
        yield socket
    finally:
        process.terminate()
        process.wait()


def servers(place: Path) -> tuple[object, object]:
    redis, memcached = place / "redis.sock", place / "memcached.sock"
    nothing = ["--save", "", "--dir", place]
    return (
        server(redis, "redis-server", "--port", 0, "--unixsocket", redis, *nothing),
        server(memcached, "memcached", "-u", "root", "-s", memcached),
    )


def missing(redis: Path | None, memcached: Path | None) -> dict[str, str]:
    """The rows that cannot be measured, and how that is changed."""
    told = {}
    if redis is None:
        told["django cache, redis"] = "redis-server (Debian package redis-server)"
        told["flask redis"] = told["django cached_db, redis"] = told["django cache, redis"]
    if memcached is None:
        told["django cache, memcached"] = "memcached (Debian package memcached)"
    elif find_spec("pymemcache") is None:
        told["django cache, memcached"] = "pymemcache (pip install pymemcache)"
    return told


def django_rows(place: Path, redis: Path | None, memcached: Path | None) -> dict[str, Row]:
    import django
    from django.conf import settings

    caches = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    kinds = {
        "sessile": "sessile.django",
        "file": "django.contrib.sessions.backends.file",
        "db": "django.contrib.sessions.backends.db",
    }
    if redis is not None:
        caches["redis"] = {"BACKEND": "django.core.cache.backends.redis.RedisCache",
                           "LOCATION": f"unix://{redis}"}
        kinds["cache, redis"] = "django.contrib.sessions.backends.cache"
        kinds["cached_db, redis"] = "django.contrib.sessions.backends.cached_db"
    if memcached is not None and find_spec("pymemcache") is not None:
        caches["memcached"] = {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache",
                               "LOCATION": f"unix:{memcached}"}
        kinds["cache, memcached"] = "django.contrib.sessions.backends.cache"

    settings.configure(
        SECRET_KEY="a benchmark",
        INSTALLED_APPS=["django.contrib.sessions"],
        SESSION_FILE_PATH=str(place),
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": place / "db"}},
        CACHES=caches,
        SESSILE={"url": f"sessile:{place}/django"},
    )
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    rows = {}
    for name, module in kinds.items():
        settings.SESSION_CACHE_ALIAS = name.partition(", ")[2] or "default"
        kind = import_module(module).SessionStore
        # Stores of caches take their cache when they are made.
        alias = settings.SESSION_CACHE_ALIAS
        session = kind()
        session.update(VALUES)
        session.create()

        def calls(count: int, kind=kind, alias=alias, key=session.session_key) -> None:
            settings.SESSION_CACHE_ALIAS = alias
            for _ in range(count):
                session = kind(key)
                session["count"] = session.get("count", 0) + 1
                session.save()

        def count(kind=kind, alias=alias, key=session.session_key) -> int:
            settings.SESSION_CACHE_ALIAS = alias
            return kind(key).get("count", 0)

        rows[f"django {name}"] = Row(calls, count)
    return rows


def within(context, request: Callable[[], None]) -> Callable[[int], None]:
    """The calls of a round in one context of Flask: it is no part of what is timed."""

    def calls(count: int) -> None:
        with context:
            for _ in range(count):
                request()

    return calls


class NoStore:
    """In place of the request of a store: it keeps one payload in this object."""

    is_open, holds_lock, takes_turns, warning = True, True, True, None
    payload = b""

    def __init__(self, *_: object) -> None:
        pass

    def open(self, id: str, **_: object) -> bytes:
        return NoStore.payload

    def save(self, id: str, payload: bytes, **_: object) -> str:
        NoStore.payload = payload
        return "stored"

    def close(self, **_: object) -> str:
        return "done"


def flask_rows(place: Path, redis: Path | None) -> dict[str, Row]:
    from cachelib import FileSystemCache, SimpleCache
    from flask import Flask
    from flask_session import Session

    from sessile import JSON, MsgSpec
    from sessile.flask import Sessile

    ours = {"SESSILE_URL": f"sessile:{place}/flask"}
    kinds: dict[str, tuple[dict[str, object], object]] = {
        "sessile": (ours, JSON()),
        "sessile, msgspec": (ours, MsgSpec()),
        "filesystem": ({"SESSION_TYPE": "cachelib",
                        "SESSION_CACHELIB": FileSystemCache(str(place / "flask-files"))}, None),
        "floor: sessile without a store": (ours, JSON()),
        "floor: Flask-Session, a dictionary": ({"SESSION_TYPE": "cachelib",
                                                "SESSION_CACHELIB": SimpleCache()}, None),
    }
    if redis is not None:
        from redis import Redis

        kinds["redis"] = ({"SESSION_TYPE": "redis",
                           "SESSION_REDIS": Redis.from_url(f"unix://{redis}")}, None)
    rows = {}
    for name, (config, serializer) in kinds.items():
        app = Flask(name)
        app.config.update(config)
        if serializer is None:
            Session(app)
        else:
            Sessile(app, serializer=serializer)
        rows[f"flask {name}"] = flask_row(app, "without a store" in name)
    rows |= {"flask floor: the cookie": Row(cookie_alone(), None),
             "flask floor: JSON alone": Row(json_alone(), None)}
    return rows


def flask_row(app, without_store: bool) -> Row:
    from flask import Response

    import sessile.session

    made, real = app.session_interface, sessile.session.Request
    with app.test_client() as client, client.session_transaction() as first:
        first.update(VALUES)
    cookie = client.get_cookie("session").value
    context = app.test_request_context(headers={"Cookie": f"session={cookie}"})
    if without_store:
        NoStore.payload = made.sessions.store.peek(cookie)

    def requests(count: int) -> None:
        if without_store:
            sessile.session.Request = NoStore
        try:
            with context:
                for _ in range(count):
                    session, response = made.open_session(app, context.request), Response()
                    session["count"] = session.get("count", 0) + 1
                    made.save_session(app, session, response)
        finally:
            sessile.session.Request = real

    def count() -> int:
        if without_store:
            return json.loads(NoStore.payload)["count"]
        with context:
            return made.open_session(app, context.request).get("count", 0)

    return Row(requests, count)


def cookie_alone() -> Callable[[int], None]:
    """The cookie of a session, read and written."""
    from flask import Flask, Response

    bare = Flask("bare")
    made, context = bare.session_interface, bare.test_request_context()

    def request() -> None:
        id, response = context.request.cookies.get(made.get_cookie_name(bare)), Response()
        response.vary.add("Cookie")
        response.set_cookie(
            made.get_cookie_name(bare), id or "", expires=datetime.now(UTC) + timedelta(days=31),
            httponly=made.get_cookie_httponly(bare), path=made.get_cookie_path(bare),
        )

    return within(context, request)


def json_alone() -> Callable[[int], None]:
    from sessile import JSON

    serializer = JSON()
    payload = serializer.dumps({**VALUES, "count": 0})

    def calls(count: int) -> None:
        for _ in range(count):
            data = serializer.loads(payload)
            data["count"] += 1
            serializer.dumps(data)

    return calls


def main() -> None:
    parent = os.environ.get("SESSILE_BENCH_DIR", "/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="python-", dir=parent))
    try:
        redis_server, memcached_server = servers(place)
        with redis_server as redis, memcached_server as memcached:
            told = missing(redis, memcached)
            rows = django_rows(place, redis, memcached) | flask_rows(place, redis)
            taken: dict[str, list[float]] = {name: [] for name in rows}
            for _ in range(ROUNDS):
                for name, row in rows.items():
                    begun = time.perf_counter()
                    row.calls(CALLS)
                    taken[name].append((time.perf_counter() - begun) / CALLS * 1e6)
            counts = {name: row.count() for name, row in rows.items() if row.count}
    finally:
        shutil.rmtree(place, ignore_errors=True)
    lines = [
        {"row": name, "us": us, "checked": counts.get(name, 0)}
        if counts.get(name, ROUNDS * CALLS) == ROUNDS * CALLS
        else {"row": name, "wrong": f"{counts[name]} of {ROUNDS * CALLS} requests are counted"}
        for name, us in taken.items()
    ]
    lines += [{"row": name, "missing": what} for name, what in told.items()]
    print_rows(lines)


def print_rows(lines: list[dict[str, object]]) -> None:
    if AS_JSON:
        for line in lines:
            print(json.dumps(line))
        return
    times = {line["row"]: min(line["us"]) for line in lines if "us" in line}
    floors = {"django": 0.0, "flask": times["flask floor: the cookie"]}
    for line in lines:
        name = line["row"]
        if "us" not in line:
            print(f"{name:40} {line.get('missing') or line.get('wrong')}")
            continue
        framework = name.split()[0]
        own = times[f"{framework} sessile"] - floors[framework]
        ratio = (times[name] - floors[framework]) / own
        print(f"{name:40} {times[name]:8.1f} us a request {ratio:6.2f} times ours, without cookies")


if __name__ == "__main__":
    main()
