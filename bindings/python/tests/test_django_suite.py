"""Django's own tests of session stores, from its sources: DJANGO_SOURCE names their directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import unittest
import django_site
from django.test import SimpleTestCase
from sessile.django import SessionStore
from sessions_tests.tests import SessionTestsMixin

class SessileSessionTests(SessionTestsMixin, SimpleTestCase):
    backend = SessionStore
    session_engine = "sessile.django"

unittest.main(argv=["suite"])
"""


@pytest.mark.parametrize("options", ["{}", '{"lock": false}', '{"concurrency": "merge"}'])
@pytest.mark.parametrize("kind", ["engine", "redis"])
def test_djangos_own_tests_pass(
    kind: str, options: str, url: str, request: pytest.FixtureRequest
) -> None:
    source = os.environ.get("DJANGO_SOURCE")
    if source is None:
        pytest.skip("DJANGO_SOURCE is not set")
    if kind == "redis":
        url = request.getfixturevalue("redis_url")
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source}/tests:{here}",
        "SESSILE_TEST_APPS": "sessions_tests",
        "SESSILE_TEST_OPTIONS": options.replace("{", f'{{"url": "{url}", ', 1).replace(", }", "}"),
    }
    run = subprocess.run(
        [sys.executable, "-c", SUITE], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "OK" in run.stderr and "Ran 0 tests" not in run.stderr
