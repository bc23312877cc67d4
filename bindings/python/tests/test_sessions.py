"""The store and its sessions, without a framework."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pickle
import runpy
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import sessile
from sessile import JSON, Pickle, Request, Rules, Sessions, Store, waiting
from sessile.errors import BY_CODE


def test_a_session_is_kept_and_a_new_id_is_not_taken_from_a_cookie(url: str) -> None:
    sessions = Sessions(url)
    with sessions.begin() as session:
        session["cart"] = {"book": 1}
    with sessions.begin(session.id) as again:
        assert again["cart"] == {"book": 1}
        again["cart"]["pen"] = 2  # inside a value
    with sessions.read(session.id) as read:
        assert read == {"cart": {"book": 1, "pen": 2}}
    with sessions.begin("planted-by-an-attacker") as planted:
        planted["user"] = 1
    assert planted.id != "planted-by-an-attacker"
    with sessions.begin("../etc/passwd") as malformed:
        assert len(malformed) == 0


def test_the_sessions_of_a_user_are_ended_everywhere_but_for_one(url: str) -> None:
    sessions = Sessions(url)
    ids = []
    for owner in ("17", "17", "18"):
        with sessions.begin() as session:
            session["cart"] = 1
            session.set_owner(owner)
        ids.append(session.id)
    with sessions.begin(ids[1]) as changed:
        changed["cart"] = 2  # the owner stays
    assert sessions.revoke("17", but=ids[0]) == 1
    assert [len(sessions.read(id)) for id in ids] == [1, 0, 1]

    async def leaves() -> str:
        session = sessions.begin(ids[0])
        await session.load()
        session.set_owner(None)
        return await session.asave()

    assert asyncio.run(leaves()) == "stored"  # the owner alone is a change
    assert sessions.revoke("17") == 0
    with pytest.raises(sessile.Error):
        sessions.revoke("")


def test_a_block_that_raises_saves_nothing_and_gives_the_lock_back(url: str) -> None:
    sessions = Sessions(url, lock_wait=0)
    with sessions.begin() as session:
        session["n"] = 1
    with pytest.raises(ZeroDivisionError), sessions.begin(session.id) as broken:
        broken["n"] = 1 / 0
    with sessions.begin(session.id) as after:
        assert after["n"] == 1
        with pytest.raises(sessile.LockTimeout) as busy:
            sessions.begin(session.id)["n"]
    assert busy.value.holder_pid == os.getpid()
    assert session.id not in str(busy.value)
    assert sessions.store.counters()["lock_timeouts"] == 1


def test_a_second_save_notices_what_changed_in_between(url: str) -> None:
    sessions = Sessions(url, lock_wait=0)
    first = sessions.begin()
    first["n"] = 1
    assert first.save() == "stored"
    first["n"] = 2
    assert first.save() == "stored"
    with sessions.begin(first.id) as other:
        assert other["n"] == 2
        other["n"] = 3
    first["n"] = 4
    with pytest.raises(sessile.Stale):
        first.save()
    with sessions.read(first.id) as read:
        assert read["n"] == 3


def test_parallel_changes_are_merged_or_detected(url: str) -> None:
    for concurrency in ("merge", "detect"):
        sessions = Sessions(url, concurrency=concurrency)
        with sessions.begin() as session:
            session["base"] = 1
        one, two = sessions.begin(session.id), sessions.begin(session.id)
        one["one"], two["two"] = 1, 2
        assert one.save() == "stored"
        if concurrency == "detect":
            with pytest.raises(sessile.Stale):
                two.save()
        else:
            assert two.save() == "stored"
            with sessions.read(session.id) as read:
                assert read == {"base": 1, "one": 1, "two": 2}


def test_a_log_out_wins_and_an_old_id_is_dead(url: str) -> None:
    sessions = Sessions(url)
    with sessions.begin() as session:
        session["user"] = 1
    with sessions.begin(session.id) as login:
        login.regenerate()
    assert login.id != session.id
    with sessions.read(session.id) as old:
        assert len(old) == 0
    held = sessions.begin(login.id)
    held["user"] = 2
    sessions.destroy(login.id)
    assert held.save() == "logged-out"
    with pytest.raises(sessile.Destroyed), sessions.begin() as gone:
        gone["a"] = 1
        gone.save()
        sessions.destroy(gone.id)
        gone["a"] = 2


@pytest.mark.parametrize("changes", [False, True])
def test_a_second_save_does_not_bring_back_a_session_whose_lifetime_is_over(
    url: str, changes: bool
) -> None:
    """It was stored anew under its id, and lived once more as long."""
    sessions = Sessions(url, lifetime=0.2)
    with sessions.begin() as session:
        session["user"] = 1
    held = sessions.begin(session.id)
    assert held["user"] == 1
    if changes:
        held["user"] = 2
    while sessions.store.exists(session.id):
        pass
    assert held.save() == ("ended" if changes else "nothing")
    held["user"] = 3
    assert held.save() == "ended"
    with pytest.raises(sessile.Destroyed), held:
        pass
    assert not sessions.store.exists(session.id)
    assert sessions.store.counters()["failed_saves"] == changes
    held.destroy()
    held["user"] = 4
    assert held.save() == "stored" and held.id != session.id


def test_a_log_out_with_a_malformed_cookie_is_no_failure(url: str) -> None:
    session = Sessions(url).begin("../../etc/passwd")
    session.destroy()
    assert session.is_destroyed and len(session) == 0


def test_values_that_json_does_not_have_come_back(url: str) -> None:
    values = {
        "bytes": b"\xff",
        "when": datetime.now(UTC),
        "price": Decimal("1.10"),
        "id": uuid4(),
        "text": 'with " sessile" in it',
        "almost": {" sessile": 1, "two": 2},
    }
    sessions = Sessions(url)
    with sessions.begin() as session:
        session.update(values)
    with sessions.read(session.id) as read:
        assert read == values
    with pytest.raises(TypeError), sessions.begin(session.id) as broken:
        broken["object"] = object()
    assert Pickle().loads(Pickle().dumps({"a": (1, 2)})) == {"a": (1, 2)}
    assert JSON().loads(JSON().dumps({})) == {}


def test_a_thread_that_waits_lets_others_run(url: str) -> None:
    sessions = Sessions(url)
    holder = sessions.begin()
    holder["n"] = 1
    holder.save()
    holder = sessions.begin(holder.id)
    assert holder["n"] == 1
    seen: list[int] = []

    def wait() -> None:
        with sessions.begin(holder.id) as session:
            seen.append(session["n"])

    waiter = threading.Thread(target=wait)
    waiter.start()
    # It waits in the store, and this thread runs.
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        assert not seen
    holder["n"] = 2
    holder.save()
    waiter.join(10)
    assert seen == [2]


def test_a_coroutine_never_stops_the_event_loop(url: str) -> None:
    async def visit(sessions: Sessions, id: str) -> None:
        async with sessions.begin(id) as session:
            count = session["n"]
            await asyncio.sleep(0.001)
            session["n"] = count + 1

    async def run() -> int:
        sessions = Sessions(url)
        async with sessions.begin() as session:
            session["n"] = 0
        # More than there are threads that wait.
        await asyncio.wait_for(
            asyncio.gather(*(visit(sessions, session.id) for _ in range(200))), 30
        )
        assert sessions.store.counters()["lock_timeouts"] == 0
        async with sessions.begin(session.id) as after:
            return after["n"]

    assert asyncio.run(run()) == 200


def test_a_cancelled_coroutine_holds_nothing_and_stops_nothing(url: str) -> None:
    """Its release waited in the event loop for the thread that waited for the lock."""

    async def run() -> None:
        sessions = Sessions(url, lock_wait=20)
        async with sessions.begin() as session:
            session["n"] = 1
        holder = sessions.begin(session.id)
        await holder.load()
        waiter = sessions.begin(session.id)
        begun = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(visit(waiter), 0.1)
        assert time.monotonic() - begun < 10
        await holder.arelease()
        # `waiter` is alive, and does not keep the lock that its thread gets now.
        async with sessions.begin(session.id) as after:
            assert after["n"] == 1

    async def visit(waiter: sessile.Session) -> None:
        try:
            await waiter.load()
        finally:
            await waiter.arelease()

    asyncio.run(run())


def test_a_block_that_is_cancelled_while_it_waits_holds_nothing(url: str) -> None:
    """`async with` calls no `__aexit__` then, and its thread got the lock for nobody."""

    async def run() -> None:
        sessions = Sessions(url, lock_wait=20)
        async with sessions.begin() as session:
            session["n"] = 1
        holder = sessions.begin(session.id)
        await holder.load()
        waiter = sessions.begin(session.id)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(visit(waiter), 0.1)
        holder.release()
        # Its thread has had the lock.
        waiting._threads.pop("waits").shutdown()
        async with Sessions(url, lock_wait=0).begin(session.id) as after:
            assert after["n"] == 1
        assert waiter is not None

    async def visit(waiter: sessile.Session) -> None:
        async with waiter:
            pass

    asyncio.run(asyncio.wait_for(run(), 10))


def test_a_block_that_is_cancelled_before_its_thread_waits_holds_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was closed before its thread opened it, and its lock was held while its error was kept."""
    gate = threading.Event()
    submitted = waiting._submitted

    def late(name: str, threads_max: int, call: Any) -> Any:
        return submitted(name, threads_max, lambda: gate.wait(10) and call())

    async def run() -> None:
        sessions = Sessions(url, lock_wait=20)
        async with sessions.begin() as session:
            session["n"] = 1
        holder, waiter = sessions.begin(session.id), sessions.begin(session.id)
        await holder.load()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiter.load(), 0.1)
        holder.release()
        gate.set()
        waiting._threads.pop("waits").shutdown()
        async with Sessions(url, lock_wait=0).begin(session.id) as after:
            assert after["n"] == 1
        assert waiter is not None

    monkeypatch.setattr(waiting, "_submitted", late)
    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("loads_again", [False, True])
def test_a_call_of_a_server_that_is_cancelled_before_it_begins_holds_nothing(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, loads_again: bool
) -> None:
    """It was closed before its thread opened it, and its lock was held while its error was kept.
    Then its thread gave back the lock of the next load."""
    gate = threading.Event()
    submitted = waiting._submitted

    def late(name: str, threads_max: int, call: Any) -> Any:
        return submitted(name, threads_max, lambda: gate.wait(10) and call())

    async def run() -> None:
        sessions = Sessions(redis_url)
        async with sessions.begin() as session:
            session["n"] = 1
        waiter = sessions.begin(session.id)
        with monkeypatch.context() as patched:
            patched.setattr(waiting, "_submitted", late)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiter.load(), 0.1)
        if loads_again:
            await waiter.load()
        gate.set()
        waiting._threads.pop("calls").shutdown()
        if loads_again:
            with pytest.raises(sessile.LockTimeout):
                await Sessions(redis_url, lock_wait=0).begin(session.id).load()
            await waiter.arelease()
        async with Sessions(redis_url, lock_wait=0).begin(session.id) as after:
            assert after["n"] == 1
        assert waiter is not None

    asyncio.run(asyncio.wait_for(run(), 20))


def test_the_thread_of_a_cancelled_load_does_not_end_the_next_load(url: str) -> None:
    """It left the line before it gave back its lock, and gave back that of the next load."""
    loop_thread, loaded = threading.current_thread(), threading.Event()

    class Slow:
        """A request whose close in a thread comes late."""

        def __init__(self, request: Request) -> None:
            self.request = request

        def __getattr__(self, name: str) -> Any:
            return getattr(self.request, name)

        def close(self) -> None:
            if threading.current_thread() is not loop_thread:
                loaded.wait(0.5)
            self.request.close()

    async def run() -> None:
        sessions = Sessions(url, lock_wait=20)
        async with sessions.begin() as session:
            session["n"] = 1
        holder, waiter = sessions.begin(session.id), sessions.begin(session.id)
        waiter._request = Slow(waiter._request)  # type: ignore[assignment]
        await holder.load()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiter.load(), 0.1)
        again = asyncio.create_task(waiter.load())
        await asyncio.sleep(0)
        await holder.arelease()
        await again
        loaded.set()
        waiting._threads.pop("waits").shutdown()
        assert waiter._request.holds_lock
        await waiter.arelease()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_first_save_does_not_wait_for_those_who_wait_for_a_lock(url: str) -> None:
    """One visitor with 65 parallel requests stopped the first save of all others."""

    async def run() -> None:
        sessions = Sessions(url, lock_wait=20)
        async with sessions.begin() as session:
            session["n"] = 1
        holder = sessions.begin(session.id)
        await holder.load()
        waiters = [asyncio.create_task(wait(sessions, session.id)) for _ in range(100)]
        await asyncio.sleep(0)
        for _ in range(2):
            fresh = sessions.begin()
            fresh["n"] = 1
            assert await asyncio.wait_for(fresh.asave(), 5) == "stored"
            fresh["n"] = 2
            assert await asyncio.wait_for(fresh.asave(), 5) == "stored"
        await holder.arelease()
        await asyncio.gather(*waiters)

    async def wait(sessions: Sessions, id: str) -> None:
        async with sessions.begin(id):
            pass

    asyncio.run(run())


def test_the_waits_of_one_visitor_hold_up_no_other(url: str) -> None:
    """64 requests of one visitor, also cancelled ones, took all threads for waits."""

    async def run(sessions: Sessions) -> None:
        busy, other = await stored(sessions), await stored(sessions)
        holder = sessions.begin(busy)
        await holder.load()
        left = [asyncio.create_task(visit(sessions, busy)) for _ in range(100)]
        await asyncio.sleep(0)
        for task in left[:70]:
            task.cancel()
        held = sessions.begin(other)
        await held.load()
        waiter = asyncio.create_task(visit(sessions, other))
        await asyncio.sleep(0)
        await held.arelease()
        await asyncio.wait_for(waiter, 10)
        await holder.asave()
        await asyncio.gather(*left, return_exceptions=True)

    async def stored(sessions: Sessions) -> str:
        async with sessions.begin() as session:
            session["n"] = 1
        return session.id

    async def visit(sessions: Sessions, id: str) -> None:
        async with sessions.begin(id):
            pass

    asyncio.run(asyncio.wait_for(run(Sessions(url)), 20))
    gc.collect()
    assert not waiting._lines


def test_what_takes_no_lock_stands_in_no_line(url: str) -> None:
    """A reader, and an open with `merge`, waited until all who save had had their turn."""

    async def run() -> None:
        for concurrency in ("exclusive", "merge", "detect"):
            sessions = Sessions(url, concurrency=concurrency)
            async with sessions.begin() as session:
                session["n"] = 1
            line = asyncio.Lock()
            waiting._lines[(asyncio.get_running_loop(), sessions.store, session.id)] = line
            await line.acquire()
            free = [sessions.read(session.id)]
            if concurrency != "exclusive":
                free.append(sessions.begin(session.id))
            for each in free:
                await asyncio.wait_for(each.load(), 5)
                assert each["n"] == 1

    asyncio.run(run())


def test_time_in_line_is_a_part_of_the_wait(url: str) -> None:
    async def run() -> None:
        sessions = Sessions(url, lock_wait=1)
        async with sessions.begin() as session:
            session["n"] = 1
        holder = sessions.begin(session.id)
        await holder.load()
        begun = time.monotonic()
        waiters = [sessions.begin(session.id).load() for _ in range(10)]
        for told in await asyncio.gather(*waiters, return_exceptions=True):
            assert isinstance(told, sessile.LockTimeout) and told.waited >= 0.999
        assert time.monotonic() - begun < 6
        await holder.arelease()

    asyncio.run(run())


def test_a_call_without_await_does_not_stop_the_event_loop(url: str) -> None:
    """A second save took the lock again, and waited for its holder in the loop."""

    async def run() -> None:
        sessions = Sessions(url)
        late = sessions.begin()
        late["n"] = 1
        late.save()
        holder = sessions.begin(late.id)
        await holder.load()
        late["n"] = 2
        for call in (late.save, late.regenerate, lambda: sessions.begin(late.id)["n"]):
            with pytest.raises(RuntimeError, match="await"):
                call()
        saved = asyncio.create_task(late.asave())
        await asyncio.sleep(0)
        await holder.arelease()
        assert await saved == "stored"

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_request_reads_and_writes_its_data_once(url: str) -> None:
    class Counting(JSON):
        calls: list[str] = []

        def dumps(self, data: dict[str, Any], /) -> bytes:
            self.calls.append("dumps")
            return super().dumps(data)

        def loads(self, payload: bytes, /) -> dict[str, Any]:
            self.calls.append("loads")
            return super().loads(payload)

    sessions = Sessions(url, serializer=Counting())
    with sessions.begin() as session:
        session["list"] = [1]
    for changes in (True, False):
        Counting.calls.clear()
        with sessions.begin(session.id) as session:
            if changes:
                session["list"].append(2)
        assert Counting.calls == ["loads", "dumps"]
    assert json.loads(sessions.store.peek(session.id) or b"") == {"list": [1, 2]}


def test_a_save_without_a_change_gives_the_lock_back(url: str) -> None:
    """A page that only read its session held it while its response was sent."""
    sessions = Sessions(url, lock_wait=0)
    with sessions.begin() as session:
        session["n"] = 1
    reader = sessions.begin(session.id)
    assert reader["n"] == 1
    assert reader.save() == "touched"
    with sessions.begin(session.id) as other:
        other["n"] = 2
    assert reader.save() in ("touched", "stored")
    with sessions.read(session.id) as read:
        assert read["n"] == 2


def test_a_save_after_a_log_out_says_so_also_the_second_one(url: str) -> None:
    sessions = Sessions(url)
    session = sessions.begin()
    session["n"] = 1
    session.save()
    sessions.destroy(session.id)
    session["n"] = 2
    assert session.save() == "logged-out"
    assert session.save() == "logged-out"


def test_a_user_may_store_what_looks_like_a_tag() -> None:
    """Posted JSON could make a session unreadable for each request to come."""
    values = {
        "posted": {" sessile": "x"},
        "nested": [{" sessile": ["bytes", "YQ=="]}, {" sessile/": {" sessile": [b"a"]}}],
        " sessile": ["uuid", "no"],
    }
    assert JSON().loads(JSON().dumps(values)) == values
    only = {" sessile": ["bytes", "YQ=="]}
    assert JSON().loads(JSON().dumps(only)) == only
    for unknown in (b'{"a":{" sessile":5}}', b'{"a":{" sessile":["no","x"]}}'):
        assert JSON().loads(unknown) == json.loads(unknown)


def test_a_session_that_cannot_be_read_is_empty_and_logged(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions(url, lock_wait=0)
    for number, payload in enumerate((b"{secret", b'["secret"]')):
        sessions.store.create(f"the-id-{number}", payload, 60)
        with sessions.begin(f"the-id-{number}") as session:
            assert len(session) == 0
        assert sessions.store.peek(f"the-id-{number}") == payload
        with sessions.begin(f"the-id-{number}") as session:
            session["n"] = 1
        with sessions.read(f"the-id-{number}") as read:
            assert read == {"n": 1}
    assert "cannot be read" in caplog.text and "secret" not in caplog.text
    assert "the-id" not in caplog.text


def test_a_session_that_is_only_read_is_not_changed(url: str) -> None:
    """What another serialiser writes, or the same one on another day, is no change."""
    sessions = Sessions(url, concurrency="detect")
    with sessions.begin() as session:
        session["name"] = "J\u00f6rg"
    stored = '{ "name": "J\u00f6rg" }'.encode()
    sessions.store.create("other-serialiser", stored, 60)
    one, two = sessions.begin("other-serialiser"), sessions.begin("other-serialiser")
    assert one["name"] == two["name"] == "J\u00f6rg" and not one.modified
    assert (one.save(), two.save()) == ("touched", "touched")
    with sessions.read("other-serialiser") as read:
        assert read["name"] == "J\u00f6rg"
    assert sessions.store.peek("other-serialiser") == stored


def test_a_serialiser_that_writes_the_same_otherwise_makes_no_change(url: str) -> None:
    """A set of texts has another order in each process: every request wrote its session."""
    sessions = Sessions(url, serializer=Pickle())
    stored = pickle.dumps({"n": 1}, 2)
    sessions.store.create("of-another-process", stored, 60)
    reader = sessions.begin("of-another-process")
    assert reader["n"] == 1 and not reader.modified
    assert reader.save() == "touched"
    assert sessions.store.peek("of-another-process") == stored
    reader["n"] = 2
    assert reader.save() == "stored"
    with sessions.read("of-another-process") as read:
        assert read == {"n": 2}


def test_a_new_id_is_refused_before_the_move_if_a_change_would_be_lost(url: str) -> None:
    """The id moved, the save failed: the old id was dead, the new one unknown, the cart lost."""
    for concurrency in ("exclusive", "detect"):
        sessions = Sessions(url, concurrency=concurrency, lock_wait=0)
        with sessions.begin() as session:
            session["cart"] = 1
        login = sessions.begin(session.id)
        login["n"] = 1
        login.save()
        with sessions.begin(session.id) as other:
            other["cart"] = 2
        with pytest.raises(sessile.Stale):
            login.regenerate()
        login.release()
        with sessions.begin(session.id) as after:
            assert after["cart"] == 2


def test_a_store_on_a_server_is_asked_in_threads(redis_url: str) -> None:
    async def run() -> int:
        sessions = Sessions(redis_url)
        assert not sessions.store.in_memory
        async with sessions.begin() as session:
            session["n"] = 0

        async def visit() -> None:
            async with sessions.begin(session.id) as mine:
                mine["n"] += 1

        await asyncio.wait_for(asyncio.gather(*(visit() for _ in range(100))), 30)
        async with sessions.begin(session.id) as after:
            return after["n"]

    assert asyncio.run(run()) == 100


def test_forked_children_share_the_store_and_lose_nothing(url: str) -> None:
    sessions = Sessions(url)
    with sessions.begin() as session:
        session["n"] = 0
    held = sessions.begin()
    held["of the parent"] = 1
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(100):
                with sessions.begin(session.id) as mine:
                    mine["n"] += 1
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    with sessions.read(session.id) as read:
        assert read["n"] == 400


def test_a_child_does_not_save_the_session_of_its_parent(url: str) -> None:
    sessions = Sessions(url)
    with sessions.begin() as session:
        session["n"] = 1
    held = sessions.begin(session.id)
    assert held["n"] == 1
    child = os.fork()
    if child == 0:
        held["n"] = 2
        os._exit(0 if is_refused(held) else 1)
    assert os.waitpid(child, 0)[1] == 0
    held["n"] = 3
    assert held.save() == "stored"


@pytest.mark.parametrize("saves", [0, 1])
def test_a_child_is_told_that_its_changes_are_not_saved(url: str, saves: int) -> None:
    """The block ended without an error, and the change was lost."""
    sessions = Sessions(url)
    with sessions.begin() as session:
        session["n"] = 0
    held = sessions.begin(session.id)
    assert held["n"] == 0
    for _ in range(saves):
        held["n"] = 1
        held.save()
    for change in (None, "value", "owner"):
        child = os.fork()
        if child == 0:
            if change == "value":
                held["n"] = 2
            if change == "owner":
                held.set_owner("17")
            os._exit(0 if is_refused(held) == (change is not None) else 1)
        assert os.waitpid(child, 0)[1] == 0, change
    held["n"] = 3
    assert held.save() == "stored"
    assert sessions.revoke("17") == 0


def is_refused(held: sessile.Session) -> bool:
    """Whether the end of a block says that it is the session of the parent."""
    try:
        with held:
            pass
    except sessile.Unsupported as error:
        return "parent" in str(error)
    return False


def test_errors_say_what_where_and_why(url: str, memory_place: Path) -> None:
    with pytest.raises(sessile.InvalidUrl):
        Store("nonsense:/x")
    store = Store(url, payload_bytes_max=10)
    with pytest.raises(sessile.TooLarge) as large:
        store.create("some-id", b"x" * 11, 60)
    assert (large.value.size, large.value.limit) == (11, 10)
    with pytest.raises(sessile.InvalidArgument):
        Rules(idle=-1)
    with pytest.raises(sessile.Unreachable):
        Store(f"redis+unix://{memory_place}/nobody").peek("some-id")
    store.create("some-id", b"x", 60)
    with pytest.raises(sessile.Exists):
        store.create("some-id", b"x", 60)
    assert store.exists("some-id") and store.peek("some-id") == b"x"
    assert store.collect() == 0


def test_a_warning_of_a_store_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(url)
    store.create("the-id", b"x", 60)
    request = Request(store, Rules(idle=60))
    request.open("the-id")
    store.destroy("the-id")
    assert request.save("the-id", b"y") == "logged-out"
    assert [line.name for line in caplog.records] == ["sessile"]
    assert "the-id" not in caplog.text and "destroyed" in caplog.text


def test_each_code_of_the_c_interface_has_an_exception() -> None:
    sources = Path(__file__).parents[1]
    generator = runpy.run_path(str(sources / "errors_from_header.py"))
    assert (sources / "python" / "sessile" / "errors.py").read_text() == generator["module"]()
    assert len(BY_CODE) == 18
    assert all(getattr(sessile, kind.__name__) is kind for kind in BY_CODE.values())
