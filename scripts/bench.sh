#!/bin/sh
# Runs every experiment in full and leaves NAME.json and NAME.csv in a directory.
#
#   sh scripts/bench.sh DIRECTORY [COMMAND]
#
# Hours of measuring must not be lost to one bad row: what fails is named at the end, with the exit code of a
# measurement that failed. Only an interrupt stops the rest.
set -eu
out=$1
sessile=${2:-target/release/sessile}
mkdir -p "$out"
failed=
for experiment in cycle ops contention gc expiry oversize faults scale perl lifecycle rebuild; do
    echo "== sessile bench $experiment"
    code=0
    "$sessile" bench "$experiment" --json "$out/$experiment.json" --csv "$out/$experiment.csv" || code=$?
    if [ "$code" -ge 128 ]; then
        exit "$code"
    elif [ "$code" -ne 0 ]; then
        failed="$failed $experiment"
    fi
done
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
