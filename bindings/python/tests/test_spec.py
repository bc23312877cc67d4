"""The cases of spec/requests.toml over the engine, Redis and SQLite."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from sessile import Error, Request, Rules, Store

SPEC = Path(__file__).parents[3] / "spec" / "requests.toml"
CASES = tomllib.loads(SPEC.read_text())["case"]


def rules(case: dict[str, Any]) -> Rules:
    given = {"idle": 1440, **case.get("rules", {})}
    for name in ("first_lifetime", "lifetime"):
        given[name] = given.get(name) or None
    given["on_conflict"] = given.pop("merge_conflict", "last")
    return Rules(lock_wait=0, format="php", **given)


class Requests:
    """The requests of one case."""

    def __init__(self, store: Store, case: dict[str, Any], number: int) -> None:
        self.store, self.rules, self.number = store, rules(case), number
        self.requests: dict[str, Request] = {}
        self.id: dict[str, str] = {}
        self.opened: dict[str, bytes] = {}
        self.payload: dict[str, bytes] = {}

    def run(self, step: dict[str, Any]) -> None:
        by = step["by"]
        request = self.requests.setdefault(by, Request(self.store, self.rules))
        if "made" in step:
            assert not request.is_taken(self.named(step["made"]))
        elif "start" in step:
            self.start(by, request, step)
        elif "put" in step:
            self.payload[by] = step["put"].encode()
        elif "save" in step:
            assert self.save(by, request, step) == step["save"]
        elif "regenerate" in step:
            new = self.named(step["regenerate"])
            keeps = not step.get("deletes", False)
            fails = code(lambda: request.regenerate(self.id[by], new, keeps=keeps))
            assert fails == step.get("fails")
            self.id[by] = new
        elif "destroy" in step:
            assert code(lambda: request.destroy(self.named(step["destroy"]))) is None
        else:
            assert request.close() == step["close"]

    def named(self, name: str) -> str:
        return f"{name}-{self.number}"

    def start(self, by: str, request: Request, step: dict[str, Any]) -> None:
        self.id[by] = self.named(step["start"])
        locked, strict = not step.get("unlocked", False), step.get("strict", False)
        payload, fails = None, None
        try:
            payload = request.open(self.id[by], locked=locked, strict=strict)
        except Error as error:
            fails = error.code
        assert fails == step.get("fails")
        assert (payload is not None or fails is not None) == step.get("known", True)
        assert (None if payload is None else payload.decode()) == step.get("sees")
        warning = request.warning
        assert (warning and warning.code) == step.get("warns")
        self.opened[by] = self.payload[by] = payload or b""

    def save(self, by: str, request: Request, step: dict[str, Any]) -> str:
        payload = self.payload[by]
        try:
            return request.save(
                self.id[by],
                payload,
                changed=payload != self.opened[by],
                empty=not payload,
                headers_open=step.get("headers") != "sent",
            )
        except Error as error:
            return error.code


def code(call: Any) -> str | None:
    try:
        call()
    except Error as error:
        return error.code
    return None


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
@pytest.mark.parametrize("kind", ["engine", "redis", "sqlite"])
def test_every_case_holds(
    case: dict[str, Any], kind: str, url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if any("advance" in step for step in case["steps"]):
        pytest.skip("time passes")
    if kind == "redis":
        url = request.getfixturevalue("redis_url")
    elif kind == "sqlite":
        url = f"sqlite:{tmp_path}/sessions.db"
    requests = Requests(Store(url), case, CASES.index(case))
    for step in case["steps"]:
        requests.run(step)
