#!/bin/sh
# Measures save handlers of PHP side by side: php_bench.sh MODULE-OF-SESSILE [SESSIONS [ROUNDS [SECONDS [HANDLER...]]]]
set -eu
cd "$(dirname "$0")/.."
: "${PHP_CONFIG:=php-config}"
module=$1
shift
sessions=${1:-1000}
rounds=${2:-5}
seconds=${3:-1}
if [ $# -gt 3 ]; then
    shift 3
else
    set --
fi

php=$("$PHP_CONFIG" --php-binary)
phpize=$(command -v "$PHP_CONFIG" | sed 's/php-config\([^/]*\)$/phpize\1/')
floor=$PWD/target/php-floor-$("$PHP_CONFIG" --version)
mkdir -p "$floor"
cp -R bindings/php/bench/floor/. "$floor/"
if ! (cd "$floor" && "$phpize" && ./configure --quiet --with-php-config="$PHP_CONFIG" CFLAGS='-O2 -g' && make --quiet) >"$floor/make.log" 2>&1; then
    cat "$floor/make.log" >&2
    exit 1
fi

shm=$(mktemp -d /dev/shm/sessile-php-bench-XXXXXX)
disk=$(mktemp -d /var/tmp/sessile-php-bench-XXXXXX)
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$shm" "$disk"
}
trap end EXIT
trap 'exit 130' INT TERM
if command -v redis-server >/dev/null 2>&1; then
    redis-server --port 0 --unixsocket "$shm/redis" --dir "$shm" --save '' --appendonly no --hz 100 >/dev/null &
    server=$!
    while [ ! -S "$shm/redis" ] && kill -0 "$server"; do
        sleep 0.1
    done
else
    echo "left out: sessile on redis, phpredis (Debian package redis-server)"
fi
"$php" -n -d memory_limit=1G bindings/php/bench/bench.php "$module" "$floor/modules/session_floor.so" "$shm" "$disk" \
    "$sessions" "$rounds" "$seconds" "$@"
