#!/bin/sh
# Installs the C interface: capi.sh install PREFIX. DESTDIR is a directory that stands for the root,
# LIBDIR the directory of libraries if it is not PREFIX/lib, SESSILE_TARGET that of cargo's builds.
#
# Leaves PREFIX/include/sessile.h, PREFIX/lib/libsessile.a, PREFIX/lib/libsessile.so.N and
# PREFIX/lib/pkgconfig/sessile.pc; N is SESSILE_ABI. `capi.sh test` installs it into a temporary
# directory and runs a C program with it. SESSILE_PROFILE=debug takes the library that the Rust
# tests have built.
set -eu
cd "$(dirname "$0")/.."
profile=${SESSILE_PROFILE:-release}
header=crates/capi/include/sessile.h
target=${SESSILE_TARGET:-target}
archive=$target/$profile/libsessile_capi.a
abi=$(sed -n 's/^#define SESSILE_ABI //p' "$header")
# What the archive needs.
needed='-lpthread -ldl -lm'

install_library() {
    prefix=$1
    root=${DESTDIR:-}$prefix
    libdir=${LIBDIR:-$prefix/lib}
    libraries=${DESTDIR:-}$libdir
    if [ "$profile" = release ]; then
        "${CARGO:-cargo}" build --release ${CI:+--locked} -p sessile-capi --target-dir "$target"
    fi
    mkdir -p "$root/include" "$libraries/pkgconfig"
    cp "$header" "$root/include/"
    cp "$archive" "$libraries/libsessile.a"
    # From the archive, so that both are the same code. Only the functions of the header are seen.
    printf '{ global: sessile_*; local: *; };\n' >"$libraries/sessile.map"
    # shellcheck disable=SC2086 # several words
    cc -shared -o "$libraries/libsessile.so.$abi" -Wl,-soname,"libsessile.so.$abi" \
        -Wl,--version-script="$libraries/sessile.map" -Wl,--gc-sections \
        -Wl,--whole-archive "$archive" -Wl,--no-whole-archive $needed
    rm "$libraries/sessile.map"
    ln -sf "libsessile.so.$abi" "$libraries/libsessile.so"
    # Below the prefix, which pkg-config can move.
    in_prefix="\${prefix}${libdir#"$prefix"}"
    cat >"$libraries/pkgconfig/sessile.pc" <<END
prefix=$prefix
Name: sessile
Description: Session stores for web applications, by URL
Version: $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
Cflags: -I\${prefix}/include
Libs: -L$in_prefix -lsessile
Libs.private: $needed
END
}

fail() {
    echo "failed: $1" >&2
    exit 1
}

# Builds and runs crates/capi/tests/program.c as a user of the installed library does.
test_library() {
    dir=$(mktemp -d /var/tmp/sessile-capi-XXXXXX)
    trap 'rm -rf "$dir"' EXIT
    trap 'trap "" HUP; exit 130' HUP INT TERM
    install_library "$dir/usr"
    export PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig"
    program=crates/capi/tests/program.c
    # shellcheck disable=SC2046 # several words
    cc -Wall -Wextra -Werror -o "$dir/shared" "$program" $(pkg-config --cflags --libs sessile)
    LD_LIBRARY_PATH=$dir/usr/lib "$dir/shared" || fail 'the program with the shared library'
    readelf -d "$dir/shared" | grep -q "NEEDED.*\[libsessile.so.$abi\]" ||
        fail "the program does not ask for libsessile.so.$abi"
    ! nm -D --defined-only "$dir/usr/lib/libsessile.so" | grep -v ' sessile_' ||
        fail 'the shared library shows these symbols'
    rm "$dir/usr/lib/libsessile.so"*
    # shellcheck disable=SC2046 # several words
    cc -o "$dir/static" "$program" $(pkg-config --static --cflags --libs sessile)
    "$dir/static" || fail 'the program with the archive'
    # A library of another version is refused before it is used.
    sed "s/^#define SESSILE_ABI .*/#define SESSILE_ABI 0/" "$header" >"$dir/usr/include/sessile.h"
    # shellcheck disable=SC2046 # several words
    cc -o "$dir/other" "$program" $(pkg-config --static --cflags --libs sessile)
    ! "$dir/other" 2>/dev/null || fail 'a program for another version runs'
    echo "the C interface: shared and static, by pkg-config"
}

case ${1:-} in
install)
    [ $# -eq 2 ] || fail 'capi.sh install PREFIX'
    install_library "$2"
    ;;
test) test_library ;;
*)
    echo "usage: sh scripts/capi.sh install PREFIX | test" >&2
    exit 2
    ;;
esac
