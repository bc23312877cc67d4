#!/bin/sh
# Private servers for real products: MariaDB, nginx and php-fpm; php_site_products.sh sources it. No
# configuration of the machine is used.

# Sets php, module, version and fpm, and fails if a server is missing: find_servers PHP MODULE
find_servers() {
    php=$1
    module=$2
    PATH=$PATH:/usr/sbin:/usr/local/sbin
    version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    fpm=$(command -v "php-fpm$version" || command -v php-fpm || true)
    [ -n "$fpm" ] && command -v nginx >/dev/null && command -v mariadb-install-db >/dev/null
}

# Makes the private directory `dir` with a running MariaDB. All ends with the script.
start_sites() {
    processes=
    dir=$(mktemp -d /dev/shm/sessile-sites-XXXXXX)
    trap end_sites EXIT
    trap 'trap "" HUP; exit 130' HUP INT TERM
    mkdir "$dir/www" "$dir/root" "$dir/database"
    mariadb-install-db --no-defaults --datadir="$dir/database/data" --user="$(id -un)" \
        --auth-root-authentication-method=normal --skip-test-db >"$dir/database/log" 2>&1
    mariadbd --no-defaults --user="$(id -un)" --datadir="$dir/database/data" --skip-networking \
        --socket="$dir/database/socket" --innodb-flush-log-at-trx-commit=2 \
        >>"$dir/database/log" 2>&1 &
    processes=$!
    wait_for "$dir/database/socket" "$dir/database/log"
}

# The last one first: the database outlives PHP.
end_sites() {
    for process in $processes; do
        stop "$process"
    done
    rm -rf "$dir"
}

query() {
    mariadb --no-defaults -u root -S "$dir/database/socket" "$@"
}

# Prints the file of an extension, which is unpacked or installed.
extension() {
    modules=$("$php" -n -r 'echo ini_get("extension_dir");')
    for folder in "$dir/root$modules" "$modules"; do
        if [ -f "$folder/$1.so" ]; then
            echo "$folder/$1.so"
            return
        fi
    done
}

# Writes a php.ini with all that products need.
write_settings() {
    for name in mysqlnd pdo xml dom mbstring ctype curl fileinfo gd iconv intl mysqli pdo_mysql \
        posix simplexml sockets tokenizer xmlwriter; do
        file=$(extension "$name")
        [ -z "$file" ] || echo "extension=$file"
    done
    echo "include_path=\".:$dir/root/usr/share/php:/usr/share/php\""
    echo 'memory_limit=512M'
}

# Serves $dir/www. The ports `http` and `https` are those of a site; `mixed_http` and `mixed_https`
# ask Drupal for sessions over both. HTTPS is said, not spoken.
start_nginx() {
    http=$(free_port "$php" 18480)
    https=$(free_port "$php" $((http + 1)))
    mixed_http=$(free_port "$php" $((https + 1)))
    mixed_https=$(free_port "$php" $((mixed_http + 1)))
    {
        echo "daemon off; pid $dir/nginx.pid; error_log $dir/nginx.log; worker_processes 1;"
        [ "$(id -u)" != 0 ] || echo "user root;"
        cat <<END
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $dir/body; proxy_temp_path $dir/proxy;
    fastcgi_temp_path $dir/fastcgi; uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
    root $dir/www; index index.php; fastcgi_read_timeout 120;
END
        listen "$http" ''
        listen "$https" 'fastcgi_param HTTPS on;'
        listen "$mixed_http" 'fastcgi_param SITE_SESSIONS mixed;'
        listen "$mixed_https" 'fastcgi_param HTTPS on; fastcgi_param SITE_SESSIONS mixed;'
        echo '}'
    } >"$dir/nginx.conf"
    nginx -c "$dir/nginx.conf" -e "$dir/nginx.log" &
    processes="$! $processes"
}

listen() {
    cat <<END
    server {
        listen 127.0.0.1:$1;
        location ~ ^(/.*\.php)(/.*)?\$ {
            fastcgi_pass unix:$dir/fpm; $2
            fastcgi_param SCRIPT_FILENAME \$document_root\$1; fastcgi_param SCRIPT_NAME \$1;
            fastcgi_param PATH_INFO \$2; fastcgi_param DOCUMENT_ROOT \$document_root;
            fastcgi_param REQUEST_URI \$request_uri; fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param CONTENT_TYPE \$content_type;
            fastcgi_param CONTENT_LENGTH \$content_length;
            fastcgi_param REMOTE_ADDR \$remote_addr; fastcgi_param REMOTE_PORT \$remote_port;
            fastcgi_param SERVER_ADDR \$server_addr; fastcgi_param SERVER_PORT \$server_port;
            fastcgi_param SERVER_NAME 127.0.0.1; fastcgi_param SERVER_SOFTWARE nginx;
            fastcgi_param SERVER_PROTOCOL \$server_protocol;
            fastcgi_param REDIRECT_STATUS 200;
        }
    }
END
}

# The store URL, by default an engine, with {dir} as the private directory.
store_url() {
    echo "${1:-sessile:{dir\}/engine}" | sed "s|{dir}|$dir|"
}

# Starts php-fpm with 16 workers: start_pool STORE [SETTING=VALUE...]
start_pool() {
    {
        printf 'zend_extension=opcache\nextension=%s\n' "$module"
        write_settings
    } >"$dir/php.ini"
    root_too=
    {
        printf '[global]\nerror_log = %s\ndaemonize = no\n[www]\n' "$dir/fpm.log"
        if [ "$(id -u)" = 0 ]; then
            root_too=-R
            printf 'user = root\ngroup = root\n'
        fi
        printf 'listen = %s\npm = static\npm.max_children = 16\n' "$dir/fpm"
        printf 'php_value[session.save_handler] = sessile\n'
        printf 'php_value[session.save_path] = "%s"\n' "$1"
        printf 'php_value[error_log] = %s\nphp_value[log_errors] = 1\n' "$dir/php.log"
        shift
        for setting in "$@"; do
            echo "php_value[${setting%%=*}] = ${setting#*=}"
        done
    } >"$dir/fpm.conf"
    : >"$dir/php.log"
    # shellcheck disable=SC2086 # nothing or one word
    PHP_INI_SCAN_DIR='' "$fpm" $root_too -c "$dir/php.ini" -y "$dir/fpm.conf" 2>/dev/null &
    processes="$! $processes"
    wait_for "$dir/fpm" "$dir/fpm.log"
}
