"""Times load + change + save of one session through the session classes of Django and Flask: ours
and those that are in use. Takes a private Redis and a directory in memory.

    python frameworks.py [ROUNDS] [CALLS]

The rows of a round follow each other, and a row is the fastest of its rounds: other programs of the
machine only make it slower, and leave some of many short rounds alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

ROUNDS, CALLS = (int(given) for given in (*sys.argv[1:3], *("60", "100")[len(sys.argv) - 1 :]))
VALUES = {f"value{number}": "x" * 40 for number in range(20)}


@contextmanager
def redis(place: Path) -> Iterator[str]:
    socket = place / "redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", place],
        stdout=subprocess.DEVNULL,
    )
    try:
        while not socket.exists():
            time.sleep(0.01)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()


def django_rows(place: Path, server: str) -> dict[str, Callable[[int], None]]:
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="a benchmark",
        INSTALLED_APPS=["django.contrib.sessions"],
        SESSION_FILE_PATH=str(place),
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": place / "db"}},
        CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache",
                            "LOCATION": server}},
        SESSILE={"url": f"sessile:{place}/django"},
    )
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    rows = {}
    for name in ("sessile.django", *(f"django.contrib.sessions.backends.{kind}"
                                     for kind in ("file", "cache", "db", "cached_db"))):
        kind = import_module(name).SessionStore
        session = kind()
        session.update(VALUES)
        session.create()

        def calls(count: int, kind=kind, key=session.session_key) -> None:
            for _ in range(count):
                session = kind(key)
                session["count"] = session.get("count", 0) + 1
                session.save()

        rows[f"django {name.rsplit('.', 1)[-1].replace('django', 'sessile')}"] = calls
    return rows


def within(context, request: Callable[[], None]) -> Callable[[int], None]:
    """The calls of a round in one context of Flask: it is no part of what is timed."""

    def calls(count: int) -> None:
        with context:
            for _ in range(count):
                request()

    return calls


def flask_rows(place: Path, server: str) -> dict[str, Callable[[int], None]]:
    from cachelib import FileSystemCache
    from flask import Flask, Response
    from flask_session import Session
    from redis import Redis

    from sessile import MsgSpec
    from sessile.flask import Sessile

    kinds = {
        "sessile": {"SESSILE_URL": f"sessile:{place}/flask"},
        "sessile with msgspec": {"SESSILE_URL": f"sessile:{place}/flask"},
        "filesystem": {"SESSION_TYPE": "cachelib",
                       "SESSION_CACHELIB": FileSystemCache(str(place / "flask-files"))},
        "redis": {"SESSION_TYPE": "redis", "SESSION_REDIS": Redis.from_url(server)},
    }
    rows = {}
    for name, config in kinds.items():
        app = Flask(name)
        app.config.update(config)
        if "msgspec" in name:
            Sessile(app, serializer=MsgSpec())
        else:
            (Sessile if name == "sessile" else Session)(app)
        made = app.session_interface
        with app.test_client() as client, client.session_transaction() as first:
            first.update(VALUES)
        cookie = client.get_cookie("session").value

        context = app.test_request_context(headers={"Cookie": f"session={cookie}"})

        def request(app=app, made=made, context=context) -> None:
            session, response = made.open_session(app, context.request), Response()
            session["count"] = session.get("count", 0) + 1
            made.save_session(app, session, response)

        rows[f"flask {name}"] = within(context, request)
    # The cookie of a session, read and written.
    bare = Flask("bare")
    made, context = bare.session_interface, bare.test_request_context()

    def nothing() -> None:
        id, response = context.request.cookies.get(made.get_cookie_name(bare)), Response()
        response.vary.add("Cookie")
        response.set_cookie(
            made.get_cookie_name(bare), id or "", expires=datetime.now(UTC) + timedelta(days=31),
            httponly=made.get_cookie_httponly(bare), path=made.get_cookie_path(bare),
        )

    rows["flask itself"] = within(context, nothing)
    return rows


def main() -> None:
    place = Path(tempfile.mkdtemp(prefix="sessile-python-bench-", dir="/dev/shm"))
    try:
        with redis(place) as server:
            rows = django_rows(place, server) | flask_rows(place, server)
            taken: dict[str, list[float]] = {name: [] for name in rows}
            for _ in range(ROUNDS):
                for name, calls in rows.items():
                    begun = time.perf_counter()
                    calls(CALLS)
                    taken[name].append((time.perf_counter() - begun) / CALLS * 1e6)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    fastest = {name: min(times) for name, times in taken.items()}
    floor = {"django": 0.0, "flask": fastest["flask itself"]}
    for name, time_us in fastest.items():
        framework = name.split()[0]
        own = fastest[f"{framework} sessile"] - floor[framework]
        times = (time_us - floor[framework]) / own
        print(f"{name:26} {time_us:8.1f} us a request {times:6.1f} times ours, without cookies")


if __name__ == "__main__":
    main()
