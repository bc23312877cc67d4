"""Plain WSGI and ASGI applications, and Starlette."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from sessile import Destroyed, Sessions, Stale, asgi, wsgi
from sessile.cookies import Cookie


def shop(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
    session, path = environ["sessile.session"], environ["PATH_INFO"]
    if path == "/raise":
        session["n"] = -1
        raise RuntimeError
    if path == "/count":
        session["n"] = session.get("n", 0) + 1
    if path == "/out":
        session.destroy()
    if path == "/out_elsewhere":
        session["n"] = 5
        environ["sessions"].destroy(session.id)
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/stream":
        yield b"n="
        session["streamed"] = True
    if path == "/raise_in_stream":
        yield b"n="
        session["n"] = -1
        raise RuntimeError
    if path == "/out_elsewhere":
        session["n"] = 6
    if path != "/static":
        yield str(dict(session)).encode()


def called(app: Any, path: str, cookie: str) -> Iterator[bytes]:
    """As a server calls it, which closes a response also if its application raises."""
    environ = {"PATH_INFO": path, "HTTP_COOKIE": cookie.split(";")[0], "sessions": app.sessions}
    body = app(environ, lambda status, headers, exc_info=None: None)
    try:
        yield from body
    finally:
        body.close()


def browser(app: Any) -> httpx.Client:
    return httpx.Client(transport=httpx.WSGITransport(app=app), base_url="http://shop")


def test_a_wsgi_application_keeps_its_session(url: str) -> None:
    app = wsgi.SessionMiddleware(shop, url, lock_wait=1)
    with browser(app) as client:
        static = client.get("/static")
        assert "set-cookie" not in static.headers and "vary" not in static.headers
        assert "set-cookie" not in client.get("/").headers
        cookie = client.get("/count").headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" not in cookie
        assert client.get("/count").text == "{'n': 2}"
        with pytest.raises(RuntimeError):
            list(called(app, "/raise", cookie))
        assert client.get("/").text == "{'n': 2}"
        assert client.get("/stream").text == "n={'n': 2, 'streamed': True}"
        assert client.get("/").text == "{'n': 2, 'streamed': True}"
        assert "Max-Age=0" in client.get("/out").headers["set-cookie"]
        assert client.get("/").text == "{}"


def test_a_response_that_fails_saves_nothing_and_one_that_is_too_late_does_not_fail(
    url: str,
) -> None:
    app = wsgi.SessionMiddleware(shop, url, lock_wait=0)
    with browser(app) as client:
        cookie = client.get("/count").headers["set-cookie"]
        id = cookie.split(";")[0].split("=")[1]
        with pytest.raises(RuntimeError):
            list(called(app, "/raise_in_stream", cookie))
        with Sessions(url, lock_wait=0).begin(id) as session:
            assert session["n"] == 1
        assert b"".join(called(app, "/out_elsewhere", cookie)) == b"{'n': 6}"
        assert not app.sessions.store.exists(id)


def test_a_response_does_not_hold_a_session_that_was_only_read(url: str) -> None:
    app = wsgi.SessionMiddleware(shop, url, lock_wait=0)
    with browser(app) as client:
        cookie = client.get("/count").headers["set-cookie"]
    with Sessions(url).begin(cookie.split(";")[0].split("=")[1]) as session:
        session["n"] = 1

    def read(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        assert environ["sessile.session"]["n"] == 1
        start_response("200 OK", [])
        yield b"."
        yield b"."

    body = called(wsgi.SessionMiddleware(read, url, lock_wait=0), "/", cookie)
    next(body)
    with Sessions(url, lock_wait=0).begin(session.id) as other:
        other["n"] = 2
    list(body)


def test_a_late_request_with_an_old_id_does_not_remove_the_cookie(url: str) -> None:
    client = TestClient(starlette(url))
    client.get("/count")
    old = client.cookies["session"]
    client.get("/login")
    late = TestClient(starlette(url), cookies={"session": old})
    assert "set-cookie" not in late.get("/keys").headers


def test_a_cookie_is_read_and_written() -> None:
    cookie = Cookie(name="id", max_age=60, domain="shop.example", same_site=None)
    assert cookie.read('a=1; id="abc"; ids=2') == "abc"
    assert cookie.read("a=1") is None and cookie.read("") is None
    line = "id=abc; Path=/; Max-Age=60; Domain=shop.example; Secure; HttpOnly"
    assert cookie.write("abc", https=True) == line
    with pytest.raises(ValueError):
        Cookie(name="a b")


async def count(request: Request) -> PlainTextResponse:
    n = request.session.get("n", 0)
    await asyncio.sleep(0.001)
    request.session["n"] = n + 1
    return PlainTextResponse(str(request.session["n"]))


async def add(request: Request) -> PlainTextResponse:
    await asyncio.sleep(0.001)
    request.session[request.path_params["key"]] = 1
    return PlainTextResponse("added")


async def keys(request: Request) -> PlainTextResponse:
    return PlainTextResponse(" ".join(sorted(request.session)))


async def login(request: Request) -> PlainTextResponse:
    await request.session.aregenerate()
    request.session["user"] = 1
    return PlainTextResponse("in")


async def logout(request: Request) -> PlainTextResponse:
    await request.session.adestroy()
    return PlainTextResponse("out")


async def fail(request: Request) -> PlainTextResponse:
    request.session["n"] = -1
    raise RuntimeError


async def stream(request: Request) -> StreamingResponse:
    async def body() -> Any:
        for _ in range(3):
            yield b"."
            await asyncio.sleep(0)

    request.session["n"] = request.session.get("n", 0) + 1
    return StreamingResponse(body())


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(str(websocket.session.get("n")))
    await websocket.close()


ROUTES = [
    Route("/count", count),
    Route("/add/{key}", add),
    Route("/keys", keys),
    Route("/login", login),
    Route("/logout", logout),
    Route("/raise", fail),
    Route("/stream", stream),
    WebSocketRoute("/socket", socket),
]


def starlette(url: str, **options: Any) -> Starlette:
    app = Starlette(routes=ROUTES)
    app.add_middleware(asgi.SessionMiddleware, sessions=url, **options)
    return app


@pytest.mark.parametrize("server", ["memory", "redis"])
def test_a_starlette_application_keeps_its_session(
    url: str, server: str, request: pytest.FixtureRequest
) -> None:
    store = url if server == "memory" else request.getfixturevalue("redis_url")
    client = TestClient(starlette(store), raise_server_exceptions=False)
    assert "set-cookie" not in client.get("/keys").headers
    assert client.get("/count").headers["set-cookie"].startswith("session=")
    assert client.get("/count").text == "2"
    assert client.get("/raise").status_code == 500
    assert client.get("/stream").text == "..."
    with client.websocket_connect("/socket") as websocket:
        assert websocket.receive_text() == "3"
    old = client.cookies["session"]
    client.get("/login")
    assert client.cookies["session"] != old
    assert client.get("/keys").text == "n user"
    assert "Max-Age=0" in client.get("/logout").headers["set-cookie"]
    assert client.get("/keys").text == ""
    client.cookies.set("session", old, domain="testserver.local")
    assert client.get("/keys").text == ""


async def visits(app: Any, cookie: str, paths: list[str]) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    cookies = {"session": cookie}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://shop", cookies=cookies
    ) as client:
        return list(await asyncio.gather(*(client.get(path) for path in paths)))


@pytest.mark.parametrize("kind", ["exclusive", "merge", "detect"])
def test_parallel_requests_of_one_visitor_lose_nothing(url: str, kind: str) -> None:
    app = starlette(url, concurrency=kind)
    cookie = TestClient(app).get("/add/first").cookies["session"]
    answers = asyncio.run(visits(app, cookie, [f"/add/key{number}" for number in range(50)]))
    stored = asyncio.run(visits(app, cookie, ["/keys"]))[0].text.split()
    failed = [answer for answer in answers if answer.status_code == 500]
    assert len(stored) == 51 - len(failed)
    assert bool(failed) == (kind == "detect")
    if kind == "exclusive":
        asyncio.run(visits(app, cookie, ["/count"] * 50))
        assert asyncio.run(visits(app, cookie, ["/count"]))[0].text == "51"


def test_a_conflict_can_be_an_error(url: str) -> None:
    sessions = Sessions(url, concurrency="merge", on_conflict="fail")
    with sessions.begin() as session:
        session["n"] = 1
    one, two = sessions.begin(session.id), sessions.begin(session.id)
    one["n"], two["n"] = 2, 3
    one.save()
    with pytest.raises(Stale, match="n"):
        two.save()
    assert sessions.store.counters()["merge_conflicts"] == 1


def end(sessions: Sessions, id: str, ending: str) -> None:
    """What another request does meanwhile, or the time."""
    if ending == "replaced":
        with Sessions(sessions.store).begin(id) as other:
            other.regenerate()
    while ending == "ended" and sessions.store.exists(id):
        pass


def ending_soon(url: str, ending: str) -> Sessions:
    lifetime = 0.3 if ending == "ended" else None
    return Sessions(url, concurrency="merge", lifetime=lifetime)


@pytest.mark.parametrize("ending", ["replaced", "ended"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("changes", [False, True])
def test_a_wsgi_response_whose_change_is_lost_is_an_error(
    url: str, ending: str, late: bool, changes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It was answered with 200."""
    sessions = ending_soon(url, ending)

    def lose(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        session = environ["sessile.session"]
        if late:
            start_response("200 OK", [])
        assert session["n"] == 1
        end(sessions, session.id, ending)
        if changes:
            session["n"] = 2
        if not late:
            start_response("200 OK", [])
        yield b"lost"

    with sessions.begin() as session:
        session["n"] = 1
    app = wsgi.SessionMiddleware(lose, sessions)
    if changes and not late:
        with pytest.raises(Destroyed, match="new id" if ending == "replaced" else "lifetime"):
            list(called(app, "/", f"session={session.id}"))
    else:
        assert list(called(app, "/", f"session={session.id}")) == [b"lost"]
    errors = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert len(errors) == (changes and late)
    assert bool(sessions.store.counters()["failed_saves"]) == changes


@pytest.mark.parametrize("ending", ["replaced", "ended"])
@pytest.mark.parametrize("changes", [False, True])
def test_an_asgi_response_whose_change_is_lost_is_an_error(
    url: str, ending: str, changes: bool
) -> None:
    """It was answered with 200."""
    sessions = ending_soon(url, ending)

    async def lose(request: Request) -> PlainTextResponse:
        await asyncio.to_thread(end, sessions, request.session.id, ending)
        if changes:
            request.session["n"] = 2
        return PlainTextResponse("lost")

    with sessions.begin() as session:
        session["n"] = 1
    app = Starlette(routes=[Route("/", lose)])
    app.add_middleware(asgi.SessionMiddleware, sessions=sessions)
    client = TestClient(app, raise_server_exceptions=False, cookies={"session": session.id})
    assert client.get("/").status_code == (500 if changes else 200)
    assert bool(sessions.store.counters()["failed_saves"]) == changes


@pytest.mark.parametrize("page", ["new", "regenerate", "save", "owner"])
def test_a_cookie_that_cannot_be_sent_any_more_is_an_error(url: str, page: str) -> None:
    """The new session was stored, or the old id was dead, and the browser did not know the id."""

    def late(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        session = environ["sessile.session"]
        start_response("200 OK", [])
        yield b"."
        if page == "regenerate":
            session.regenerate()
        elif page == "owner":
            session.set_owner("17")
        else:
            session["n"] = 1
            if page == "save":
                session.save()

    sessions = Sessions(url)
    with sessions.begin() as session:
        session["n"] = 1
    app, cookie = wsgi.SessionMiddleware(late, sessions), f"session={session.id}"
    if page == "owner":
        assert list(called(app, "/", cookie)) == [b"."]
        assert sessions.revoke("17") == 1, "a session that has its cookie is saved"
        session.destroy()
    with pytest.raises(Destroyed, match="begun without the cookie"):
        list(called(app, "/", cookie if page == "regenerate" else ""))
    assert sessions.revoke("17") == 0
    assert sessions.store.exists(session.id) == (page != "owner"), "nothing is replaced"


def test_a_stream_of_asgi_makes_no_new_id(url: str) -> None:
    async def late(request: Request) -> StreamingResponse:
        async def body() -> Any:
            yield b"."
            with pytest.raises(Destroyed, match="begun without the cookie"):
                await request.session.aregenerate()
            yield b"!"

        return StreamingResponse(body())

    app = Starlette(routes=[*ROUTES, Route("/late", late)])
    app.add_middleware(asgi.SessionMiddleware, sessions=url)
    client = TestClient(app)
    client.get("/count")
    assert client.get("/late").text == ".!"
    assert client.get("/count").text == "2"


def test_a_session_is_copied_into_a_dictionary(url: str) -> None:
    with Sessions(url).begin() as session:
        session["n"] = 1
        copy = session.copy()
        copy["n"] = 2
    assert type(copy) is dict and session["n"] == 1
