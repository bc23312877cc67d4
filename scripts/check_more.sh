#!/bin/sh
# The parts of `make check` whose tools may be missing. Skipped parts are printed.
set -eu
cd "$(dirname "$0")/.."

if command -v shellcheck >/dev/null 2>&1; then
    shellcheck scripts/*.sh .ci/run
else
    echo "skipped: shell scripts are not linted (shellcheck is not installed)"
fi

# Type checks for another architecture. The bundled SQLite needs a C compiler for it.
target=aarch64-unknown-linux-gnu
if ! { rustup target list --installed 2>/dev/null || true; } | grep -qx "$target"; then
    echo "skipped: cargo check for $target (rustup target add $target)"
elif ! command -v aarch64-linux-gnu-gcc >/dev/null 2>&1; then
    echo "skipped: cargo check for $target (Debian package gcc-aarch64-linux-gnu is missing)"
else
    cargo check --workspace --target "$target"
fi
