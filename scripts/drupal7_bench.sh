#!/bin/sh
# Measures the pages that Drupal 7 serves to one visitor who is logged in, with its own session
# storage and with this project's: drupal7_bench.sh PHP MODULE [SETTING=VALUE]
#
# A setting adds a row, in which it is set. A round measures each row at 1, 4 and 16 requests at a
# time, for ROUND_SECONDS (10); there are ROUNDS (5). PAGE is the path in Drupal (node), DRUPAL7 the
# archive, STORE a URL in which {dir} is a private directory.
set -eu
cd "$(dirname "$0")/.."
. scripts/php_servers.sh
. scripts/php_site_products.sh
. scripts/debian_packages.sh
setting=${3:-}
archive=${DRUPAL7:-../shared/data/drupal-7.105.tar.gz}
if ! find_servers "$1" "$2" || ! command -v ab >/dev/null; then
    echo "php-fpm, nginx, mariadb-server or ab is not installed: make deps" >&2
    exit 1
fi
start_sites
# For gd and pdo_mysql, if the machine lacks them.
! unpack_packages target/php-sites-drupal "php$version-gd" "php$version-mysql" ||
    cp -R target/php-sites-drupal/root "$dir/"
install_drupal "$archive"
start_nginx "$setting"
start_pool "$(store_url "${STORE:-}")"

port_of() {
    case $1 in own) echo "$own" ;; sessile) echo "$http" ;; *) echo "$varied" ;; esac
}

# Requests the page as the visitor: request ROW OPTION...
request() {
    row=$1
    shift
    if ! ab -q -l "$@" -H 'Host: 127.0.0.1' -C "$(cat "$dir/cookie-$row")" \
        "http://127.0.0.1:$(port_of "$row")/drupal/index.php?q=${PAGE:-node}" >"$dir/ab" 2>&1 ||
        ! grep -q '^Failed requests: *0$' "$dir/ab" || grep -q '^Non-2xx' "$dir/ab"; then
        cat "$dir/ab" >&2
        exit 1
    fi
}

# measure ROW CLIENTS
measure() {
    request "$1" -t "${ROUND_SECONDS:-10}" -n 1000000 -c "$2"
    sed -n 's/^Requests per second: *\([0-9.]*\).*/\1/p' "$dir/ab" >>"$dir/rate-$1-$2"
}

rows="own sessile${setting:+ $setting}"
for row in $rows; do
    "$php" -n -d "extension=$(extension dom)" bindings/php/integrations/products/log_in.php \
        "$(port_of "$row")" >"$dir/cookie-$row"
    request "$row" -n 50
    request "$row" -n 1 -v 4
    grep -q user/logout "$dir/ab" || {
        echo "$row: the visitor is not logged in" >&2
        exit 1
    }
done
round=0
while [ "$round" -lt "${ROUNDS:-5}" ]; do
    round=$((round + 1))
    for clients in 1 4 16; do
        for row in $rows; do
            measure "$row" "$clients"
        done
    done
done
echo "pages a second, one visitor, ${ROUNDS:-5} rounds of ${ROUND_SECONDS:-10} s:" \
    "median (least to most)"
for row in $rows; do
    for clients in 1 4 16; do
        sort -n "$dir/rate-$row-$clients" | awk -v name="$row" -v clients="$clients" '
            { rate[NR] = $1 }
            END {
                printf "%-28s %2d at a time: %6.1f (%.1f to %.1f)\n", name, clients,
                    rate[int((NR + 1) / 2)], rate[1], rate[NR]
            }'
    done
done
