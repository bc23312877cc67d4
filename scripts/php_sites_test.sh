#!/bin/sh
# Checks real products with their sessions on the extension:
#
#   php_sites_test.sh PHP MODULE STORE [SETTING=VALUE]
#
# Drupal 7 is installed from the archive DRUPAL7 (default: ../shared/data/drupal-7.105.tar.gz), the
# others are Debian's packages, unpacked into target/. Products that cannot be had are skipped and
# counted. STORE is a URL in which {dir} is a private directory, by default an engine.
set -eu
cd "$(dirname "$0")/.."
. scripts/debian_packages.sh
. scripts/php_servers.sh
. scripts/php_site_products.sh
archive=${DRUPAL7:-../shared/data/drupal-7.105.tar.gz}
find_servers "$1" "$2" || {
    echo "skipped: products (php-fpm, nginx or mariadb-server is not installed)"
    exit 0
}
start_sites

if unpack_packages target/php-sites phpmyadmin adminer dokuwiki roundcube-core roundcube-mysql \
    "php$version-gd"; then
    cp -R target/php-sites/root "$dir/"
    relocate "$dir/root"
    install_database_tools
    install_dokuwiki
    install_roundcube
    products='phpmyadmin|adminer|dokuwiki|roundcube'
    skipped=
else
    products=
    why='apt-get cannot fetch it'
    skipped="phpmyadmin=$why|adminer=$why|dokuwiki=$why|roundcube=$why"
fi
if [ -f "$archive" ]; then
    install_drupal "$archive"
    products="drupal7|$products"
else
    skipped="drupal7=$archive is not there|$skipped"
fi
start_nginx
start_pool "$(store_url "$3")" ${4:+"$4"}

status=0
(
    IFS='|'
    # shellcheck disable=SC2046,SC2086 # several words
    "$php" -n -d "extension=$(extension dom)" bindings/php/integrations/products/run.php \
        "$http" "$https" "$mixed_http" "$mixed_https" "$dir/database/socket" $products $skipped
) || status=1
if grep -E 'PHP (Warning|Fatal)' "$dir/php.log"; then
    status=1
fi
exit "$status"
