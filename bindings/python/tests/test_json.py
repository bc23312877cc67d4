"""JSON of plain values is made in the compiled part, byte for byte as Python's `json` makes it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from sessile import JSON
from sessile._sessile import dumps_json


def plain_json(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def random_value(random: Random, depth: int = 0) -> Any:
    text = "".join(chr(random.choice((9, 34, 65, 92, 127, 233, 8364, 55357, 128512))) for _ in "1234")
    simple = (
        None, True, False, 0, -1, 2**31, 2**63 - 1, 2**63, -(2**64), 10**30, 0.1, -2.5e-9, 1e22,
        5e-324, 1.7976931348623157e308, -0.0, 3.0, float("inf"), "", "plain", text, random.random(),
    )  # fmt: skip
    if depth == 4 or random.random() < 0.6:
        return random.choice(simple)
    values = [random_value(random, depth + 1) for _ in range(random.randrange(4))]
    if random.random() < 0.5:
        return random.choice((list, tuple))(values)
    return {random.choice((text, f"key {at}", at)): value for at, value in enumerate(values)}


def test_json_is_that_of_python() -> None:
    random = Random(1)
    plain = 0
    for _ in range(3000):
        data = {"a": random_value(random), "b": random_value(random)}
        assert JSON().dumps(data) == plain_json(data)
        again = JSON().loads(plain_json(data))
        assert repr(again) == repr(json.loads(plain_json(data)))
        plain += dumps_json(data) is not None
    assert 500 < plain < 2900, "both ways are tried"


def test_json_leaves_to_python_what_it_cannot_do() -> None:
    class Text(str):
        pass

    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    for value in (Text("x"), {Text("k"): 1}, {1: 2}, deep, float("nan"), 2**70, "\ud800"):
        data = {"value": value}
        assert dumps_json(data) is None
        assert JSON().dumps(data) == plain_json(data)
        assert repr(JSON().loads(plain_json(data))) == repr(json.loads(plain_json(data)))
    circle: dict[str, Any] = {}
    circle["circle"] = circle
    with pytest.raises(ValueError, match="Circular"):
        JSON().dumps(circle)
    for malformed in (b"", b"{", b'{"a":1}x', b'{"a":1,}', b"\xff", b"[1 2]"):
        with pytest.raises(ValueError):
            JSON().loads(malformed)
    assert JSON().loads(b' {"a": 1, "a": 2} ') == {"a": 2}
