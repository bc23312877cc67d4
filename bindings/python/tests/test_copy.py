"""Sessions of Django's own table, after `sessile copy`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TARGET = Path(__file__).parents[3] / "target"
USER = {"_auth_user_id": "17", "_auth_user_backend": "shop.Backend", "name": "J\u00fcrgen"}
CONTENTS: list[dict[str, Any]] = [
    USER,
    {},
    # Long enough that Django compresses it.
    {"cart": [{"id": number, "count": 2} for number in range(200)], "none": None, "price": 1.5},
]

# The table is that of Django's own back end for `save`; `read` asks the store.
PROGRAM = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command

verb, database, url, contents = sys.argv[1:]
settings.configure(
    SECRET_KEY="of a test",
    INSTALLED_APPS=["django.contrib.sessions"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
    SESSION_ENGINE="sessile.django",
    SESSILE={"url": url},
    USE_TZ=True,
)
django.setup()
told = []
if verb == "save":
    from django.contrib.sessions.backends.db import SessionStore
    call_command("migrate", "sessions", verbosity=0)
    for content in json.loads(contents):
        session = SessionStore()
        session.update(content)
        session.save()
        told.append(session.session_key)
else:
    from sessile.django import SessionStore
    for key in json.loads(contents):
        session = SessionStore(key)
        told.append([dict(session.items()), session.session_key])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def command() -> str:
    places = [os.environ.get("SESSILE_COMMAND", ""), TARGET / "debug/sessile"]
    for place in [*places, TARGET / "release/sessile"]:
        if place and Path(place).exists():
            return str(place)
    if os.environ.get("CI"):
        pytest.fail("the command sessile is not built")
    pytest.skip("the command sessile is not built")


def run(verb: str, database: Path, url: str, contents: Any) -> Any:
    arguments = [verb, str(database), url, json.dumps(contents)]
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(output.stdout)


def test_sessions_of_djangos_table_are_read_by_django_over_sessile(
    command: str, tmp_path: Path
) -> None:
    database, url = tmp_path / "db.sqlite3", f"files:{tmp_path}/store"
    keys = run("save", database, url, CONTENTS)
    copy = [command, "copy", f"django+sqlite:{database}", url]
    for expected in ["3 sessions copied\n", "0 sessions copied\n3 sessions there already\n"]:
        output = subprocess.run(copy, check=True, capture_output=True, text=True)
        assert output.stdout == expected
        assert not any(key in output.stdout + output.stderr for key in keys)
    assert run("read", database, url, keys) == [
        [content, key] for content, key in zip(CONTENTS, keys, strict=True)
    ]
    sessions = [command, "sessions", url, "--owner", "17", "--revoke", "--yes"]
    subprocess.run(sessions, check=True, capture_output=True)
    left = run("read", database, url, keys)
    assert [content for content, _ in left] == [{}, *CONTENTS[1:]]
    assert left[0][1] is None, "the user is logged out"
