"""The setting `SESSILE`, and the store that it names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.core.signing import JSONSerializer
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string

from .._sessile import Rules, Store

STORE_OPTIONS = {"url", "hashed_ids", "payload_bytes_max"}
RULES_OPTIONS = {"lock_wait", "first_lifetime", "lifetime", "on_conflict"}
OPTIONS = STORE_OPTIONS | RULES_OPTIONS | {"lock", "concurrency"}


def options() -> dict[str, Any]:
    return getattr(settings, "SESSILE", None) or {}


def default_url() -> str:
    """In memory, and another store for each project."""
    project = salted_hmac("sessile.django", "store").hexdigest()[:16]
    return f"sessile:/dev/shm/sessile-django-{project}"


def serializer() -> Any:
    return import_string(settings.SESSION_SERIALIZER)


def is_json() -> bool:
    kind = serializer()
    return isinstance(kind, type) and issubclass(kind, JSONSerializer)


def url() -> str:
    return options().get("url") or default_url()


@lru_cache(maxsize=1)
def store() -> Store:
    given = options()
    named = {name: given[name] for name in STORE_OPTIONS - {"url"} if name in given}
    return Store(url(), **named)


@lru_cache(maxsize=1)
def rules() -> Rules:
    given = options()
    named = {name: given[name] for name in RULES_OPTIONS if name in given}
    locks = given.get("lock", True)
    concurrency = given.get("concurrency", "exclusive" if locks else "detect")
    # An empty session is stored: Django has made its key.
    return Rules(
        idle=settings.SESSION_COOKIE_AGE,
        lazy_start=False,
        concurrency=concurrency,
        format="json" if is_json() else None,
        **named,
    )


def forget(*, setting: str, **_: Any) -> None:
    """Tests change settings."""
    if setting.startswith("SESS") or setting == "SECRET_KEY":
        store.cache_clear()
        rules.cache_clear()


setting_changed.connect(forget, dispatch_uid="sessile.django")
