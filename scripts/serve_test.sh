#!/bin/sh
# Tests the page of `sessile serve` in a browser: serve_test.sh [DIRECTORY]
#
# DIRECTORY gets screenshots. The browser and what drives it are those of report_test.sh.
set -eu
cd "$(dirname "$0")/.."
browser=crates/report/tests/browser
place=target/report-test
pictures=${1:-}

skip() {
    echo "skipped: the page of a store is not looked at in a browser ($1)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

missing=
for program in chromium node npm; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -z "$missing" ] || skip "not installed:$missing"

mkdir -p "$place"
if ! cmp -s "$browser/package-lock.json" "$place/package-lock.json" ||
    [ ! -d "$place/node_modules" ]; then
    cp "$browser/package.json" "$browser/package-lock.json" "$place/"
    if ! npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund >"$place/npm.log" 2>&1; then
        rm -f "$place/package-lock.json"
        cat "$place/npm.log" >&2
        skip "npm cannot install what drives it"
    fi
fi
cp crates/watch/tests/browser/page.test.mjs "$place/serve.test.mjs"

"${CARGO:-cargo}" build --quiet --workspace --bin sessile ${CI:+--locked} --target-dir target
work=$(mktemp -d target/serve-test.XXXXXX)
work=$(cd "$work" && pwd)
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# A directory with a hostile name, which the doctor has something to say about.
store="$work/<img src=x onerror=alert(1)>"
mkdir -m 755 "$store"
from="$work/from"
mkdir -m 700 "$from"
printf 'cart|i:1;' >"$from/sess_0123456789abcdef0123456789abcdef"
chmod 600 "$from"/sess_*
target/debug/sessile copy "files:$from?php=1" "files:$store" >"$work/copied"
target/debug/sessile serve "files:$store" >"$work/address" &
server=$!
tries=0
while [ ! -s "$work/address" ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
if [ ! -s "$work/address" ]; then
    echo "failed: sessile serve has told no address after 60 s" >&2
    exit 1
fi
[ -z "$pictures" ] || mkdir -p "$pictures"
PAGE=$(cat "$work/address") CHROMIUM=$(command -v chromium) PICTURES=$pictures \
    timeout 300 node --test "$place/serve.test.mjs"
