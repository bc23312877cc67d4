#!/bin/sh
# Builds the PHP extension against the installed PHP, tests it, or installs it.
#
#   sh scripts/php.sh build     leaves target/php-release-VERSION/modules/sessile.so
#   sh scripts/php.sh test      after a build: bindings/php/tests on several stores, under php-fpm and Apache, with products, examples/php
#                               and small benchmarks
#   sh scripts/php.sh memcheck  builds it with sanitizers and runs bindings/php/tests
#   sh scripts/php.sh example   opens the shop of examples/php until Ctrl-C, after a build
#   sh scripts/php.sh bench     measures it beside other handlers, after a build (SESSIONS ROUNDS SECONDS HANDLER...)
#   sh scripts/php.sh gc-bench  measures what garbage collection does to its starts and to those of others, after a build
#   sh scripts/php.sh footprint what the extension adds to the start and the memory of a process, after a build
#   sh scripts/php.sh install   copies it into PHP's directory of extensions (root)
#
# PHP_CONFIG names the php-config of another PHP; SESSILE_PROFILE=debug links the library that the tests of Rust use, which
# is there already after them. phpize writes into the directory that it works on, so a copy is used.
set -eu
cd "$(dirname "$0")/.."
: "${PHP_CONFIG:=php-config}"
top=$PWD
profile=${SESSILE_PROFILE:-release}

command -v "$PHP_CONFIG" >/dev/null 2>&1 || {
    echo "php-config is not installed: on Debian apt-get install php-dev (make deps does it), or set PHP_CONFIG" >&2
    exit 1
}
phpize=$(command -v "$PHP_CONFIG" | sed 's/php-config\([^/]*\)$/phpize\1/')
# One directory for each PHP and for each SESSILE_PHP_BUILD: headers of another one would be built against without a word.
build=$top/target/php-${SESSILE_PHP_BUILD:-$profile}-$("$PHP_CONFIG" --version)

case ${1:-} in
build)
    # The features of dependencies are those of the packages that are built: with all of them they are as in the tests.
    what='--release -p sessile-capi'
    [ "$profile" = release ] || what='--workspace --lib'
    # shellcheck disable=SC2086 # several words
    "${CARGO:-cargo}" build $what ${CI:+--locked} --target-dir target
    mkdir -p "$build/library/include"
    cp crates/capi/include/sessile.h "$build/library/include/"
    ln -sf "$top/target/$profile/libsessile_capi.a" "$build/library/"
    # Without a test that there is no more.
    rm -rf "$build/tests"
    cp -R bindings/php/. "$build/"
    # Older than the stub, make would write it anew, by a program that loads another from the network.
    touch "$build/sessile_arginfo.h"
    cd "$build"
    if ! cmp -s config.m4 configured.m4; then
        "$phpize" >/dev/null
        ./configure --quiet --with-php-config="$PHP_CONFIG" --with-sessile="$build/library" CFLAGS="-O2 -g ${SESSILE_CFLAGS:-}"
        cp config.m4 configured.m4
    fi
    if ! make --quiet >make.log 2>&1; then
        cat make.log >&2
        exit 1
    fi
    echo "$build/modules/sessile.so"
    ;;
test)
    sh scripts/php_test.sh "$("$PHP_CONFIG" --php-binary)" "$build"
    sh scripts/php_fpm_test.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so" 'sessile:{dir}/engine' 'files:{dir}/files'
    sh scripts/php_apache_test.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so" 'sessile:{dir}/engine' 'files:{dir}/files'
    sh scripts/php_products_test.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so"
    sh scripts/php_example_test.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so"
    sh scripts/php_bench_test.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so"
    ;;
memcheck)
    SESSILE_PHP_BUILD=$profile-memcheck SESSILE_CFLAGS="-Werror -fno-omit-frame-pointer -fsanitize=address,undefined" sh scripts/php.sh build
    sh scripts/php_memcheck.sh "$("$PHP_CONFIG" --php-binary)" "$top/target/php-$profile-memcheck-$("$PHP_CONFIG" --version)"
    ;;
example)
    sh scripts/php_example.sh "$("$PHP_CONFIG" --php-binary)" "$build/modules/sessile.so"
    ;;
bench)
    shift
    sh scripts/php_bench.sh change "$build/modules/sessile.so" "$@"
    ;;
gc-bench)
    shift
    sh scripts/php_bench.sh gc "$build/modules/sessile.so" "$@"
    ;;
footprint)
    place=$(mktemp -d /dev/shm/sessile-php-footprint-XXXXXX)
    trap 'rm -rf "$place"' EXIT
    trap 'trap "" HUP; exit 130' HUP INT TERM
    "$("$PHP_CONFIG" --php-binary)" -n bindings/php/bench/footprint.php "$build/modules/sessile.so" "$place"
    ;;
install)
    make --quiet -C "$build" install
    echo "add to php.ini: extension=sessile"
    ;;
*)
    echo "usage: sh scripts/php.sh build|test|memcheck|example|bench|gc-bench|footprint|install" >&2
    exit 2
    ;;
esac
