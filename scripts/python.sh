#!/bin/sh
# Builds the Python package in an environment of its own, tests or measures it.
#
#   sh scripts/python.sh build    leaves the environment target/python-release with the package
#   sh scripts/python.sh test     bindings/python/tests, types, tests of Flask-Session itself, and
#                                 examples/python
#   sh scripts/python.sh example  opens the shop of examples/python until Ctrl-C (STORE, PORT)
#   sh scripts/python.sh bench    measures sessions of Django and Flask beside others (ROUNDS CALLS)
#
# PYTHON names another python3. SESSILE_PROFILE=debug takes what the Rust tests have built.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
profile=${SESSILE_PROFILE:-release}
python=${PYTHON:-python3}
environment=$top/target/python-$profile
requirements=bindings/python/requirements.txt

build() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null || {
        echo "$python cannot make environments: on Debian apt-get install python3-venv" \
            "(make deps does it)" >&2
        exit 1
    }
    [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    # The exact versions, maturin among them.
    if ! cmp -s "$requirements" "$environment/requirements.txt"; then
        "$environment/bin/pip" install --quiet --requirement "$requirements"
        cp "$requirements" "$environment/requirements.txt"
    fi
    cargo_profile=$profile
    [ "$profile" = release ] || cargo_profile=dev
    # Cargo knows what has changed; pip does not.
    PATH=$environment/bin:$PATH MATURIN_PEP517_ARGS="--profile $cargo_profile ${CI:+--locked}" \
        "$environment/bin/pip" install --quiet --force-reinstall --no-deps --no-build-isolation \
        bindings/python
}

# Django's own tests are in its sources only.
django_source() {
    version=$(sed -n 's/^Django==//p' "$requirements")
    source=$top/target/django-$version
    if [ ! -d "$source/tests" ]; then
        rm -rf "$source.new"
        mkdir -p "$source.new"
        "$environment/bin/pip" download --quiet --no-deps --no-binary Django \
            --dest "$source.new" "Django==$version"
        tar -xzf "$source.new"/*.tar.gz -C "$source.new" --strip-components=1
        mv "$source.new" "$source"
    fi
    echo "$source"
}

case ${1:-} in
build)
    build
    echo "$environment"
    ;;
test)
    build
    cd bindings/python
    # Outside of the sources, so that the installed package is what is tested.
    PYTHONDONTWRITEBYTECODE=1 DJANGO_SOURCE=$(cd "$top" && django_source) \
        "$environment/bin/python" -m pytest -q tests
    "$environment/bin/mypy" --cache-dir "$environment/mypy"
    sh "$top/scripts/flask_session_tests.sh" "$environment"
    cd "$top/examples/python"
    PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" -m pytest -q -p no:cacheprovider tests
    ;;
example)
    build
    cd examples/python
    exec "$environment/bin/python" run.py
    ;;
bench)
    build
    shift
    exec "$environment/bin/python" bindings/python/bench/frameworks.py "$@"
    ;;
*)
    echo "usage: sh scripts/python.sh build|test|example|bench" >&2
    exit 2
    ;;
esac
