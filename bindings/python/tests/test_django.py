"""Django: requests hold their sessions, and give them back."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import time
from collections.abc import Iterator
from typing import Any

import django_site
import pytest
from django.contrib.sessions.backends.base import UpdateError
from django.core.checks import run_checks
from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import call_command
from django.test import AsyncClient, Client, override_settings

from sessile import LockTimeout, Request, waiting
from sessile.django import SessionStore, revoke
from sessile.django import settings as ours

STOCK = "django.contrib.sessions.middleware.SessionMiddleware"


@pytest.fixture
def site(url: str) -> Iterator[Client]:
    with override_settings(SESSILE={"url": url, "lock_wait": 0}):
        yield Client(raise_request_exception=False)


@pytest.fixture(params=[django_site.OURS, STOCK], ids=["ours", "stock"])
def client(request: pytest.FixtureRequest, site: Client) -> Iterator[Client]:
    """With our middleware, and with Django's own."""
    with override_settings(MIDDLEWARE=[request.param]):
        yield Client(raise_request_exception=False)


def key(client: Client) -> str:
    return client.cookies["sessionid"].value


def stored(client: Client) -> Any:
    """What another request sees; it fails if the session is still held."""
    session = SessionStore(key(client))
    value = session.get("n")
    session.release()
    return value


@pytest.mark.parametrize("page", ["count", "read", "fail", "stream", "late_stream", "twice"])
def test_a_request_gives_its_session_back(client: Client, page: str) -> None:
    client.get("/count")
    response = client.get(f"/{page}")
    if response.streaming:
        assert b"".join(response.streaming_content).decode().split()[-1] == "1"
        response.close()
    assert stored(client) == {"count": 2, "twice": 3}.get(page, 1)


def test_a_view_holds_its_session_from_the_first_access(site: Client) -> None:
    site.get("/count")
    held = Request(ours.store(), ours.rules())
    assert held.open(key(site))
    assert site.get("/untouched").status_code == 200
    assert site.get("/read").status_code == 500
    held.close()
    assert site.get("/read").content == b"1"


def test_a_test_that_has_looked_at_the_session_does_not_hold_it(client: Client) -> None:
    """The request waited for the test itself, and failed."""
    client.get("/count")
    session = client.session
    assert session["n"] == 1
    assert client.get("/count").content == b"2"
    session["n"] = 5
    with pytest.raises(UpdateError):
        session.save()
    session = client.session
    assert session["n"] == 2
    assert client.get("/read").content == b"2"
    session["n"] = 7
    session.save()
    assert client.get("/count").content == b"8"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_session_is_copied_without_its_lock(site: Client, copied: Any) -> None:
    """The request has a lock, and a copy raised TypeError."""
    site.get("/count")
    session = SessionStore(key(site))
    session["list"] = [session["n"]]
    other = copied(session)
    assert other.session_key == session.session_key and other.modified
    other["list"].append(2)
    assert session["list"] == [1] and dict(other.items()) == {"n": 1, "list": [1, 2]}
    session.save()
    with pytest.raises(UpdateError):
        other.save()
    other = copied(SessionStore(key(site)))
    other["n"] = 2
    other.save()
    assert stored(site) == 2


def test_a_streamed_response_does_not_hold_what_was_read_before(site: Client) -> None:
    site.get("/count")
    response = site.get("/stream")
    assert stored(site) == 1
    response.close()


def test_a_session_gets_another_key_and_ends(client: Client) -> None:
    client.get("/count")
    old = key(client)
    assert client.get("/login").content.decode() == key(client) != old
    assert not SessionStore().exists(old)
    assert client.get("/read").content == b"1"
    last = key(client)
    client.get("/logout")
    assert not SessionStore().exists(last)


def test_a_planted_key_is_not_taken(client: Client) -> None:
    for planted in ("planted-by-an-attacker", "../../etc/passwd", "a" * 300):
        client.cookies["sessionid"] = planted
        client.get("/count")
        assert key(client) != planted


def test_a_session_is_cleared_before_it_is_read(client: Client) -> None:
    """Django does not load it then: the save answered with 400, and a new key left the old one."""
    client.get("/count")
    assert client.get("/clear").status_code == 200
    assert client.get("/read").content == b"None"
    client.get("/count")
    old = key(client)
    assert client.get("/clear_and_login").status_code == 200
    assert not SessionStore().exists(old)
    assert client.get("/read").content == b"None"


def test_a_key_that_ended_is_not_saved_by_a_clear(site: Client) -> None:
    site.get("/count")
    session = SessionStore(key(site))
    SessionStore().delete(key(site))
    session.clear()
    with pytest.raises(UpdateError):
        session.save()


def test_synchronous_use_in_a_coroutine_does_not_stop_the_event_loop(site: Client) -> None:
    """It waited for the lock, up to `lock_wait`, while no other request ran."""

    async def visit(client: AsyncClient) -> Any:
        client.cookies = site.cookies
        return await client.get("/sync_in_async")

    site.get("/count")
    with override_settings(SESSILE={**ours.options(), "lock_wait": 30}):
        assert asyncio.run(visit(AsyncClient())).content == b"1"
        held = Request(ours.store(), ours.rules())
        held.open(key(site))
        with pytest.raises(SynchronousOnlyOperation):
            asyncio.run(visit(AsyncClient()))
        held.close()


def test_without_the_lock_a_lost_update_is_detected(url: str) -> None:
    with override_settings(SESSILE={"url": url, "lock": False}):
        first = SessionStore()
        first["n"] = 1
        first.save()
        one, two = SessionStore(first.session_key), SessionStore(first.session_key)
        one["a"], two["b"] = 1, 2
        one.save()
        with pytest.raises(UpdateError):
            two.save()
        assert SessionStore(first.session_key).get("a") == 1
    with override_settings(SESSILE={"url": url, "concurrency": "merge"}):
        one, two = SessionStore(first.session_key), SessionStore(first.session_key)
        one["c"], two["d"] = 1, 2
        one.save()
        two.save()
        merged = SessionStore(first.session_key)
        assert dict(merged.items()) == {"n": 1, "a": 1, "c": 1, "d": 2}


def test_a_second_save_of_one_request_notices_what_changed_in_between(site: Client) -> None:
    session = SessionStore()
    session["n"] = 1
    session.save()
    session["n"] = 2
    session.save()
    other = SessionStore(session.session_key)
    other["n"] = 3
    with pytest.raises(LockTimeout):
        SessionStore(session.session_key).load()
    other.save()
    session["n"] = 4
    with pytest.raises(UpdateError):
        session.save()
    assert SessionStore(session.session_key)["n"] == 3


def test_parallel_coroutines_lose_nothing(url: str) -> None:
    async def visit(visits: int) -> int:
        client = AsyncClient()
        await client.get("/acount")
        await asyncio.gather(*(client.get("/acount") for _ in range(visits)))
        return int((await client.get("/read")).content)

    with override_settings(SESSILE={"url": url}):
        assert asyncio.run(visit(100)) == 101


def test_visitors_without_a_session_do_not_wait_for_each_other(url: str) -> None:
    """`acycle_key`, as `alogin` calls it, put them all into one line."""

    async def log_in() -> None:
        line = asyncio.Lock()
        waiting._lines[(asyncio.get_running_loop(), ours.store(), "")] = line
        await line.acquire()
        session = SessionStore()
        await asyncio.wait_for(session.acycle_key(), 5)
        await session.aset("n", 1)
        await session.asave()
        assert await SessionStore(session.session_key).aget("n") == 1

    with override_settings(SESSILE={"url": url}):
        asyncio.run(log_in())


@pytest.mark.parametrize("middleware", [django_site.OURS, STOCK])
@pytest.mark.parametrize("page", ["read", "aread", "acount", "fail", "late_stream"])
def test_a_request_of_an_asgi_server_gives_its_session_back(
    site: Client, page: str, middleware: str
) -> None:
    async def visit() -> Any:
        client = AsyncClient(raise_request_exception=False)
        await client.get("/count")
        response = await client.get(f"/{page}")
        if response.streaming:
            assert [part async for part in response]
        # The server closes it in a thread.
        await asyncio.to_thread(response.close)
        return await asyncio.to_thread(stored, client)

    with override_settings(MIDDLEWARE=[middleware]):
        assert asyncio.run(visit()) == {"acount": 2}.get(page, 1)


def test_the_serializer_of_the_settings_is_used(site: Client) -> None:
    with override_settings(SESSION_SERIALIZER="sessile.Pickle"):
        session = SessionStore()
        session["a tuple"] = (1, {2})
        session.save()
        assert SessionStore(session.session_key)["a tuple"] == (1, {2})
        assert (ours.store().peek(session.session_key) or b"").startswith(b"\x80")


def test_expired_sessions_are_cleared(url: str) -> None:
    with override_settings(SESSILE={"url": url}):
        session = SessionStore()
        session["n"] = 1
        session.save()
        session.set_expiry(0.001)
        session.save()
        while session.exists(session.session_key):
            pass
        call_command("clearsessions")
        assert ours.store().collect() == 0


def test_a_session_of_another_serializer_is_empty_and_logged(
    site: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ours.store().create("k" * 32, b"\x80\x05}\x94.", 60)
    assert SessionStore("k" * 32).load() == {}
    assert "corrupted" in caplog.text


def found(**changed: Any) -> set[str | None]:
    with override_settings(**changed):
        return {message.id for message in run_checks() if (message.id or "").startswith("sessile")}


def test_misconfiguration_is_reported_with_an_id_and_a_hint(
    url: str, memory_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ours.default_url().startswith("sessile:/dev/shm/sessile-django-")
    monkeypatch.setattr(ours, "default_url", lambda: url)
    good = {"url": url}
    assert found(SESSILE=good) == set()
    assert found(SESSILE={}) == {"sessile.I001"}
    assert found(SESSILE="sessile:/x") == {"sessile.E001"}
    assert found(SESSILE={**good, "lok": False}) == {"sessile.E002"}
    assert found(SESSILE={**good, "concurrency": "hope"}) == {"sessile.E003"}
    assert found(SESSILE={"url": "nonsense:/x"}) == {"sessile.E004"}
    assert found(SESSILE=good, MIDDLEWARE=[]) == {"sessile.E005"}
    assert found(SESSILE=good, MIDDLEWARE=[STOCK]) == {"sessile.I002"}
    assert found(SESSILE=good, SESSION_ENGINE="other") == {"sessile.W001"}
    assert found(SESSILE={"url": "memory:"}) == {"sessile.W002"}
    (memory_place / "file").touch()
    assert found(SESSILE={"url": f"sessile:{memory_place}/file/x"}) == {"sessile.W003"}
    pickled = "sessile.Pickle"
    merge = {**good, "concurrency": "merge"}
    assert found(SESSILE=merge, SESSION_SERIALIZER=pickled) == {"sessile.W004"}
    assert not os.path.exists(url.removeprefix("sessile:")), "a check makes no store"
    with override_settings(SESSILE={}):
        assert all(message.hint for message in run_checks() if "sessile" in (message.id or ""))


class Key:
    @staticmethod
    def value_to_string(user: User) -> str:
        return str(user.pk)


class User:
    """As far as `revoke` looks at one of Django's."""

    class _meta:
        pk = Key

    def __init__(self, pk: int | str | None) -> None:
        self.pk = pk


def logged_in(user: int | str | None) -> str:
    session = SessionStore()
    session["cart"] = ["book"]
    session.create()
    if user is not None:
        session["_auth_user_id"] = str(user)
        session.cycle_key()
    session.save()
    assert session.session_key is not None
    return session.session_key


def test_a_user_with_a_longer_key_than_stores_take_is_an_owner_too(site: Client) -> None:
    users = [f"{'x' * 300}{number}" for number in range(2)]
    first, other = (logged_in(user) for user in users)
    assert revoke(User(users[0])) == 1
    assert [SessionStore().exists(key) for key in (first, other)] == [False, True]


def test_the_sessions_of_a_user_end_everywhere_without_code(site: Client) -> None:
    first, second, other, nobodys = (logged_in(user) for user in (17, 17, 18, None))
    # A later request keeps the owner.
    session = SessionStore(second)
    session["cart"] = []
    session.save()
    assert revoke(User(17), but=first) == 1
    assert [SessionStore().exists(key) for key in (first, second, other, nobodys)] == [
        True, False, True, True,
    ]
    # A log-out that keeps the session takes the owner away.
    session = SessionStore(first)
    del session["_auth_user_id"]
    session.save()
    assert revoke(User(17)) == 0
    assert revoke(User(18)) == 1
    assert SessionStore().exists(first) and not SessionStore().exists(other)


def test_a_user_who_was_deleted_is_not_taken_for_one_without_sessions(site: Client) -> None:
    with pytest.raises(ValueError, match="before"):
        revoke(User(None))


def test_django_gives_a_new_session_its_first_lifetime(url: str) -> None:
    with override_settings(SESSILE={"url": url, "first_lifetime": 1.0}):
        keys = []
        for visits in (1, 2):
            store = SessionStore()
            store["cart"] = 1
            store.save()
            store["cart"] = 2
            store.save()
            keys.append(store.session_key)
            if visits == 2:
                again = SessionStore(store.session_key)
                again["cart"] = 3
                again.save()
        time.sleep(1.1)
        assert [SessionStore().exists(key) for key in keys] == [False, True]
