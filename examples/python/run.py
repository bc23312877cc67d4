"""Opens the shop under gunicorn, eight workers, until Ctrl-C. STORE is the store URL; by default
sessions are in memory and end with the shop. PORT is the port; by default a free one from 8080."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

WORKERS = 8


def free_port() -> int:
    for port in range(8080, 8180):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    sys.exit("no port from 8080 to 8179 is free")


def main() -> None:
    place, store = None, os.environ.get("STORE")
    if not store:
        place = tempfile.mkdtemp(prefix="sessile-example-", dir="/dev/shm")
        store = f"sessile:{place}/sessions"
    port = int(os.environ.get("PORT") or free_port())
    # Not the whole URL, which may have a password.
    told = f"in {place}" if place else f"on {store.split(':')[0]}"
    address = f"http://127.0.0.1:{port}"
    print(f"The shop is open: {address} (sessions {told}; Ctrl-C closes it)", flush=True)
    # As Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = ["gunicorn", "--workers", str(WORKERS), "--log-level", "warning"]
    server = subprocess.Popen(
        [sys.executable, "-m", *command, "--bind", f"127.0.0.1:{port}", "shop:app"],
        cwd=Path(__file__).parent,
        env={**os.environ, "STORE": store},
    )
    try:
        server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
    finally:
        if place:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
