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
trap 'exit 130' INT TERM

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

for product in laravel symfony drupal drupal7; do
    case $product in
    laravel) first=Illuminate/autoload.php ;;
    symfony) first=Symfony/Bundle/FrameworkBundle/autoload.php ;;
    # Drupal is in no package: what is for it runs with stand-ins, which need nothing.
    drupal | drupal7) first=. ;;
    esac
    if [ ! -e "$root/usr/share/php/$first" ]; then
        echo "skipped: $product (it is not installed)"
        [ -z "${CI:-}" ] || exit 1
        continue
    fi
    for store in "sessile:$dir/engine" "files:$dir/files"; do
        echo "$product, sessions on ${store%%:*}"
        # shellcheck disable=SC2086 # several words
        "$php" -n bindings/php/integrations/test/client.php "bindings/php/integrations/test/$product.php" "$dir" \
            "include_path=$root/usr/share/php" $extensions "extension=$module" session.save_handler=sessile "session.save_path=$store"
        rm -rf "${dir:?}"/*
    done
done
