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
PATH=$PATH:/usr/sbin:/usr/local/sbin
version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
fpm=$(command -v "php-fpm$version" || command -v php-fpm || true)
nginx=$(command -v nginx || true)
if [ -z "$fpm" ] || [ -z "$nginx" ]; then
    echo "skipped: php-fpm behind nginx (php-fpm or nginx is not installed)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

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
user=
nginx_user=
if [ "$(id -u)" = 0 ]; then
    group=$(id -gn nobody)
    user="user = nobody
group = $group"
    nginx_user="user nobody $group;"
fi
port=$(free_port "$php" 18080)
# nginx writes its temporary files here.
cat >"$dir/nginx.conf" <<END
daemon off; pid $dir/nginx.pid; error_log $dir/nginx.log; worker_processes 1; $nginx_user
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $dir/body; proxy_temp_path $dir/proxy; fastcgi_temp_path $dir/fastcgi;
    uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
    server {
        listen 127.0.0.1:$port;
        location / {
            fastcgi_pass unix:$dir/fpm; fastcgi_param SCRIPT_FILENAME $dir/pages/page.php;
            fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param HTTP_COOKIE \$http_cookie; fastcgi_param CONTENT_TYPE \$content_type;
            fastcgi_param CONTENT_LENGTH \$content_length; fastcgi_request_buffering off;
        }
    }
}
END
# Before 1.19.5 nginx has no option for the log of its start.
early_log="-e $dir/nginx.log"
"$nginx" -h 2>&1 | grep -q -e '-e filename' || early_log=
# shellcheck disable=SC2086 # several words or none
"$nginx" -c "$dir/nginx.conf" $early_log &
server=$!

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
