#!/bin/sh
# Compares PHP save handlers, on private directories and a private Redis server.
#
#   php_bench.sh change MODULE-OF-SESSILE [SESSIONS [ROUNDS [SECONDS [HANDLER...]]]] php_bench.sh gc
#   MODULE-OF-SESSILE [OPTION...] [HANDLER...]
#
# `change` measures changes in a loop, `gc` starts and garbage collection. The options of gc are in
# bindings/php/bench/gc.php, except for the paths.
set -eu
cd "$(dirname "$0")/.."
: "${PHP_CONFIG:=php-config}"
experiment=$1
module=$2
shift 2
# Redis removes expired keys for up to a quarter of each tick of hz. The garbage collection
# experiment measures the default.
redis_options=
if [ "$experiment" = change ]; then
    redis_options="--hz 100"
    sessions=${1:-1000}
    rounds=${2:-5}
    seconds=${3:-1}
    if [ $# -gt 3 ]; then
        shift 3
    else
        set --
    fi
fi

php=$("$PHP_CONFIG" --php-binary)
phpize=$(command -v "$PHP_CONFIG" | sed 's/php-config\([^/]*\)$/phpize\1/')
floor=$PWD/target/php-floor-$("$PHP_CONFIG" --version)
mkdir -p "$floor"
floor_module=$floor/modules/session_floor.so
configure_floor() {
    ./configure --quiet --with-php-config="$PHP_CONFIG" CFLAGS='-O2 -g'
}
if ! cmp -s bindings/php/bench/floor/session_floor.c "$floor/session_floor.c" ||
    [ ! -e "$floor_module" ]; then
    cp -R bindings/php/bench/floor/. "$floor/"
    if ! (cd "$floor" && "$phpize" && configure_floor && make --quiet) >"$floor/make.log" 2>&1; then
        cat "$floor/make.log" >&2
        exit 1
    fi
fi

shm=$(mktemp -d /dev/shm/sessile-php-bench-XXXXXX)
disk=$(mktemp -d /var/tmp/sessile-php-bench-XXXXXX)
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$shm" "$disk"
}
trap end EXIT
# A closing terminal sends HUP twice, directly and through the shell: the second one must not end
# the clean-up.
trap 'trap "" HUP; exit 130' HUP INT TERM
if command -v redis-server >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # several words
    redis-server --port 0 --unixsocket "$shm/redis" --dir "$shm" --save '' --appendonly no \
        $redis_options >/dev/null &
    server=$!
    while [ ! -S "$shm/redis" ] && kill -0 "$server"; do
        sleep 0.1
    done
else
    echo "left out: sessile on redis, phpredis (Debian package redis-server)"
fi
case $experiment in
change)
    "$php" -n -d memory_limit=1G bindings/php/bench/bench.php "$module" "$floor_module" \
        "$shm" "$disk" "$sessions" "$rounds" "$seconds" "$@"
    ;;
gc)
    "$php" -n -d memory_limit=4G bindings/php/bench/gc.php \
        --sessile "$module" --floor "$floor_module" \
        --program "target/${SESSILE_PROFILE:-release}/sessile" --shm "$shm" --disk "$disk" "$@"
    ;;
esac
