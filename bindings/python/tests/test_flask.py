"""Flask: what Flask-Session promises its users, and what only holds here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import flask
import pytest
from flask import Flask, session

from sessile import Destroyed, Sessions
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


@pytest.mark.parametrize("refresh", [True, False])
def test_an_owner_alone_is_saved(app: Flask, refresh: bool) -> None:
    """Only a change of the values was saved, and `revoke` found nothing."""
    app.config["SESSION_REFRESH_EACH_REQUEST"] = refresh
    app.add_url_rule("/own", "own", lambda: session.set_owner("17") or "owned")  # type: ignore
    app.add_url_rule("/disown", "disown", lambda: session.set_owner(None) or "gone")  # type: ignore
    sessions = app.session_interface.sessions  # type: ignore[attr-defined]
    clients = [app.test_client() for _ in range(3)]
    clients[0].get("/set/42")
    # One that is stored without values, and a new one.
    sessions.store.create("stored-without-values-0123456789", b'{"_permanent":true}', 60)
    clients[1].set_cookie("session", "stored-without-values-0123456789")
    for client in clients:
        assert client.get("/own").status_code == 200
    ids = [cookie(client) for client in clients]
    assert clients[1].get("/disown").status_code == 200
    assert sessions.store.exists(ids[1])
    assert sessions.revoke("17") == 2
    assert [sessions.store.exists(id) for id in ids] == [False, True, False]


@pytest.mark.parametrize("ending", ["replaced", "ended"])
def test_a_response_whose_change_is_lost_is_an_error(url: str, ending: str) -> None:
    """It was answered with 200."""

    def end() -> str:
        if changes:
            session["value"] = 2
        assert session["value"]
        if ending == "replaced":
            with Sessions(url).begin(session.sid) as other:
                other.regenerate()
        while ending == "ended" and store.exists(session.sid):
            pass
        return "ended"

    app = Flask("shop")
    app.config.update(SESSILE_URL=url, SESSILE_CONCURRENCY="merge")
    if ending == "ended":
        app.config["SESSILE_LIFETIME"] = 0.3
    Sessile(app)
    app.add_url_rule("/set/<value>", "set", put)
    app.add_url_rule("/end", "end", end)
    store = app.session_interface.sessions.store  # type: ignore[attr-defined]
    for changes in (False, True):
        client = app.test_client()
        client.get("/set/1")
        assert client.get("/end").status_code == (500 if changes else 200)
        assert store.counters()["failed_saves"] == changes
        assert not store.exists(cookie(client)), "the page of the error has not stored it anew"
    client = app.test_client()
    client.get("/set/1")
    app.testing = True
    with pytest.raises(Destroyed, match="new id" if ending == "replaced" else "lifetime"):
        client.get("/end")


def test_a_session_is_copied_into_a_dictionary(app: Flask) -> None:
    with app.test_request_context():
        session["a"] = 1
        copy = session.copy()  # type: ignore[attr-defined]
        assert type(copy) is dict and copy == {"a": 1, "_permanent": True}
        copy["a"] = 2
        assert session["a"] == 1


def test_a_page_without_the_session_sends_no_cookie(app: Flask) -> None:
    """It could arrive after the cookie of a log-in that came meanwhile."""
    client = app.test_client()
    client.get("/set/1")
    assert "Set-Cookie" not in client.get("/nothing").headers


def test_a_cookie_is_partitioned_if_the_settings_say_so(app: Flask) -> None:
    app.config["SESSION_COOKIE_PARTITIONED"] = True
    client = app.test_client()
    for page in ("/set/1", "/clear"):
        answer = client.get(page, base_url="https://localhost")
        assert "Partitioned" in answer.headers["Set-Cookie"], page
