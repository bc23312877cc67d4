#!/bin/sh
# Runs tests of Flask-Session itself with these sessions in place of its own:
#
#   flask_session_tests.sh ENVIRONMENT
#
# They come with the authors' archive, which is fetched once, and are skipped where it cannot be
# had. Those of files run, which are the same for each of its stores: on the engine, on SQLite, and
# on Redis if there is one; and the one of an application without settings.
set -eu
cd "$(dirname "$0")/.."
environment=$(cd "$1" && pwd)
. scripts/debian_packages.sh
cache=$PWD/target/session-tests

# Not a failure in CI, either: a mirror may have another version, or none, at any time.
skip() {
    echo "skipped: the tests of Flask-Session ($1)"
    exit 0
}

mkdir -p "$cache"
archive=$(echo "$cache"/flask-session_*.orig.tar.*z)
if [ ! -f "$archive" ]; then
    fetch_upstream "$cache" flask-session || skip "apt-get has no source of it"
    archive=$(echo "$cache"/flask-session_*.orig.tar.*z)
fi

dir=$(mktemp -d /dev/shm/sessile-flask-tests-XXXXXX)
server=
# shellcheck disable=SC2317 # the trap calls it
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
tar -xf "$archive" -C "$dir" --strip-components=1
# The installed package is what is tested, and not what is beside the tests.
rm -rf "$dir/src" "$dir/tests/pytest.ini"
# Its class and the place where it looks at what is stored.
sed -i 's/from flask_session.filesystem import FileSystemSession/from with_sessile import \*/
    s/return app.session_interface.cache.get(key)/return stored(key, app)/' \
    "$dir/tests/test_filesystem.py"
sed -i 's/flask_session\.Session(app)/__import__("with_sessile").Session(app)/' \
    "$dir/tests/conftest.py" "$dir/tests/test_basic.py"
cat >"$dir/tests/with_sessile.py" <<'END'
import json
import os
from sessile.flask import ServerSideSession as FileSystemSession, Sessile

def Session(app):
    if "SESSION_TYPE" in app.config:
        app.config["SESSILE_URL"] = os.environ["SESSILE_TEST_URL"]
    return Sessile(app)

def stored(key, app):
    payload = app.session_interface.sessions.store.peek(key.removeprefix("session:"))
    return payload and json.loads(payload)
END
for file in test_filesystem.py conftest.py; do
    grep -q 'with_sessile' "$dir/tests/$file" || skip "its tests are others now"
done

urls="sessile:$dir/engine sqlite:$dir/sessions.db"
if command -v redis-server >/dev/null 2>&1; then
    redis-server --port 0 --unixsocket "$dir/redis" --dir "$dir" --save '' >/dev/null &
    server=$!
    tries=0
    while [ ! -S "$dir/redis" ] && [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    urls="$urls redis+unix:$dir/redis"
fi
for url in $urls; do
    (cd "$dir" && SESSILE_TEST_URL=$url PYTHONPATH=$dir:$dir/tests "$environment/bin/python" \
        -m pytest -q -p no:cacheprovider tests/test_filesystem.py tests/test_basic.py) \
        >"$dir/log" 2>&1 || {
        cat "$dir/log" >&2
        exit 1
    }
    echo "the tests of Flask-Session, ${url%%:*}: $(tail -n 1 "$dir/log")"
done
