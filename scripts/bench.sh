#!/bin/sh
# Runs every experiment in full and writes NAME.json to a directory.
#
#   sh scripts/bench.sh DIRECTORY [COMMAND]
#
# A failed experiment does not end the run; its name is printed at the end. Only an interrupt does.
set -eu
out=$1
sessile=${2:-target/release/sessile}
mkdir -p "$out"
failed=
for experiment in cycle ops contention gc oversize faults scale languages lifecycle rebuild; do
    echo "== sessile bench $experiment"
    code=0
    "$sessile" bench "$experiment" --export-json "$out/$experiment.json" || code=$?
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
