#!/bin/sh
# Tests that PHP reads over Sessile what it has saved through phpredis and through Symfony's handler
# for a table, after `sessile copy`: php_copy_test.sh PHP MODULE COMMAND
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
command=$3
sessions=200

dir=$(mktemp -d /dev/shm/sessile-copy-XXXXXX)
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

# What is missing fails under CI: skipped WHAT
skipped() {
    echo "skipped: $1 (not installed)"
    [ -z "${CI:-}" ] || exit 1
}

# Runs copy.php with PHP's settings: run VERB "SETTING..." [DATABASE]
run() {
    # shellcheck disable=SC2046 # several words
    told=$("$php" -n -d session.use_cookies=0 -d session.cache_limiter= \
        -d include_path=/usr/share/php $(for setting in $2; do echo "-d $setting"; done) \
        bindings/php/integrations/test/copy.php "$1" "$sessions" ${3:+"$3"} 2>&1)
    if [ -n "$told" ]; then
        echo "$told" >&2
        exit 1
    fi
}

# Copies into a new store of each kind and reads there: copied_from URL
copied_from() {
    for store in "sessile:$dir/engine" "files:$dir/files"; do
        "$command" copy "$1" "$store" --pause 0
        "$command" copy --verify "$1" "$store" --pause 0 | grep "^$sessions sessions equal$"
        run read "extension=$module session.save_handler=sessile session.save_path=$store \
            session.use_strict_mode=1"
        rm -rf "$dir/engine" "$dir/files"
    done
}

redis="extension=igbinary extension=redis"
echo "PHP's sessions of phpredis, copied and read over Sessile"
if ! command -v redis-server >/dev/null ||
    ! "$php" -n -d extension=igbinary -d extension=redis -r 'exit(0);' >"$dir/told" 2>&1 ||
    [ -s "$dir/told" ]; then
    skipped "redis-server or PHP's extensions igbinary and redis"
else
    redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" >"$dir/log" &
    server=$!
    tries=0
    while [ ! -S "$dir/redis" ]; do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || { cat "$dir/log" >&2 && exit 1; }
        sleep 0.1
    done
    run save "$redis session.save_handler=redis session.save_path=unix://$dir/redis \
        redis.session.locking_enabled=1"
    copied_from "php+redis+unix:$dir/redis"
fi

echo "Symfony's sessions in a table, copied and read over Sessile"
if ! [ -e /usr/share/php/Symfony/Component/HttpFoundation/autoload.php ] ||
    ! "$php" -n -d extension=pdo -d extension=pdo_sqlite -r 'exit(0);' >"$dir/told" 2>&1 ||
    [ -s "$dir/told" ]; then
    skipped "Symfony or PHP's extension pdo_sqlite"
else
    run save-table "extension=pdo extension=pdo_sqlite" "$dir/shop.db"
    copied_from "symfony+sqlite:$dir/shop.db"
fi
