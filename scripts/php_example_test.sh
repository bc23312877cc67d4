#!/bin/sh
# Opens the shop of examples/php, visits it, and checks that nothing is left after it has closed:
# php_example_test.sh PHP MODULE
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d /dev/shm/sessile-visit-XXXXXX)
shop=
# shellcheck disable=SC2317 # the trap calls it
end() {
    [ -z "$shop" ] || kill "$shop" 2>/dev/null || true
    [ -z "$shop" ] || wait "$shop" || true
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

fail() {
    echo "failed: $1" >&2
    cat "$dir/out" "$dir/log" >&2
    exit 1
}

echo "the shop of examples/php"
: >"$dir/out"
STORE='' sh scripts/php_example.sh "$1" "$2" >"$dir/out" 2>"$dir/log" &
shop=$!
tries=0
until grep -q ' is open' "$dir/out"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$shop"; then
        fail "it does not open"
    fi
    sleep 0.1
done
url=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' "$dir/out")
sessions=$(sed -n 's|^.*sessions in \([^;]*\);.*|\1|p' "$dir/out")
"$1" -n examples/php/tests/visit.php "$url" || fail "see above"
! grep -E 'PHP (Warning|Fatal|Notice|Deprecated)' "$dir/log" || fail "a page is wrong"

kill "$shop"
wait "$shop" || true
shop=
case $sessions in
/dev/shm/*) [ ! -e "$sessions" ] || fail "the sessions are left: $sessions" ;;
*) fail "it does not say where its sessions are" ;;
esac
# shellcheck disable=SC2016 # the variable is PHP's
"$1" -n -r 'exit(@stream_socket_client($argv[1]) ? 1 : 0);' "tcp://${url#http://}" ||
    fail "a worker is left"
