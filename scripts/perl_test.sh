#!/bin/sh
# Tests the Perl modules: perl_test.sh PERL DIRECTORY-OF-THE-BUILD
#
# The tests of bindings/perl/t on the engine, the cases of spec/ on each store, Starman and
# mod_perl, the tests of Apache::Session and of Plack's sessions themselves, and the shop.
# SESSILE_PERL_STORES names the stores; default: sessile sqlite redis.
set -eu
cd "$(dirname "$0")/.."
perl=$1
build=$2
wanted=" ${SESSILE_PERL_STORES:-sessile sqlite redis} "
export SESSILE_TOP="$PWD"
shm=$(mktemp -d /dev/shm/sessile-perl-XXXXXX)
disk=$(mktemp -d /var/tmp/sessile-perl-XXXXXX)
server=
# shellcheck disable=SC2317 # the trap calls it
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    # An engine on a disk names its directory in memory.
    [ ! -f "$disk/engine/plane" ] || rm -rf "$(sed -n 's/^control //p' "$disk/engine/plane")"
    rm -rf "$shm" "$disk"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

wants() {
    case $wanted in *" $1 "*) ;; *) return 1 ;; esac
}

# A skipped test is not a passed test.
skip() {
    echo "skipped: $1"
    [ -z "${CI:-}" ] || exit 1
}

echo "the tests of the Perl modules"
(cd "$build" && make test TEST_VERBOSE=0) >"$shm/result" 2>&1 || {
    cat "$shm/result" >&2
    exit 1
}
grep -E '^(Files=|Result)|skipped' "$shm/result"
if [ "${CI:-}" ] && grep -q skipped "$shm/result"; then
    exit 1
fi

stores=
! wants sessile || stores="sessile:$shm/engine sessile:$disk/engine"
! wants sqlite || stores="$stores sqlite:$disk/sessions.db"
if ! wants redis; then
    :
elif command -v redis-server >/dev/null 2>&1; then
    redis-server --port 0 --unixsocket "$shm/redis" --dir "$shm" --save '' --appendonly no \
        >/dev/null &
    server=$!
    tries=0
    while [ ! -S "$shm/redis" ] && [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    stores="$stores redis+unix:$shm/redis"
else
    skip "the cases of spec/ on redis (redis-server is not installed)"
fi
for store in $stores; do
    echo "${store%%:*} in ${store#*:}"
    (cd "$build" && "$perl" -Mblib spec/run.pl "$SESSILE_TOP/spec/requests.toml" "$store") \
        2>"$shm/why" || {
        cat "$shm/why" >&2
        exit 1
    }
done

echo "the benchmark, briefly"
rows=$("$perl" -I"$build/blib/lib" -I"$build/blib/arch" bindings/perl/bench/loop.pl 2 20) || {
    echo "$rows" >&2
    exit 1
}
echo "$rows" | grep 'Sessile.* kept'

sh scripts/perl_servers_test.sh "$perl" "$build"
sh scripts/perl_session_tests.sh "$perl" "$build"
sh scripts/plack_session_tests.sh "$perl" "$build"
sh scripts/example_test.sh perl "$perl" "$build"
