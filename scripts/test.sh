#!/bin/sh
# Runs every test: test.sh [languages]
#
# The tests in Rust mostly wait for locks and servers, so those of the languages and the models of
# the engine run meanwhile. Their output follows at the end.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
locked=${CI:+--locked}
log=target/test-languages.log

if [ "${1:-}" = languages ]; then
    export SESSILE_PROFILE=debug
    sh scripts/report_test.sh
    sh scripts/serve_test.sh
    module=$(SESSILE_CFLAGS=-Werror sh scripts/php.sh build)
    sh scripts/capi.sh test
    sh scripts/php.sh test
    sh scripts/python.sh test
    SESSILE_CFLAGS='-Wall -Werror' sh scripts/perl.sh test
    sh scripts/node.sh test
    # shellcheck disable=SC2086 # nothing, or an option
    SESSILE_PHP_MODULE=$module "$cargo" test --workspace $locked --test rebuild --test lifecycle \
        -- --ignored
    exec make models-briefly
fi

# shellcheck disable=SC2086 # nothing, or an option
"$cargo" test --workspace --no-run $locked
echo "the tests of the languages run meanwhile, and write to $log"
# A session of its own, so that all that it has started can be ended.
setsid sh scripts/test.sh languages >"$log" 2>&1 &
group=$!
trap 'trap "" HUP INT TERM; kill -- "-$group" 2>/dev/null; wait "$group"; exit 130' HUP INT TERM

failed=
# shellcheck disable=SC2086 # nothing, or an option
"$cargo" test --workspace --no-fail-fast $locked || failed="$failed Rust"
wait "$group" || failed="$failed languages"
cat "$log"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
