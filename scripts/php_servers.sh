#!/bin/sh
# Starts and stops PHP servers; php_fpm_test.sh and php_apache_test.sh source it.

# Repeatedly: php-fpm loses a signal that comes while it reloads.
stop() {
    while kill "$1" 2>/dev/null; do
        sleep 0.1
    done
    wait "$1" || true
}

# The first free port from PORT on: free_port PHP PORT
free_port() {
    port=$2
    while ! "$1" -n -r "exit(@stream_socket_server('tcp://127.0.0.1:$port') ? 0 : 1);"; do
        port=$((port + 1))
    done
    echo "$port"
}

# Waits for a server's socket or pid file: wait_for FILE LOG
wait_for() {
    tries=0
    while [ ! -e "$1" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then
            cat "$2" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# A directory with the test page and PHP's settings; root's workers are another user, as on a
# server: lay_out PHP DIRECTORY MODULE
lay_out() {
    mkdir "$2/pages"
    cp bindings/php/fpm/page.php "$2/pages/"
    # Since 8.5 OPcache is part of PHP.
    "$1" -n -r 'if (PHP_VERSION_ID < 80500) echo "zend_extension=opcache\n";' >"$2/php.ini"
    printf 'opcache.enable=1\nextension=%s\n' "$3" >>"$2/php.ini"
    [ "$(id -u)" != 0 ] || chown nobody "$2" "$2/pages"
}
