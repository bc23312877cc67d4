#!/bin/sh
# Runs bindings/php/integrations with the products themselves: php_products_test.sh PHP MODULE [DIRECTORY]
#
# The products are Debian's packages php-laravel-framework and php-symfony-framework-bundle (with php-mbstring and php-xml); of one
# that is not in PHP's include path nothing is run. DIRECTORY is the root that they are unpacked under, if it is not /.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
root=${3:-}
dir=$(mktemp -d /dev/shm/sessile-products-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

# What the products need beyond PHP itself, from the one place or the other.
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

# On one store after the other: product NAME
product() {
    for store in "sessile:$dir/$1/engine" "files:$dir/$1/files"; do
        mkdir "$dir/$1"
        echo "$1, sessions on ${store%%:*}"
        # shellcheck disable=SC2086 # several words
        "$php" -n bindings/php/integrations/test/client.php "bindings/php/integrations/test/$1.php" "$dir/$1" \
            "include_path=$root/usr/share/php" $extensions "extension=$module" session.save_handler=sessile "session.save_path=$store" || return
        rm -r "${dir:?}/$1"
    done
}

# All at once: each waits most of the time for sessions to expire.
tests=
for name in laravel symfony drupal drupal7; do
    case $name in
    laravel) first=Illuminate/autoload.php ;;
    symfony) first=Symfony/Bundle/FrameworkBundle/autoload.php ;;
    # Drupal is in no package: what is for it runs with stand-ins, which need nothing.
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
