"""Eight workers of real servers, a thousand requests each, one session: none is lost. The servers
import the application, and open its store, before they fork."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessile import LockTimeout, Sessions

WORKERS = 8
REQUESTS = 1000

FLASK = """
from flask import Flask, session
from sessile.flask import Sessile
app = Flask("shop")
app.config["SESSILE_URL"] = {url!r}
Sessile(app)

@app.get("/count")
def count():
    session["n"] = session.get("n", 0) + 1
    return str(session["n"])
"""
STARLETTE = """
import asyncio
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from sessile import asgi

async def count(request):
    request.session["n"] = request.session.get("n", 0) + 1
    await asyncio.sleep(0)
    return PlainTextResponse(str(request.session["n"]))

app = Starlette(routes=[Route("/count", count)])
app.add_middleware(asgi.SessionMiddleware, sessions={url!r}, concurrency="exclusive")
"""
DJANGO = """
import os
os.environ["SESSILE_TEST_OPTIONS"] = {options!r}
import django_site
from sessile.django import settings
settings.store()
app = django_site.{kind}
"""
GUNICORN = ["gunicorn", "--preload", "--workers", str(WORKERS), "--log-level", "error"]
UVICORN = ["uvicorn", "--workers", str(WORKERS), "--log-level", "error"]


@contextmanager
def served(place: Path, text: str, command: list[str]) -> Iterator[int]:
    (place / "application.py").write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = (
        ["--bind", f"127.0.0.1:{port}"] if command[0] == "gunicorn" else ["--port", str(port)]
    )
    server = subprocess.Popen(
        [sys.executable, "-m", *command, *address, "application:app"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, "the server is not up"
                time.sleep(0.05)
        yield port
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def visit(port: int, cookie: str, count: int, failed: list[int]) -> str:
    # Each request is a connection of its own, so that all workers get some.
    body = b""
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/count", headers={"Cookie": cookie})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            failed.append(response.status)
        cookie = (response.getheader("Set-Cookie") or cookie).split(";")[0]
        connection.close()
    return cookie if count == 1 else body.decode()


def application(name: str, url: str) -> tuple[str, list[str]]:
    options = json.dumps({"url": url})
    return {
        "flask": (FLASK.format(url=url), GUNICORN),
        "django": (DJANGO.format(options=options, kind="wsgi"), GUNICORN),
        "django threads": (DJANGO.format(options=options, kind="wsgi"), [*GUNICORN, "--threads=4"]),
        "django asgi": (DJANGO.format(options=options, kind="asgi"), UVICORN),
        "starlette": (STARLETTE.format(url=url), UVICORN),
    }[name]


@pytest.mark.parametrize("name", ["flask", "django", "django threads", "django asgi", "starlette"])
def test_eight_workers_lose_nothing(name: str, url: str, tmp_path: Path) -> None:
    text, command = application(name, url)
    failed: list[int] = []
    with served(tmp_path, text, command) as port:
        cookie = visit(port, "", 1, failed)
        visitors = [
            threading.Thread(target=visit, args=(port, cookie, REQUESTS, failed))
            for _ in range(WORKERS)
        ]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()
        last = visit(port, cookie, 2, failed)
    assert not failed
    assert int(last) == WORKERS * REQUESTS + 3


MIDDLEWARE = {
    "ours": "sessile.django.middleware.SessionMiddleware",
    "stock": "django.contrib.sessions.middleware.SessionMiddleware",
}
# Only what gives a session back is to free it, not the collector of garbage.
WITHOUT_COLLECTOR = """
import gc, os
gc.disable()
os.environ["SESSILE_TEST_MIDDLEWARE"] = {middleware!r}
"""


def is_free(sessions: Sessions, id: str) -> bool:
    try:
        session = sessions.begin(id)
        assert not session.is_new
        session.release()
    except LockTimeout:
        return False
    return True


def wait_until(free: bool, sessions: Sessions, id: str) -> None:
    end = time.monotonic() + 5
    while is_free(sessions, id) is not free:
        assert time.monotonic() < end, "it is still held" if free else "it is not held"


@pytest.mark.parametrize("middleware", MIDDLEWARE)
def test_an_asgi_server_gives_a_session_back_at_the_end_and_at_a_disconnect(
    middleware: str, url: str, tmp_path: Path
) -> None:
    """The signals at the end of a request were sent in a context that did not know its session.
    A session of a user, which the request refers to in a circle, stayed locked."""
    used = f"{MIDDLEWARE[middleware]} django.contrib.auth.middleware.AuthenticationMiddleware"
    options = json.dumps({"url": url})
    text = WITHOUT_COLLECTOR.format(middleware=used) + DJANGO.format(options=options, kind="asgi")
    failed: list[int] = []
    with served(tmp_path, text, ["uvicorn", "--log-level", "error"]) as port:
        cookie = visit(port, "", 1, failed)
        id, sessions = cookie.split("=")[1], Sessions(url, lock_wait=0)
        for page in ("user", "aread", "read", "sync_in_async"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/{page}", headers={"Cookie": cookie})
            assert connection.getresponse().status == 200
            wait_until(True, sessions, id)
            connection.close()
        for page in ("hang", "hang_in_stream"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/{page}", headers={"Cookie": cookie})
            wait_until(False, sessions, id)
            connection.sock.close()
            wait_until(True, sessions, id)
