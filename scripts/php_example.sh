#!/bin/sh
# Opens the shop of examples/php in PHP's web server until Ctrl-C: php_example.sh PHP MODULE
#
# STORE is the store URL; by default sessions are in memory and end with the shop. The machine's PHP
# configuration is not used.
set -eu
cd "$(dirname "$0")/../examples/php"
php=$1
export SESSILE_EXTENSION="$2" PHP_INI_SCAN_DIR='' PHP_CLI_SERVER_WORKERS=8

dir=
server=
end() {
    # The whole group: the server's first process does not end its workers.
    [ -z "$server" ] || kill -- "-$server" 2>/dev/null || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    [ -z "$dir" ] || rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

if [ -z "${STORE:-}" ]; then
    dir=$(mktemp -d /dev/shm/sessile-example-XXXXXX)
    STORE=sessile:$dir/sessions
    place="in $dir"
else
    # Not the whole URL, which may have a password.
    place="on ${STORE%%:*}"
fi
export STORE

# shellcheck disable=SC2016 # the variables are PHP's
port=$("$php" -n -r 'for ($port = 8080; $port < 8180; $port++) {
    if (@stream_socket_server("tcp://127.0.0.1:$port")) { echo $port; exit(0); }
}
fwrite(STDERR, "no port from 8080 to 8179 is free\n");
exit(1);')
setsid "$php" -q -c php.ini -S "127.0.0.1:$port" -t public &
server=$!
# shellcheck disable=SC2016
"$php" -n -r 'for ($i = 0; $i < 100; $i++) {
    if (@stream_socket_client("tcp://127.0.0.1:$argv[1]")) { exit(0); }
    usleep(50_000);
}
fwrite(STDERR, "the web server of PHP does not answer\n");
exit(1);' "$port"

echo "The shop is open: http://127.0.0.1:$port (sessions $place; Ctrl-C closes it)"
wait "$server"
