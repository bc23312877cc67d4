#!/bin/sh
# Tests the benchmark report in a browser: report_test.sh [DIRECTORY]
#
# DIRECTORY gets screenshots. The browser is Debian's chromium. The driver and the accessibility
# checker are two npm packages, pinned in crates/report/tests/browser/package-lock.json.
set -eu
cd "$(dirname "$0")/.."
browser=crates/report/tests/browser
place=target/report-test
pictures=${1:-}

skip() {
    echo "skipped: the report is not looked at in a browser ($1)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

missing=
for program in chromium node npm; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -z "$missing" ] || skip "not installed:$missing"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 18 ? 0 : 1)' ||
    skip "it takes Node 18 or later"

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
cp "$browser/page.test.mjs" "$place/"

# Built as by the Rust tests, so that it is usually there.
"${CARGO:-cargo}" build --quiet --workspace --bin sessile ${CI:+--locked} --target-dir target
target/debug/sessile bench report crates/report/tests/small.json --output "$place/report.html"
[ -z "$pictures" ] || mkdir -p "$pictures"
REPORT=$place/report.html CHROMIUM=$(command -v chromium) PICTURES=$pictures \
    timeout 300 node --test "$place/page.test.mjs"
