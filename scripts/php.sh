#!/bin/sh
# Builds the PHP extension for the installed PHP, tests, measures or installs it.
#
#   sh scripts/php.sh build      leaves target/php-release-VERSION/modules/sessile.so
#   sh scripts/php.sh memcheck   builds it with sanitizers and runs bindings/php/tests
#
# After a build:
#
#   sh scripts/php.sh test       bindings/php/tests on several stores, php-fpm, Apache, the switch
#                                from PHP's files, copies, products, examples/php, small benchmarks
#   sh scripts/php.sh live-switch
#                                moves a site between stores under load and times its requests
#                                (VISITORS RATE)
#   sh scripts/php.sh products   checks real products on the store STORE (SETTING=VALUE)
#   sh scripts/php.sh session-tests
#                                runs the tests of PHP's own session extension
#   sh scripts/php.sh example    opens the shop of examples/php until Ctrl-C
#   sh scripts/php.sh bench      compares handlers (ROUNDS CALLS SESSIONS)
#   sh scripts/php.sh gc-bench   measures starts beside garbage collection (ROUNDS CALLS SESSIONS)
#   sh scripts/php.sh install    copies it into PHP's extension directory (root)
#
# PHP_CONFIG names the php-config of another PHP. SESSILE_PROFILE=debug links the library that the
# Rust tests have built. phpize writes into its source directory, hence the copy.
set -eu
cd "$(dirname "$0")/.."
: "${PHP_CONFIG:=php-config}"
top=$PWD
profile=${SESSILE_PROFILE:-release}

command -v "$PHP_CONFIG" >/dev/null 2>&1 || {
    echo "php-config is not installed: on Debian apt-get install php-dev (make deps does it)," \
        "or set PHP_CONFIG" >&2
    exit 1
}
phpize=$(command -v "$PHP_CONFIG" | sed 's/php-config\([^/]*\)$/phpize\1/')
php=$("$PHP_CONFIG" --php-binary)
version=$("$PHP_CONFIG" --version)
# One directory for each PHP and SESSILE_PHP_BUILD: a build would silently use stale headers.
build=$top/target/php-${SESSILE_PHP_BUILD:-$profile}-$version
module=$build/modules/sessile.so

case ${1:-} in
build)
    # With --workspace, dependencies have the same features as in the tests, and are not rebuilt.
    what='--release -p sessile-capi'
    [ "$profile" = release ] || what='--workspace --lib'
    # shellcheck disable=SC2086 # several words
    "${CARGO:-cargo}" build $what ${CI:+--locked} --target-dir target
    mkdir -p "$build/library/include"
    cp crates/capi/include/sessile.h "$build/library/include/"
    ln -sf "$top/target/$profile/libsessile_capi.a" "$build/library/"
    # Deleted tests must not run.
    rm -rf "$build/tests"
    cp -R bindings/php/. "$build/"
    # If it were older than the stub, make would regenerate it with a downloaded program.
    touch "$build/sessile_arginfo.h"
    cd "$build"
    if ! cmp -s config.m4 configured.m4; then
        "$phpize" >/dev/null
        ./configure --quiet --with-php-config="$PHP_CONFIG" --with-sessile="$build/library" \
            CFLAGS="-O2 -g ${SESSILE_CFLAGS:-}"
        cp config.m4 configured.m4
    fi
    if ! make --quiet >make.log 2>&1; then
        cat make.log >&2
        exit 1
    fi
    echo "$module"
    ;;
test)
    sh scripts/php_test.sh "$php" "$build"
    sh scripts/php_fpm_test.sh "$php" "$module" 'sessile:{dir}/engine' 'files:{dir}/files'
    sh scripts/php_apache_test.sh "$php" "$module" 'sessile:{dir}/engine' 'files:{dir}/files'
    sh scripts/php_switch_test.sh "$php" "$module"
    sh scripts/php_move_test.sh "$php" "$module"
    command=target/$profile/sessile
    # With the features of the whole workspace, as the tests in Rust have built it.
    flag=--workspace
    [ "$profile" = debug ] || flag=--release
    "${CARGO:-cargo}" build "$flag" --locked --bin sessile --target-dir target
    sh scripts/php_copy_test.sh "$php" "$module" "$command"
    sh scripts/php_products_test.sh "$php" "$module"
    sh scripts/example_test.sh php "$php" "$module"
    echo "the benchmarks, briefly"
    for program in "cycle.php 2 50 100" "collector.php 2 50 200"; do
        # shellcheck disable=SC2086 # several words
        rows=$(SESSILE_PHP_MODULE=$module "$php" bindings/php/bench/$program) || {
            echo "$rows" >&2
            exit 1
        }
        echo "$rows" | grep 'sessile.* checked'
    done
    ;;
live-switch)
    sh scripts/php_move_test.sh "$php" "$module" "${2:-10000}" "${3:-200}"
    ;;
products)
    sh scripts/php_sites_test.sh "$php" "$module" "${STORE:-}" "${2:-}"
    ;;
session-tests)
    sh scripts/php_session_tests.sh "$php" "$module"
    ;;
memcheck)
    SESSILE_PHP_BUILD=$profile-memcheck \
        SESSILE_CFLAGS="-Werror -fno-omit-frame-pointer -fsanitize=address,undefined" \
        sh scripts/php.sh build
    sh scripts/php_memcheck.sh "$php" "$top/target/php-$profile-memcheck-$version"
    ;;
example)
    sh scripts/example.sh php "$php" "$module"
    ;;
bench)
    shift
    export SESSILE_PHP_MODULE="$module"
    exec "$php" bindings/php/bench/cycle.php "$@"
    ;;
gc-bench)
    shift
    export SESSILE_PHP_MODULE="$module"
    exec "$php" bindings/php/bench/collector.php "$@"
    ;;
install)
    make --quiet -C "$build" install
    echo "add to php.ini: extension=sessile"
    ;;
*)
    echo "usage: sh scripts/php.sh build|test|live-switch|products|session-tests|memcheck|" \
        "example|bench|gc-bench|install" >&2
    exit 2
    ;;
esac
