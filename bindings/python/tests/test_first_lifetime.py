"""A session ends early until a second request uses it, with and without Flask."""

from __future__ import annotations

import time

from flask import Flask, session
from sessile import Sessions
from sessile.flask import Sessile

FIRST = 1.0


def wait() -> None:
    time.sleep(FIRST + 0.1)


def test_a_session_that_is_used_once_ends_early_also_if_its_request_saves_twice(url: str) -> None:
    sessions = Sessions(url, first_lifetime=FIRST)
    once, twice, owned = sessions.begin(), sessions.begin(), sessions.begin()
    for one in (once, twice, owned):
        one["cart"] = 1
    owned.set_owner("17")
    for one in (once, twice, owned):
        assert one.save() == "stored"
    once["cart"] = 2
    assert once.save() == "stored"
    with sessions.begin(twice.id) as again:
        assert again["cart"] == 1
    wait()
    assert [len(sessions.read(one.id)) for one in (once, twice, owned)] == [0, 1, 1]


def test_flask_gives_a_new_session_its_first_lifetime(url: str) -> None:
    app = Flask(__name__)
    app.config.update(SESSILE_URL=url, SESSILE_FIRST_LIFETIME=FIRST)
    Sessile(app)

    @app.get("/")
    def visit() -> str:
        session["visits"] = session.get("visits", 0) + 1
        return str(session["visits"])

    robot, visitor = app.test_client(), app.test_client()
    assert [client.get("/").text for client in (robot, visitor, visitor)] == ["1", "1", "2"]
    wait()
    assert [client.get("/").text for client in (robot, visitor)] == ["1", "3"]
