#!/bin/sh
# Starts and stops PHP servers; the tests with php-fpm and Apache source it.

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

# Sets $fpm, $nginx and $version for $php; skips the test without them.
find_fpm() {
    PATH=$PATH:/usr/sbin:/usr/local/sbin
    version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    fpm=$(command -v "php-fpm$version" || command -v php-fpm || true)
    nginx=$(command -v nginx || true)
    if [ -z "$fpm" ] || [ -z "$nginx" ]; then
        echo "skipped: php-fpm behind nginx (php-fpm or nginx is not installed)"
        [ -z "${CI:-}" ] || exit 1
        exit 0
    fi
}

# Starts nginx in front of the socket $dir/fpm; sets $server, $port, and $user for a pool.
start_nginx() {
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
}
