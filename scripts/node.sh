#!/bin/sh
# Builds the Node addon, tests or measures it.
#
#   sh scripts/node.sh build    leaves it in bindings/node, as npm install there does
#   sh scripts/node.sh test     bindings/node/test, examples/node, tests of express-session itself
#   sh scripts/node.sh example  opens the shop of examples/node until Ctrl-C (STORE)
#   sh scripts/node.sh bench    measures stores of express-session (ROUNDS CALLS)
#
# SESSILE_PROFILE=debug takes what the Rust tests have built.
set -eu
cd "$(dirname "$0")/.."
top=$PWD

missing=
for program in node npm; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -n "$missing" ]; then
    echo "skipped: the Node addon (not installed:$missing; make deps installs it)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

# The exact versions of what the tests use, and the addon.
build() {
    cd "$top/bindings/node"
    if ! cmp -s package-lock.json node_modules/.installed; then
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
        cp package-lock.json node_modules/.installed
    fi
    node build.js
    # By its name, for examples and tests of types.
    ln -sfn "$top/bindings/node" node_modules/sessile
}

case ${1:-} in
build)
    build
    echo "$top/bindings/node"
    ;;
test)
    build
    NODE_PATH=$top/bindings/node/node_modules node --test test/*.test.js "$top"/examples/node/test/*
    sh "$top/scripts/express_session_tests.sh"
    ;;
example)
    build
    cd "$top/examples/node"
    NODE_PATH=$top/bindings/node/node_modules exec node server.js
    ;;
bench)
    build
    shift
    exec node bench/stores.js "$@"
    ;;
*)
    echo "usage: sh scripts/node.sh build|test|example|bench" >&2
    exit 2
    ;;
esac
