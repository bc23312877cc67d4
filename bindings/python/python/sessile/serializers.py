"""How a session becomes bytes."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from ._sessile import dumps_json, loads_json


class Serializer(Protocol):
    """`format` names what the store can split for `merge`; None if it cannot. One that writes what
    it has read byte for byte as it was may say so with `is_canonical = True`: changed sessions are
    saved faster."""

    @property
    def format(self) -> str | None: ...

    def dumps(self, data: dict[str, Any], /) -> bytes: ...

    def loads(self, payload: bytes, /) -> dict[str, Any]: ...


# The tag of a value that JSON does not have. Its content is a list, which `merge` keeps whole.
# A key of the application that looks like it gets one more slash.
_TAG = " sessile"
_ESCAPE = "/"
_READERS: dict[str, Callable[[str], Any]] = {
    "bytes": base64.b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
}


def _tagged(value: Any) -> dict[str, list[str]]:
    if isinstance(value, bytes):
        return {_TAG: ["bytes", base64.b64encode(value).decode()]}
    if isinstance(value, datetime):
        return {_TAG: ["datetime", value.isoformat()]}
    if isinstance(value, date):
        return {_TAG: ["date", value.isoformat()]}
    if isinstance(value, Decimal):
        return {_TAG: ["decimal", str(value)]}
    if isinstance(value, UUID):
        return {_TAG: ["uuid", str(value)]}
    raise TypeError(f"a session cannot keep a {type(value).__name__} as JSON")


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {_escaped_key(key): _escaped(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(inner) for inner in value]
    return value


def _escaped_key(key: Any) -> Any:
    looks_like_it = isinstance(key, str) and key.rstrip(_ESCAPE) == _TAG
    return key + _ESCAPE if looks_like_it else key


def _untagged(read: dict[str, Any]) -> Any:
    """A tag that is unknown, or whose content is malformed, stays as it is."""
    if len(read) == 1 and _TAG in read:
        try:
            kind, text = read[_TAG]
            return _READERS[kind](text)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            return read
    return {_unescaped_key(key): value for key, value in read.items()}


def _unescaped_key(key: str) -> str:
    return key.removesuffix(_ESCAPE) if key.rstrip(_ESCAPE) == _TAG else key


_encode = json.JSONEncoder(separators=(",", ":"), default=_tagged).encode
_decode = json.JSONDecoder().decode
_decode_tagged = json.JSONDecoder(object_hook=_untagged).decode


class JSON:
    """Texts, numbers, lists, dictionaries; bytes, dates, decimals and UUIDs, too. A tuple comes
    back as a list. Safe to read whatever the bytes are."""

    format = "json"
    is_canonical = True

    def dumps(self, data: dict[str, Any], /) -> bytes:
        # None if there is more in it than plain values.
        plain = dumps_json(data)
        if plain is not None:
            return plain
        text = _encode(data)
        if '" sessile' in text:
            # Bytes, dates and so on are tagged only now, so that their tags are not escaped.
            text = _encode(_escaped(data))
        return text.encode()

    def loads(self, payload: bytes, /) -> dict[str, Any]:
        read: dict[str, Any] | None
        if b'" sessile' in payload:
            read = _decode_tagged(payload.decode())
        else:
            read = loads_json(payload)
            if read is None:
                read = _decode(payload.decode())
        return read


class MsgSpec:
    """JSON by the package msgspec: several times as fast as `JSON`, and
    reads what that writes. Bytes, dates, decimals and UUIDs come back as texts."""

    format = "json"
    is_canonical = True

    def __init__(self) -> None:
        import msgspec

        self.dumps: Callable[[dict[str, Any]], bytes] = msgspec.json.Encoder().encode
        self.loads: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder().decode


class Pickle:
    """Any object. A process that can write to the store can run code in the application."""

    format = None

    def dumps(self, data: dict[str, Any], /) -> bytes:
        return pickle.dumps(data, pickle.HIGHEST_PROTOCOL)

    def loads(self, payload: bytes, /) -> dict[str, Any]:
        read: dict[str, Any] = pickle.loads(payload)
        return read
