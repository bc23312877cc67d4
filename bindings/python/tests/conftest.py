"""Stores of the tests: private, and gone with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def memory_place() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="sessile-python-test-", dir="/dev/shm"))
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_url(memory_place: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        if os.environ.get("CI"):
            pytest.fail("redis-server is missing")
        pytest.skip("no redis-server")
    socket = memory_place / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""]
    server = subprocess.Popen(command, cwd=memory_place, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not socket.exists() and time.monotonic() < end:
        time.sleep(0.01)
    yield f"redis+unix://{socket}"
    server.terminate()
    server.wait()


@pytest.fixture
def url(memory_place: Path) -> str:
    """A store of its own for each test, which processes share."""
    return f"sessile:{tempfile.mkdtemp(dir=memory_place)}/store"
