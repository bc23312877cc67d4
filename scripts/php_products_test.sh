#!/bin/sh
# Tests bindings/php/integrations with the products: php_products_test.sh PHP MODULE [DIRECTORY]
#
# The products are Debian's packages php-laravel-framework and php-symfony-framework-bundle (with
# php-mbstring and php-xml). One outside of PHP's include path is skipped. DIRECTORY is the root of
# the unpacked packages, by default /.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
root=${3:-}
dir=$(mktemp -d /dev/shm/sessile-products-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

"$php" -n bindings/php/integrations/test/without_extension.php

# Extensions that the products need, from either place.
modules=$("$php" -n -r 'echo ini_get("extension_dir");')
extensions=
for name in mbstring dom ctype tokenizer posix; do
    for place in "$root" ''; do
        if [ -f "$place$modules/$name.so" ]; then
            extensions="$extensions extension=$place$modules/$name.so"
            break
        fi
    done
done

# On each store in turn: product NAME
product() {
    for store in "sessile:$dir/$1/engine" "files:$dir/$1/files"; do
        mkdir "$dir/$1"
        echo "$1, sessions on ${store%%:*}"
        # shellcheck disable=SC2086 # several words
        "$php" -n bindings/php/integrations/test/client.php \
            "bindings/php/integrations/test/$1.php" "$dir/$1" \
            "include_path=$root/usr/share/php" $extensions "extension=$module" \
            session.save_handler=sessile "session.save_path=$store" || return
        rm -r "${dir:?}/$1"
    done
}

# Concurrently: most of the time each waits for sessions to expire.
tests=
for name in laravel symfony drupal drupal7; do
    case $name in
    laravel) first=Illuminate/autoload.php ;;
    symfony) first=Symfony/Bundle/FrameworkBundle/autoload.php ;;
    # Drupal is not packaged: its tests use stand-ins.
    drupal | drupal7) first=. ;;
    esac
    if [ ! -e "$root/usr/share/php/$first" ]; then
        echo "skipped: $name (it is not installed)"
        [ -z "${CI:-}" ] || exit 1
        continue
    fi
    product "$name" >"$dir/$name.out" 2>&1 &
    tests="$tests $name:$!"
done
status=0
for test in $tests; do
    wait "${test#*:}" || status=1
    cat "$dir/${test%:*}.out"
done
exit "$status"
