"""The cookie of a session, for applications without a framework that writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True)
class Cookie:
    """`max_age` is in seconds; None: until the browser is closed. `secure` None: on HTTPS."""

    name: str = "session"
    path: str = "/"
    domain: str | None = None
    max_age: int | None = None
    secure: bool | None = None
    http_only: bool = True
    same_site: str | None = "Lax"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", self.name):
            raise ValueError("the name of a cookie has letters, digits, - and _")

    def read(self, header: str) -> str | None:
        """The id that a browser sends."""
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self.name:
                return value.strip('"') or None
        return None

    def write(self, id: str, https: bool) -> str:
        """A `Set-Cookie` header; an empty id removes the cookie."""
        parts = [f"{self.name}={id}", f"Path={self.path}"]
        max_age = self.max_age if id else 0
        if max_age is not None:
            parts.append(f"Max-Age={max_age}")
        if self.domain:
            parts.append(f"Domain={self.domain}")
        if https if self.secure is None else self.secure:
            parts.append("Secure")
        if self.http_only:
            parts.append("HttpOnly")
        if self.same_site:
            parts.append(f"SameSite={self.same_site}")
        return "; ".join(parts)

    def after(self, sent: str | None, session: Session, saved: str, https: bool) -> str | None:
        """The header of a response, after its session was saved: `sent` is what the browser has.

        A cookie whose session is unknown is left there. This request may be late, and the browser
        have the cookie of a log-in by now."""
        if session.is_stored:
            renewed = saved == "touched" and self.max_age is not None
            if saved == "stored" or renewed or session.id != sent:
                return self.write(session.id, https)
            return None
        return self.write("", https) if sent and session.is_destroyed else None
