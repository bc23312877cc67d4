#!/bin/sh
# Tests that visitors stay logged in between PHP's handler `files` and sessile on one directory:
# php_switch_test.sh PHP MODULE
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d /dev/shm/sessile-switch-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

# The directory as Debian has it: root's, and PHP runs as a user who cannot list it.
as_user=
if [ "$(id -u)" = 0 ]; then
    as_user="setpriv --reuid nobody --clear-groups --"
    chmod 755 "$dir"
fi
cp -R bindings/php/switching "$dir/pages"
cp "$2" "$dir/sessile.so"
chmod -R a+rX "$dir"

# try DEPTH LIFETIME
try() {
    echo "PHP's files and sessile on one directory of depth $1, lifetime $2 s"
    mkdir -m 1733 "$dir/sessions"
    if [ -z "$as_user" ]; then
        chmod 1700 "$dir/sessions"
    fi
    if [ "$1" = 1 ]; then
        for digit in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
            $as_user mkdir -m 700 "$dir/sessions/$digit"
        done
    fi
    # shellcheck disable=SC2086 # several words
    "$php" -n "$dir/pages/client.php" "$dir/sessile.so" "$dir/sessions" "$1" "$2" $as_user
    rm -r "$dir/sessions"
}

php=$1
try 0 1440
try 1 7200
