#!/bin/sh
# Says clearly if a Rust toolchain or a C compiler is missing. Installs nothing; `make deps` can
# install the C compiler.
set -eu

root=$(dirname "$0")/..
failed=0

complain() {
    echo "error: $*" >&2
    failed=1
}

# Cargo.toml holds the oldest Rust.
wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"$/\1/p' "$root/Cargo.toml")

if ! command -v cargo >/dev/null 2>&1; then
    complain "no Rust toolchain: cargo is not in PATH;" \
        "install Rust $wanted or newer from https://rustup.rs"
else
    found=$(cargo --version | sed 's/^cargo \([0-9]*\.[0-9]*\).*/\1/')
    oldest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -t. -k1,1n -k2,2n | head -n 1)
    if [ "$oldest" != "$wanted" ]; then
        complain "Rust $found is too old: $wanted or newer is needed;" \
            "run 'rustup update' or see https://rustup.rs"
    fi
fi

if ! command -v "${CC:-cc}" >/dev/null 2>&1; then
    complain "no C compiler: ${CC:-cc} is not in PATH (it links programs and compiles SQLite);" \
        "on Debian and Ubuntu: apt-get install gcc libc6-dev"
fi

exit "$failed"
