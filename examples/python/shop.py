"""The shop of examples/php, on Flask: the same pages, the same pictures.

Keys of the session: cart (product -> pieces), name, count, token."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from pathlib import Path
from urllib.parse import urlsplit

from flask import Flask, redirect, render_template, request, send_from_directory, session
from flask.typing import ResponseReturnValue

import sessile
from sessile.flask import Sessile

PUBLIC = Path(__file__).parents[1] / "php" / "public"
PIECES_MAX = 99
NAME_BYTES_MAX = 80
PRODUCTS = {
    "anchor": ("Anchor", "Four flukes. Holds a boat of up to nine metres, or an argument.", 8900),
    "doorstop": ("Doorstop", "A wedge of oak. Has never been seen to move.", 1250),
    "paperweight": ("Paperweight", "A dome of glass for papers that would like to leave.", 2400),
    "pan": ("Cast-iron pan", "Once it is on the stove you will not want to lift it.", 4900),
    "bonsai": ("Bonsai", "Rooted since 1998. Please water on Fridays.", 12000),
    "bollard": ("Bollard", "For your own quay. Delivery by crane.", 34900),
}

app = Flask(__name__)
app.config.update(SESSILE_URL=os.environ["STORE"], SESSION_COOKIE_SAMESITE="Lax")
Sessile(app)


@app.after_request
def protect(response):
    policy = "default-src 'self'; form-action 'self'; frame-ancestors 'none'"
    response.headers["Content-Security-Policy"] = policy
    return response


@app.context_processor
def for_all_pages() -> dict[str, object]:
    # An old session may have products that are gone.
    kept = {name: pieces for name, pieces in session.get("cart", {}).items() if name in PRODUCTS}
    euros = lambda cents: f"\N{EURO SIGN} {cents / 100:,.2f}"  # noqa: E731
    return {"cart": kept, "euros": euros, "products": PRODUCTS, "worker": os.getpid()}


def is_own_form() -> bool:
    """A visitor with a session sends its token. Without a session another site could only log the
    visitor in as somebody else: the browser's Origin must match."""
    if "token" in session:
        # As bytes: of texts it takes ASCII only.
        sent = request.form.get("token", "").encode()
        return hmac.compare_digest(session["token"].encode(), sent)
    return urlsplit(request.headers.get("Origin", "")).netloc == request.host


@app.before_request
def check_form() -> ResponseReturnValue | None:
    if request.method != "POST":
        return None
    if not is_own_form():
        told = "This form did not come from this shop, or it is older than your session."
        return render_template("error.html", status=403, told=told), 403
    session.setdefault("token", secrets.token_hex(16))
    return None


@app.get("/")
def index() -> str:
    return render_template("products.html")


@app.get("/cart")
def show_cart() -> str:
    return render_template("cart.html")


@app.get("/login")
def show_login() -> str:
    return render_template("login.html")


@app.post("/add")
def add() -> ResponseReturnValue:
    product = request.form.get("product")
    if product in PRODUCTS:
        cart = session.setdefault("cart", {})
        cart[product] = min(PIECES_MAX, cart.get(product, 0) + 1)
    return redirect("/", 303)


@app.post("/remove")
def remove() -> ResponseReturnValue:
    session.get("cart", {}).pop(request.form.get("product"), None)
    return redirect("/cart", 303)


@app.post("/log-in")
def log_in() -> ResponseReturnValue:
    """Without a password: authentication is not part of this example."""
    name = request.form.get("name", "").strip()
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        return redirect("/login", 303)
    # The cart moves to a new id. The old one, which an attacker may have planted, ends at once.
    session.regenerate()
    session["token"] = secrets.token_hex(16)
    session["name"] = name
    return redirect("/", 303)


@app.post("/log-out")
def log_out() -> ResponseReturnValue:
    """Final: a concurrent request does not bring the session back."""
    session.destroy()
    return redirect("/", 303)


@app.post("/count")
def count_up() -> ResponseReturnValue:
    count = session.get("count", 0)
    # Simulates work. Without the lock, concurrent requests would read the same number.
    time.sleep(0.02)
    session["count"] = count + 1
    if request.accept_mimetypes.best == "application/json":
        return {"count": session["count"], "token": session["token"], "worker": os.getpid()}
    return redirect("/handler", 303)


@app.get("/handler")
def behind_the_counter() -> str:
    times = measure()
    at = lambda part: f"{times[int((len(times) - 1) * part)]:.1f} \N{MICRO SIGN}s"  # noqa: E731
    sessions = app.session_interface.sessions
    return render_template(
        "handler.html",
        store=sessions.store.label.split(":")[0],
        counters=sessions.store.counters(),
        rounds=len(times),
        median=at(0.5),
        slowest=at(0.99),
    )


def measure() -> list[float]:
    """The sorted microseconds of each round on a session of 1,400 bytes of its own."""
    sessions, times, end = app.session_interface.sessions, [], time.perf_counter() + 0.05
    with sessions.begin() as mine:
        mine["page"] = "x" * 1360
    # Once at least, also on a machine that took longer for the first one.
    while (start := time.perf_counter()) < end and len(times) < 500 or not times:
        with sessions.begin(mine.id) as changed:
            changed["round"] = len(times)
        times.append((time.perf_counter() - start) * 1e6)
    sessions.destroy(mine.id)
    return sorted(times)


@app.errorhandler(sessile.Error)
def store_failed(error: sessile.Error) -> ResponseReturnValue:
    app.logger.error("%s", error)
    return "Your session is not at hand. Please try again in a moment.", 503


@app.errorhandler(404)
def missing(error: Exception) -> ResponseReturnValue:
    return render_template("error.html", status=404, told="There is no such page."), 404


@app.get("/<any('style.css', 'count.js', 'pictures.svg'):name>")
def asset(name: str) -> ResponseReturnValue:
    return send_from_directory(PUBLIC, name)
