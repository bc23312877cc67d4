#!/bin/sh
# Runs the fuzz targets of crates/fuzz under libFuzzer, one after the other:
# `fuzz.sh [SECONDS] [TARGET...]`. An input that breaks a promise is kept under target/fuzz/found,
# one that widens the coverage under target/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
[ $# -gt 0 ] && shift
targets=${*:-$(ls crates/fuzz/corpus)}
host=$(rustc -vV | sed -n 's/^host: //p')

# Coverage for libFuzzer, by flags of stable Rust.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=on -Coverflow-checks=on"
${CARGO:-cargo} build --release --quiet -p sessile-fuzz --features libfuzzer --bins \
    --target "$host" --target-dir target/fuzz

mkdir -p target/fuzz/found
failed=
for target in $targets; do
    echo "== $target, $seconds s"
    grown=target/fuzz/corpus/$target
    log=target/fuzz/$target.log
    mkdir -p "$grown"
    "target/fuzz/$host/release/fuzz-$target" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="target/fuzz/found/$target-" \
        "$grown" "crates/fuzz/corpus/$target" >"$log" 2>&1 || failed="$failed $target"
    told="^(stat::number_of_executed_units|thread .* panicked|SUMMARY)"
    grep -E "$told" "$log" | sed "s/^/   /" || true
done
if [ -n "$failed" ]; then
    echo "a promise is broken:$failed; see target/fuzz/found for the input, target/fuzz/*.log" >&2
    exit 1
fi
