#!/bin/sh
# Opens the shop of examples/perl, visits it as the test of PHP's shop does, and checks that nothing
# is left after it has closed: perl_example_test.sh PERL DIRECTORY-OF-THE-BUILD
set -eu
cd "$(dirname "$0")/.."
for need in php starman; do
    if ! command -v "$need" >/dev/null 2>&1; then
        echo "skipped: the shop of examples/perl ($need is not installed)"
        [ -z "${CI:-}" ] || exit 1
        exit 0
    fi
done
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

echo "the shop of examples/perl"
: >"$dir/out"
STORE='' sh scripts/perl_example.sh "$1" "$2" >"$dir/out" 2>"$dir/log" &
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
php -n examples/php/tests/visit.php "$url" shop || fail "see above"
! grep -E ' at .* line [0-9]+' "$dir/log" || fail "a page is wrong"

kill "$shop"
wait "$shop" || true
shop=
case $sessions in
/dev/shm/*) [ ! -e "$sessions" ] || fail "the sessions are left: $sessions" ;;
*) fail "it does not say where its sessions are" ;;
esac
