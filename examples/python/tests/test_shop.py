"""Visits the open shop as a browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

SHOP = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    environment = {name: value for name, value in os.environ.items() if name != "STORE"}
    shop = subprocess.Popen(
        [sys.executable, "run.py"],
        cwd=SHOP,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shop.stdout is not None
    told = shop.stdout.readline()
    address, place = re.search(r"(http://\S+) \(sessions in (\S+);", told).groups()
    with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
        client.get(address, timeout=30)
    yield address
    # Its workers end with it.
    shop.send_signal(signal.SIGTERM)
    assert shop.wait(30) == 0
    assert not Path(place).exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, headers={"Origin": address}, timeout=30) as client:
        yield client


def token(client: httpx.Client) -> str:
    return re.search(r'name="token" value="([0-9a-f]{32})"', client.get("/cart").text).group(1)


def cookie(answer: httpx.Response) -> str:
    return re.search("session=([^;]+)", answer.headers["set-cookie"]).group(1)


def has_anchor(client: httpx.Client) -> bool:
    return "Anchor" in client.get("/cart").text


def test_a_visitor_who_leaves_nothing_gets_no_cookie(client: httpx.Client) -> None:
    for path in ("/", "/cart", "/login", "/handler"):
        page = client.get(path)
        assert page.status_code == 200 and "No session." in page.text, path
        assert "set-cookie" not in page.headers, path
    assert client.get("/nowhere").status_code == 404
    assert client.get("/style.css").status_code == 200
    for origin in ("http://elsewhere.example", ""):
        forged = client.post("/add", data={"product": "anchor"}, headers={"Origin": origin})
        assert forged.status_code == 403 and "set-cookie" not in forged.headers


def test_a_token_that_is_not_ascii_is_refused(client: httpx.Client) -> None:
    client.post("/add", data={"product": "anchor"})
    answer = client.post("/add", data={"product": "pan", "token": "t\u00f6ken"})
    assert answer.status_code == 403


def test_a_visit(client: httpx.Client) -> None:
    client.cookies.set("session", "a" * 32)
    added = client.post("/add", data={"product": "anchor"})
    assert added.status_code == 303
    guest = cookie(added)
    client.cookies = httpx.Cookies({"session": guest})
    assert guest != "a" * 32 and has_anchor(client)
    assert client.post("/remove", data={"product": "anchor"}).status_code == 403

    form = {"token": token(client), "name": "<b>Ada"}
    logged_in = client.post("/log-in", data=form)
    ada = cookie(logged_in)
    assert ada != guest and not has_anchor(client)
    client.cookies = httpx.Cookies({"session": ada})
    assert has_anchor(client) and "Hello, &lt;b&gt;Ada" in client.get("/").text

    form = {"token": token(client)}
    with ThreadPoolExecutor(8) as threads:
        counted = list(threads.map(lambda _: client.post("/count", data=form), range(8)))
    assert [answer.status_code for answer in counted] == [303] * 8
    assert 'id="counter">8<' in client.get("/handler").text

    out = client.post("/log-out", data={"token": token(client)})
    assert "Max-Age=0" in out.headers["set-cookie"]
    client.cookies = httpx.Cookies({"session": ada})
    assert not has_anchor(client)
