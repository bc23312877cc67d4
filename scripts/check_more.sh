#!/bin/sh
# The parts of `make check` that need a tool which may be missing. What is skipped is said, never silent.
set -eu
cd "$(dirname "$0")/.."

if command -v shellcheck >/dev/null 2>&1; then
    shellcheck scripts/*.sh .ci/run
else
    echo "skipped: shell scripts are not linted (shellcheck is not installed)"
fi

# Type checks for a machine that nobody here runs on. The bundled SQLite makes that need a C compiler for it too.
target=aarch64-unknown-linux-gnu
if ! { rustup target list --installed 2>/dev/null || true; } | grep -qx "$target"; then
    echo "skipped: cargo check for $target (rustup target add $target)"
elif ! command -v aarch64-linux-gnu-gcc >/dev/null 2>&1; then
    echo "skipped: cargo check for $target (no aarch64-linux-gnu-gcc; Debian package gcc-aarch64-linux-gnu)"
else
    cargo check --workspace --target "$target"
fi
