#!/bin/sh
# Tests a built extension under Apache with mod_php and prefork.
#
#   php_apache_test.sh PHP MODULE STORE-URL...
#
# {dir} in a URL is a directory that the workers may write to. The machine's configuration is not
# used. APACHE_ROOT is the root of unpacked apache2-bin and libapache2-mod-php packages, by default
# /.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
shift 2
. scripts/php_servers.sh
root=${APACHE_ROOT:-}
modules=$root/usr/lib/apache2/modules
version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
if [ ! -x "$root/usr/sbin/apache2" ] || [ ! -f "$modules/libphp$version.so" ]; then
    echo "skipped: Apache (apache2 or libapache2-mod-php is not installed)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

dir=$(mktemp -d /dev/shm/sessile-apache-XXXXXX)
server=
end() {
    [ -z "$server" ] || stop "$server"
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

lay_out "$php" "$dir" "$module"
user=
if [ "$(id -u)" = 0 ]; then
    user="User nobody
Group $(id -gn nobody)"
fi
port=$(free_port "$php" 18280)

for store in "$@"; do
    store=$(echo "$store" | sed "s|{dir}|$dir|")
    echo "Apache with mod_php $version, sessions on ${store%%:*}"
    cat >"$dir/apache.conf" <<END
ServerRoot $dir
ServerName localhost
Listen 127.0.0.1:$port
PidFile $dir/apache.pid
ErrorLog $dir/apache.log
Mutex file:$dir default
$user
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule mime_module $modules/mod_mime.so
LoadModule php_module $modules/libphp$version.so
TypesConfig /dev/null
AddHandler application/x-httpd-php .php
PHPINIDir $dir
DocumentRoot $dir/pages
StartServers 6
MaxRequestWorkers 12
MaxConnectionsPerChild 100
php_admin_value session.save_handler sessile
php_admin_value session.save_path "$store"
php_admin_value session.upload_progress.enabled 1
php_admin_value session.upload_progress.min_freq 0
END
    # In its own process group: Apache signals the whole group when it ends.
    PHP_INI_SCAN_DIR='' LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu \
        setsid "$root/usr/sbin/apache2" -f "$dir/apache.conf" -D FOREGROUND &
    server=$!
    wait_for "$dir/apache.pid" "$dir/apache.log"
    if ! "$php" -n bindings/php/fpm/client.php "$port" "$dir" "$server" USR1 ||
        grep -E 'PHP (Warning|Fatal)' "$dir/apache.log"; then
        tail -n 20 "$dir/apache.log" >&2
        exit 1
    fi
    stop "$server"
    server=
    rm -f "$dir/apache.pid" "$dir/apache.log"
done
