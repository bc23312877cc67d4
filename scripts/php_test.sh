#!/bin/sh
# Runs bindings/php/tests and the cases of spec/ on each store:
# php_test.sh PHP DIRECTORY-OF-THE-BUILD
#
# SESSILE_PHP_STORES names the stores; default: sessile files redis.
set -eu
php=$1
build=$2
wanted=" ${SESSILE_PHP_STORES:-sessile files redis} "
shm=$(mktemp -d /dev/shm/sessile-php-XXXXXX)
disk=$(mktemp -d /var/tmp/sessile-php-XXXXXX)
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

stores=
! wants sessile || stores="sessile:$shm/engine sessile:$disk/engine"
! wants files || stores="$stores files:$shm/files"
if ! wants redis; then
    :
elif command -v redis-server >/dev/null 2>&1; then
    redis-server --port 0 --unixsocket "$shm/redis" --dir "$shm" --save '' --appendonly no \
        >/dev/null &
    server=$!
    stores="$stores redis+unix:$shm/redis"
elif [ "${CI:-}" ]; then
    echo "redis-server is not installed" >&2
    exit 1
else
    echo "skipped: the tests on redis (redis-server is not installed)"
fi

export SESSILE_PHP_EXTENSION="$build/modules/sessile.so" TEST_PHP_EXECUTABLE="$php"
export NO_INTERACTION=1 REPORT_EXIT_STATUS=1
status=0
for store in $stores; do
    echo "the tests of the PHP extension on ${store%%:*} in ${store#*:}"
    # Without the machine's php.ini, and with the defaults before PHP 8.6.
    if (cd "$build" && "$php" -n run-tests.php -n -q -j4 -p "$php" --show-diff \
        -d "extension=$SESSILE_PHP_EXTENSION" -d session.save_handler=sessile \
        -d session.use_strict_mode=0 -d "session.save_path=$store" tests) >"$shm/result" 2>&1; then
        grep -E 'SKIP|WARN|^Tests (passed|failed|skipped)' "$shm/result"
        # A skipped test is not a passed test.
        if [ "${CI:-}" ] && ! grep -qE '^Tests skipped +: +0 ' "$shm/result"; then
            status=1
        fi
    else
        cat "$shm/result"
        status=1
    fi
    "$php" -n bindings/php/spec/run.php "$SESSILE_PHP_EXTENSION" "$store" || status=1
done
exit "$status"
