#!/bin/sh
# Runs the PHP benchmarks with few sessions and checks what they verify, not their figures:
# php_bench_test.sh PHP MODULE
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d /dev/shm/sessile-php-bench-test-XXXXXX)
trap 'rm -rf "$out"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

fail() {
    echo "failed: $1" >&2
    cat "$out/log" >&2
    exit 1
}

# The reader of the result, which also describes the machine; as built by the Rust tests if debug.
profile=${SESSILE_PROFILE:-release}
if [ "$profile" = debug ]; then
    "${CARGO:-cargo}" build --quiet --workspace --bin sessile ${CI:+--locked} --target-dir target
else
    "${CARGO:-cargo}" build --quiet --release --bin sessile ${CI:+--locked} --target-dir target
fi

echo "the benchmarks of PHP's handlers"
"$1" -n bindings/php/bench/tests/modes.php
"$1" -n bindings/php/bench/tests/result.php
sh scripts/php_bench.sh change "$2" 300 1 0.1 floor files engine >"$out/log" 2>&1 ||
    fail "the change in a loop"
sh scripts/php_bench.sh gc "$2" --sessions 300 --starts 200 --rounds 2 --seconds 2 --sync 0 \
    --json "$out/rows" floor 'files (disk' 'sessile (engine, disk' 'sessile (redis' \
    >"$out/log" 2>&1 || fail "garbage collection"
"$1" -n bindings/php/bench/tests/rows.php "$out/rows" "$out/log" || fail "see above"
"target/$profile/sessile" bench report "$out/rows" --output "$out/page.html" >"$out/log" 2>&1 ||
    fail "the report refuses the result"
for words in 'php-files#disk, 300 sessions' 'one start in ten collects garbage' \
    'calls that do nothing' 'start-while-deleting'; do
    grep -q "$words" "$out/page.html" || fail "the page lacks '$words'"
done
