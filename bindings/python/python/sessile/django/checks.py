"""System checks: each finding has an id and a hint."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Warning

from .. import errors
from .._sessile import Store
from . import settings as ours

ENGINE = "sessile.django"
MIDDLEWARE = "sessile.django.middleware.SessionMiddleware"


def check_settings(app_configs: Any = None, **_: Any) -> list[CheckMessage]:
    if settings.SESSION_ENGINE != ENGINE:
        hint = f'Set SESSION_ENGINE = "{ENGINE}", or remove the application "{ENGINE}".'
        told = "sessile.django is installed, and sessions are kept elsewhere."
        return [Warning(told, hint=hint, id="sessile.W001")]
    return _options() or [*_store(), *_middleware(), *_serializer()]


def _options() -> list[CheckMessage]:
    given = getattr(settings, "SESSILE", None)
    if given is not None and not isinstance(given, dict):
        hint = 'Write SESSILE = {"url": "sessile:/dev/shm/shop"}.'
        return [Error("SESSILE is not a dictionary.", hint=hint, id="sessile.E001")]
    unknown = sorted(set(given or ()) - ours.OPTIONS)
    if unknown:
        hint = f"SESSILE takes {', '.join(sorted(ours.OPTIONS))}."
        told = f"SESSILE has unknown options: {', '.join(map(str, unknown))}."
        return [Error(told, hint=hint, id="sessile.E002")]
    try:
        ours.rules()
    except (errors.InvalidArgument, TypeError) as error:
        hint = "docs/python.md lists the options and their values."
        return [Error(f"SESSILE: {error}", hint=hint, id="sessile.E003")]
    return []


def _store() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    url = ours.options().get("url")
    if not url:
        hint = 'Name one: SESSILE = {"url": "sessile:/var/lib/shop/sessions"} survives a reboot.'
        told = "Sessions are in the memory of this host, and end with its next boot."
        found.append(Info(told, hint=hint, id="sessile.I001"))
    elif str(url).startswith("memory:"):
        hint = 'Use "sessile:/dev/shm/NAME", which is as fast.'
        told = "Sessions are in the memory of one process: others do not see them."
        found.append(Warning(told, hint=hint, id="sessile.W002"))
    try:
        # A check makes none: the user of `manage.py migrate` would own it.
        if Store.is_created(ours.url()):
            ours.store()
    except (errors.InvalidUrl, errors.InvalidArgument, TypeError) as error:
        hint = "The manual of the stores lists the URLs and their options."
        found.append(Error(f"SESSILE: {error}", hint=hint, id="sessile.E004"))
    except errors.Error as error:
        hint = "Start the server, or give this user the right to use it."
        told = f"The store of the sessions cannot be opened: {error}"
        found.append(Warning(told, hint=hint, id="sessile.W003"))
    return found


def _middleware() -> list[CheckMessage]:
    used = [name for name in settings.MIDDLEWARE if name.endswith(".SessionMiddleware")]
    if not used:
        told = "No session middleware is in MIDDLEWARE."
        return [Error(told, hint=f'Add "{MIDDLEWARE}".', id="sessile.E005")]
    if used == ["django.contrib.sessions.middleware.SessionMiddleware"]:
        told = "A session that is only read stays locked until its response is closed."
        return [Info(told, hint=f'Use "{MIDDLEWARE}" in its place.', id="sessile.I002")]
    return []


def _serializer() -> list[CheckMessage]:
    if ours.options().get("concurrency") != "merge" or ours.is_json():
        return []
    hint = 'Use "django.contrib.sessions.serializers.JSONSerializer".'
    told = "Sessions of this SESSION_SERIALIZER cannot be merged: requests take turns."
    return [Warning(told, hint=hint, id="sessile.W004")]
