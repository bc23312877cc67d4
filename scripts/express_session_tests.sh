#!/bin/sh
# Runs tests of express-session itself with our Store in place of its own:
#
#   express_session_tests.sh    after node.sh build
#
# They are those of 1.0.2, the last version whose package has its tests, and run on the version that
# the lock file of bindings/node names. They and what they use are fetched once, and are skipped
# where that cannot be had. Some compare the date of a cookie with the clock, and are tried again if
# the machine was too busy.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
place=$top/target/session-tests/express-session
version=1.0.2

# Not a failure in CI, either: they are not needed to know that the addon works.
skip() {
    echo "skipped: the tests of express-session ($1)"
    exit 0
}

if [ ! -f "$place/complete" ]; then
    rm -rf "$place"
    mkdir -p "$place"
    (
        cd "$place"
        npm pack --silent "express-session@$version" >/dev/null
        tar -xzf "express-session-$version.tgz" package/test --strip-components=1
        echo '{ "private": true }' >package.json
        npm install --ignore-scripts --no-audit --no-fund --loglevel=error --save-exact \
            connect@3.7.0 cookie-parser@1.4.7 mocha@11.8.0 should@3.1.2 supertest@7.3.2
    ) >"$place.log" 2>&1 || skip "npm cannot fetch them"
    : >"$place/complete"
fi
cat >"$place/index.js" <<'END'
const { mkdtempSync, rmSync } = require('node:fs')
const { SESSILE_TOP: top, SESSILE_CONFLICT: onConflict } = process.env
const session = require(`${top}/bindings/node/node_modules/express-session`)
const { SessileStore } = require(`${top}/bindings/node/lib/express-session`)

const place = mkdtempSync('/dev/shm/sessile-session-tests-')
process.on('exit', () => rmSync(place, { recursive: true }))
let stores = 0
class MemoryStore extends SessileStore {
  constructor () {
    super({ url: `sessile:${place}/${++stores}`, onConflict })
  }
}
// Newer versions want these to be said.
const said = { secret: 'keyboard cat', resave: true, saveUninitialized: true }
module.exports = (options) => session({ ...said, store: new MemoryStore(), ...options })
Object.assign(module.exports, session, { MemoryStore })
END
for conflict in error merge last-wins; do
    log=$place/$conflict.log
    (cd "$place" && SESSILE_TOP=$top SESSILE_CONFLICT=$conflict \
        timeout 120 node_modules/.bin/mocha --exit --timeout 30000 --retries 2 test/session.js) \
        >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
    count=$(sed -n 's/^ *\([0-9]*\) passing.*/\1/p' "$log")
    echo "the tests of express-session, $conflict: $count pass"
done
