#!/bin/sh
# Tests that a site under php-fpm moves from PHP's own files to another store and back, and from
# phpredis to Redis and back, under load, with nobody logged out:
# php_move_test.sh PHP MODULE [VISITORS [RATE]]. With a rate of requests a second it tells how long
# they waited.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
visitors=${3:-200}
rate=${4:-0}
. scripts/php_servers.sh
find_fpm

dir=$(mktemp -d /dev/shm/sessile-move-XXXXXX)
server=
pool=
redis=
end() {
    [ -z "$server" ] || stop "$server"
    [ -z "$pool" ] || stop "$pool"
    [ -z "$redis" ] || stop "$redis"
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

lay_out "$php" "$dir" "$module"
mkdir -m 700 "$dir/sessions"
[ "$(id -u)" != 0 ] || chown nobody "$dir/sessions"
start_nginx

# pool HANDLER SAVE-PATH
pool() {
    cat <<END
[global]
error_log = $dir/fpm.log
daemonize = no
process_control_timeout = 10
[www]
$user
listen = $dir/fpm
listen.mode = 0666
pm = static
pm.max_children = 6
catch_workers_output = yes
php_admin_value[session.use_strict_mode] = 1
php_admin_value[session.gc_probability] = 0
php_admin_value[session.save_handler] = $1
php_admin_value[session.save_path] = "$2"
END
}

# Visitors come back while php-fpm goes through $dir/fpm.conf and $dir/fpm.conf.*
move() {
    PHP_INI_SCAN_DIR='' "$fpm" -c "$dir/php.ini" -y "$dir/fpm.conf" 2>/dev/null &
    pool=$!
    wait_for "$dir/fpm" "$dir/fpm.log"
    if ! "$php" -n bindings/php/switching/load.php "$port" "$dir" "$pool" "$visitors" "$rate" ||
        grep -E 'ERROR|PHP (Warning|Fatal)' "$dir/fpm.log" | grep -v 'child failed to initialize'
    then
        tail -n 20 "$dir/fpm.log" "$dir/nginx.log" >&2
        exit 1
    fi
    stop "$pool"
    pool=
    rm -f "$dir/fpm" "$dir"/fpm.conf* "$dir"/step.* "$dir"/after.*
}

files="files:$dir/sessions?php=1"
engine="sessile:$dir/engine"
echo "php-fpm $version moves from PHP's files to the engine and back, under load"
pool files "$dir/sessions" >"$dir/fpm.conf"
pool sessile "$files" >"$dir/fpm.conf.1"
pool sessile "migrate:?from=$files&to=$engine" >"$dir/fpm.conf.2"
pool sessile "$engine" >"$dir/fpm.conf.3"
pool sessile "migrate:?from=$engine&to=$files" >"$dir/fpm.conf.4"
pool files "$dir/sessions" >"$dir/fpm.conf.5"
move

echo "php-fpm $version moves from phpredis to redis: and back, under load"
if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null ||
    [ "$("$php" -n -d extension=igbinary -d extension=redis -r 'echo 1;' 2>&1)" != 1 ]; then
    echo "skipped: redis-server, redis-cli or PHP's extensions igbinary and redis (not installed)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
redis-server --port 0 --unixsocket "$dir/redis" --unixsocketperm 777 --save '' --dir "$dir" \
    >"$dir/redis.log" &
redis=$!
wait_for "$dir/redis" "$dir/redis.log"
printf '%s\n' extension=igbinary extension=redis redis.session.locking_enabled=1 \
    redis.session.lock_expire=60 >>"$dir/php.ini"
old=php+redis+unix:$dir/redis
new=redis+unix:$dir/redis
pool redis "unix://$dir/redis" >"$dir/fpm.conf"
pool sessile "migrate:?from=$old&to=$new" >"$dir/fpm.conf.1"
pool sessile "$new" >"$dir/fpm.conf.2"
pool sessile "migrate:?from=$new&to=$old" >"$dir/fpm.conf.3"
pool redis "unix://$dir/redis" >"$dir/fpm.conf.4"

# After a step phpredis has so many sessions, and no lock: has STEP SESSIONS
has() {
    cat >"$dir/after.$1" <<END
keys=\$(redis-cli -s "$dir/redis" --scan --pattern 'PHPREDIS_SESSION:*' | sort -u | wc -l)
[ "\$keys" = $2 ] || {
    echo "phpredis has \$keys sessions and locks in place of $2" >&2
    exit 1
}
END
}
has 2 0
has 4 $((visitors / 8 * 8))
move
