#!/bin/sh
# The Perl modules: perl.sh build | test | session-tests | bench | example
#
# `build` leaves them in target/perl-PROFILE and prints that directory. SESSILE_PROFILE=debug takes
# the library that the Rust tests have built. PERL names another perl.
set -eu
cd "$(dirname "$0")/.."
profile=${SESSILE_PROFILE:-release}
build=$PWD/target/perl-$profile
perl=${PERL:-perl}

build_modules() {
    if [ "$profile" = release ]; then
        "${CARGO:-cargo}" build --release ${CI:+--locked} -p sessile-capi --target-dir target >&2
    elif [ ! -f "target/$profile/libsessile_capi.a" ]; then
        "${CARGO:-cargo}" build ${CI:+--locked} -p sessile-capi --target-dir target >&2
    fi
    mkdir -p "$build"
    # What is gone in the source must not stay here.
    rm -rf "$build/lib" "$build/t" "$build/spec" "$build/blib/lib"
    cp -R bindings/perl/. "$build/"
    (
        cd "$build"
        "$perl" Makefile.PL SESSILE_LIB="../$profile" \
            ${SESSILE_CFLAGS:+OPTIMIZE="-O1 $SESSILE_CFLAGS"}
        # The module has the archive in it.
        [ ! -f blib/arch/auto/Sessile/Sessile.so ] ||
            [ ! "../$profile/libsessile_capi.a" -nt blib/arch/auto/Sessile/Sessile.so ] ||
            rm -f blib/arch/auto/Sessile/Sessile.so
        make
    ) >"$build/log" 2>&1 || {
        cat "$build/log" >&2
        exit 1
    }
}

case ${1:-} in
build)
    build_modules
    echo "$build"
    ;;
test)
    build_modules
    sh scripts/perl_test.sh "$perl" "$build"
    ;;
session-tests)
    build_modules
    sh scripts/perl_session_tests.sh "$perl" "$build"
    sh scripts/plack_session_tests.sh "$perl" "$build"
    ;;
bench)
    build_modules
    shift
    exec "$perl" -I"$build/blib/lib" -I"$build/blib/arch" bindings/perl/bench/loop.pl "$@"
    ;;
example)
    build_modules
    sh scripts/example.sh perl "$perl" "$build"
    ;;
*)
    echo "usage: sh scripts/perl.sh build | test | session-tests | bench | example" >&2
    exit 2
    ;;
esac
