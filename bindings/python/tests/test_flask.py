"""Flask: what Flask-Session promises its users, and what only holds here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import flask
import pytest
from flask import Flask, session

from sessile import Sessions
from sessile.flask import ServerSideSession, Sessile


@pytest.fixture
def app(url: str) -> Iterator[Flask]:
    app = Flask("shop")
    app.config.update(SESSILE_URL=url, SESSILE_LOCK_WAIT=5)
    Sessile(app)
    app.add_url_rule("/set/<value>", "set", put)
    app.add_url_rule("/get", "get", lambda: str(session.get("value")))
    app.add_url_rule("/clear", "clear", lambda: session.clear() or "cleared")
    app.add_url_rule("/nothing", "nothing", lambda: "nothing")
    app.add_url_rule("/regenerate", "regenerate", regenerate)
    app.add_url_rule("/nested", "nested", nested)
    app.add_url_rule("/count", "count", count)
    app.add_url_rule("/raise", "raise", fail)
    yield app


def put(value: str) -> str:
    session["value"] = value
    return "set"


def regenerate() -> str:
    flask.current_app.session_interface.regenerate(session)  # type: ignore[attr-defined]
    return "regenerated"


def nested() -> str:
    session.setdefault("list", []).append(len(session["list"]))
    return str(session["list"])


def count() -> str:
    session["count"] = session.get("count", 0) + 1
    return str(session["count"])


def stream() -> Any:
    return flask.stream_with_context(iter([session["value"], "!"]))


def fail() -> str:
    session["value"] = "of a view that has failed"
    raise RuntimeError


def cookie(client: Any) -> str:
    return client.get_cookie("session").value


def test_a_session_is_set_read_cleared_and_its_cookie_goes(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/set/42").headers["Vary"] == "Cookie"
    assert client.get("/get").data == b"42"
    first = cookie(client)
    assert "42" not in first and len(first) >= 32
    store = app.session_interface.sessions.store  # type: ignore[attr-defined]
    assert store.exists(first)
    client.get("/clear")
    assert client.get_cookie("session") is None
    assert not store.exists(first)
    assert client.get("/get").data == b"None"


def test_a_visitor_without_data_gets_no_cookie_and_no_record(app: Flask) -> None:
    client = app.test_client()
    for page in ("/nothing", "/get", "/clear"):
        assert "Set-Cookie" not in client.get(page).headers, page
    assert "Vary" not in client.get("/nothing").headers


def test_an_empty_session_that_is_only_read_stays(app: Flask) -> None:
    """What another serialiser had written counted as cleared, and was destroyed."""
    store = app.session_interface.sessions.store  # type: ignore[attr-defined]
    store.create("other-serialiser", b'{ "_permanent": true }', 60)
    client = app.test_client()
    client.set_cookie("session", "other-serialiser")
    assert "Set-Cookie" not in client.get("/get").headers
    assert store.exists("other-serialiser")


def test_flask_session_is_what_it_should_be(app: Flask) -> None:
    with app.test_request_context():
        assert isinstance(session._get_current_object(), ServerSideSession)
        assert session.new and session.permanent and not session
        session["a"] = (1, "x")
        assert session and session.modified and session["_permanent"] is True
        assert len(session.sid) >= 32
        assert session.pop("a") and session.setdefault("b", 1) == 1
        session.clear()
        assert not session and dict(session) == {"_permanent": True}


def test_a_session_that_is_not_permanent_ends_with_the_browser(url: str) -> None:
    app = Flask("shop")
    app.config.update(SESSILE_URL=url, SESSION_PERMANENT=False)
    Sessile(app)
    app.add_url_rule("/set/<value>", "set", put)
    assert "Expires" not in app.test_client().get("/set/1").headers["Set-Cookie"]


def test_a_change_inside_a_value_is_saved(app: Flask) -> None:
    client = app.test_client()
    for expected in (b"[0]", b"[0, 1]", b"[0, 1, 2]"):
        assert client.get("/nested").data == expected


def test_a_new_id_keeps_the_data_and_the_old_one_is_dead(app: Flask) -> None:
    client = app.test_client()
    client.get("/set/42")
    old = cookie(client)
    client.get("/regenerate")
    assert cookie(client) != old
    assert client.get("/get").data == b"42"
    client.set_cookie("session", old)
    assert client.get("/get").data == b"None"


@pytest.mark.parametrize(
    "changed", [{"SESSION_REFRESH_EACH_REQUEST": False}, {"SESSION_PERMANENT": False}]
)
def test_a_new_id_reaches_the_browser_without_another_change(url: str, changed: Any) -> None:
    """Only a change of the payload set a cookie, and the visitor lost the session."""
    app = Flask("shop")
    app.config.update(SESSILE_URL=url, SESSILE_LOCK_WAIT=0, **changed)
    Sessile(app)
    app.add_url_rule("/set/<value>", "set", put)
    app.add_url_rule("/get", "get", lambda: str(session.get("value")))
    app.add_url_rule("/regenerate", "regenerate", regenerate)
    client = app.test_client()
    client.get("/set/42")
    old = cookie(client)
    client.get("/regenerate")
    assert cookie(client) != old
    assert client.get("/get").data == b"42"


def test_a_late_request_with_an_old_id_does_not_remove_the_cookie(app: Flask) -> None:
    """The cookie was the new one by then: the visitor was logged out right after the log-in."""
    client = app.test_client()
    client.get("/set/42")
    old = cookie(client)
    client.get("/regenerate")
    late = app.test_client()
    late.set_cookie("session", old)
    for page in ("/get", "/clear"):
        assert "Set-Cookie" not in late.get(page).headers
    removed = client.get("/clear", base_url="https://localhost").headers["Set-Cookie"]
    assert "HttpOnly" in removed and "Max-Age=0" in removed
    app.config.update(SESSION_COOKIE_SECURE=True, SESSION_COOKIE_SAMESITE="None")
    client.get("/set/42", base_url="https://localhost")
    removed = client.get("/clear", base_url="https://localhost").headers["Set-Cookie"]
    assert "Secure" in removed and "SameSite=None" in removed


def test_an_id_that_an_attacker_has_planted_is_not_taken(app: Flask) -> None:
    client = app.test_client()
    client.set_cookie("session", "planted-by-an-attacker-0123456789")
    client.get("/set/42")
    assert cookie(client) != "planted-by-an-attacker-0123456789"
    client.set_cookie("session", "../../etc/passwd")
    assert client.get("/get").data == b"None"


def test_a_transaction_of_a_test_changes_the_session(app: Flask) -> None:
    client = app.test_client()
    with client.session_transaction() as changed:
        changed["value"] = "from a test"
    assert client.get("/get").data == b"from a test"


def test_parallel_requests_lose_nothing(app: Flask) -> None:
    client = app.test_client()
    client.get("/count")
    id = cookie(client)

    def visit() -> None:
        mine = app.test_client()
        mine.set_cookie("session", id)
        for _ in range(50):
            mine.get("/count")

    threads = [threading.Thread(target=visit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("/count").data == b"402"


def test_a_view_that_raises_gives_the_session_back(app: Flask) -> None:
    client = app.test_client()
    client.get("/set/1")
    assert client.get("/raise").status_code == 500
    assert client.get("/get").data == b"of a view that has failed"
    app.testing = True
    with pytest.raises(RuntimeError):
        client.get("/raise")
    assert client.get("/get").status_code == 200


def test_a_streamed_response_does_not_hold_what_was_read_before(app: Flask) -> None:
    app.add_url_rule("/stream", "stream", stream)
    client = app.test_client()
    client.get("/set/1")
    # As a server calls it: the test client closes the response.
    headers = {"Cookie": f"session={cookie(client)}"}
    with app.test_request_context("/stream", headers=headers) as context:
        environ = context.request.environ
    body = app(environ, lambda status, headers, exc_info=None: lambda data: None)
    parts = iter(body)
    first = next(parts)
    sessions = Sessions(app.config["SESSILE_URL"], lock_wait=0)
    with sessions.begin(cookie(client)) as other:
        assert other["value"] == "1"
    assert first + b"".join(parts) == b"1!"
    body.close()  # type: ignore[attr-defined]


def test_a_page_without_its_session_keeps_it_alive(app: Flask) -> None:
    app.config["PERMANENT_SESSION_LIFETIME"] = 2
    client, other = app.test_client(), app.test_client()
    client.get("/set/1")
    other.get("/set/1")
    app.config["PERMANENT_SESSION_LIFETIME"] = 3600
    held = Sessions(app.config["SESSILE_URL"]).begin(cookie(client))
    assert held["value"] == "1"
    # It waits for nobody.
    assert client.get("/nothing").status_code == 200
    held.release()
    store = app.session_interface.sessions.store  # type: ignore[attr-defined]
    while store.exists(cookie(other)):
        pass
    assert store.exists(cookie(client))
