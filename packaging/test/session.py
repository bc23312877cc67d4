"""A session of the installed wheel: scripts/package_steps.sh runs it."""

import tempfile

from sessile import Sessions

with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
    sessions = Sessions(f"sessile:{place}/store")
    with sessions.begin(None) as session:
        session["count"] = 1
    with sessions.begin(session.id) as again:
        again["count"] += 1
    with sessions.begin(session.id) as last:
        assert last["count"] == 2, last["count"]
