#!/bin/sh
# Opens the shop of examples/php or examples/perl, visits it, and checks that nothing is left after
# it has closed: example_test.sh php PHP MODULE | perl PERL DIRECTORY-OF-THE-BUILD
set -eu
cd "$(dirname "$0")/.."
language=$1
php=$2
cookie=PHPSESSID
wrong='PHP (Warning|Fatal|Notice|Deprecated)'
if [ "$language" = perl ]; then
    # The visitor is a program in PHP.
    php=php
    cookie=shop
    wrong=' at .* line [0-9]+'
    for need in php starman; do
        if ! command -v "$need" >/dev/null 2>&1; then
            echo "skipped: the shop of examples/perl ($need is not installed)"
            [ -z "${CI:-}" ] || exit 1
            exit 0
        fi
    done
fi
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

echo "the shop of examples/$language"
: >"$dir/out"
STORE='' sh scripts/example.sh "$@" >"$dir/out" 2>"$dir/log" &
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
"$php" -n examples/php/tests/visit.php "$url" "$cookie" || fail "see above"
! grep -E "$wrong" "$dir/log" || fail "a page is wrong"

kill "$shop"
wait "$shop" || true
shop=
case $sessions in
/dev/shm/*) [ ! -e "$sessions" ] || fail "the sessions are left: $sessions" ;;
*) fail "it does not say where its sessions are" ;;
esac
# shellcheck disable=SC2016 # the variable is PHP's
"$php" -n -r 'exit(@stream_socket_client($argv[1]) ? 1 : 0);' "tcp://${url#http://}" ||
    fail "a worker is left"
