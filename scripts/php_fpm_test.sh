#!/bin/sh
# Tests a built extension under php-fpm behind nginx: php_fpm_test.sh PHP MODULE STORE-URL...
#
# {dir} in a URL is a directory that the workers may write to. The machine's configuration is not
# used.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
shift 2
. scripts/php_servers.sh
find_fpm

dir=$(mktemp -d /dev/shm/sessile-fpm-XXXXXX)
server=
pool=
end() {
    [ -z "$server" ] || stop "$server"
    [ -z "$pool" ] || stop "$pool"
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

lay_out "$php" "$dir" "$module"
start_nginx

for store in "$@"; do
    store=$(echo "$store" | sed "s|{dir}|$dir|")
    echo "php-fpm $version behind nginx, sessions on ${store%%:*}"
    cat >"$dir/fpm.conf" <<END
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
pm.max_requests = 100
catch_workers_output = yes
php_admin_value[session.save_handler] = sessile
php_admin_value[session.save_path] = "$store"
php_admin_value[session.upload_progress.enabled] = 1
php_admin_value[session.upload_progress.min_freq] = 0
END
    PHP_INI_SCAN_DIR='' "$fpm" -c "$dir/php.ini" -y "$dir/fpm.conf" 2>/dev/null &
    pool=$!
    wait_for "$dir/fpm" "$dir/fpm.log"
    # A reload ends workers that php-fpm has just forked: they find their socket closed, and say so.
    if ! "$php" -n bindings/php/fpm/client.php "$port" "$dir" "$pool" ||
        grep -E 'ERROR|PHP (Warning|Fatal)' "$dir/fpm.log" | grep -v 'child failed to initialize'
    then
        tail -n 20 "$dir/fpm.log" "$dir/nginx.log" >&2
        exit 1
    fi
    stop "$pool"
    pool=
    rm -f "$dir/fpm" "$dir/fpm.log"
done
