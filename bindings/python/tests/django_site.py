"""A site of Django for the tests, configured by the variables SESSILE_TEST_..."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path

OURS = "sessile.django.middleware.SessionMiddleware"

settings.configure(
    SECRET_KEY="of a test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=[
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django.contrib.sessions",
        "sessile.django",
        *os.environ.get("SESSILE_TEST_APPS", "").split(),
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    MIDDLEWARE=os.environ.get("SESSILE_TEST_MIDDLEWARE", OURS).split(),
    SESSION_ENGINE="sessile.django",
    SESSILE=json.loads(os.environ.get("SESSILE_TEST_OPTIONS", "{}")),
    USE_TZ=True,
)
django.setup()


def count(request: Any) -> HttpResponse:
    request.session["n"] = request.session.get("n", 0) + 1
    return HttpResponse(str(request.session["n"]))


async def acount(request: Any) -> HttpResponse:
    n = await request.session.aget("n", 0)
    await asyncio.sleep(0.001)
    await request.session.aset("n", n + 1)
    return HttpResponse(str(n + 1))


def read(request: Any) -> HttpResponse:
    return HttpResponse(str(request.session.get("n")))


async def aread(request: Any) -> HttpResponse:
    return HttpResponse(str(await request.session.aget("n")))


def fail(request: Any) -> HttpResponse:
    request.session["n"] = -1
    raise RuntimeError


def stream(request: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(lines(request, request.session.get("n")))


def late_stream(request: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(lines(request, None))


def lines(request: Any, n: Any) -> Iterator[str]:
    yield f"{n} "
    yield str(request.session.get("n"))


async def user(request: Any) -> HttpResponse:
    return HttpResponse(str(await request.auser()))


async def hang(request: Any) -> HttpResponse:
    await request.session.aget("n")
    await asyncio.Event().wait()
    return HttpResponse("never")


def hang_in_stream(request: Any) -> StreamingHttpResponse:
    async def body() -> AsyncIterator[str]:
        yield str(await request.session.aget("n"))
        await asyncio.Event().wait()

    return StreamingHttpResponse(body())


async def sync_in_async(request: Any) -> HttpResponse:
    return HttpResponse(str(request.session.get("n")))


def clear(request: Any) -> HttpResponse:
    request.session.clear()
    return HttpResponse("cleared")


def clear_and_login(request: Any) -> HttpResponse:
    request.session.clear()
    return login(request)


def login(request: Any) -> HttpResponse:
    request.session.cycle_key()
    request.session["user"] = 1
    return HttpResponse(request.session.session_key)


def logout(request: Any) -> HttpResponse:
    request.session.flush()
    return HttpResponse("out")


def twice(request: Any) -> HttpResponse:
    count(request)
    request.session.save()
    return count(request)


def untouched(request: Any) -> HttpResponse:
    return HttpResponse("untouched")


VIEWS = (
    *(count, acount, read, aread, fail, stream, late_stream, login, logout, twice, untouched),
    *(user, hang, hang_in_stream, sync_in_async, clear, clear_and_login),
)
urlpatterns = [path(view.__name__, view) for view in VIEWS]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
