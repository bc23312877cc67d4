#!/bin/sh
# Runs the tests of PHP's own session extension with `files` and with this handler:
#
#   php_session_tests.sh PHP MODULE
#
# They come with Debian's source package of PHP, which is fetched once, and are skipped where it
# cannot be had. A test that names `files` as its handler gets this handler, and a test without a
# path gets an engine. bindings/php/SESSION_TESTS.md lists the tests that pass with `files` alone;
# the run fails if that is not true.
set -eu
cd "$(dirname "$0")/.."
php=$1
module=$2
. scripts/debian_packages.sh
list=bindings/php/SESSION_TESTS.md
cache=$PWD/target/php-session-tests
version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
source=$cache/php$version

skip() {
    echo "skipped: the tests of PHP's session extension ($1)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

mkdir -p "$source"
archive=$(echo "$source"/*.orig.tar.*z)
if [ ! -f "$archive" ]; then
    fetch_source "$source" "php$version" || skip "apt-get has no source package php$version"
    archive=$(echo "$source"/*.orig.tar.*z)
fi
cgi=$(command -v "php-cgi$version" || true)
if [ -z "$cgi" ]; then
    unpack_packages "$source/cgi" "php$version-cgi" || skip "there is no php-cgi$version"
    cgi=$source/cgi/root/usr/bin/php-cgi$version
fi

dir=$(mktemp -d /dev/shm/sessile-session-tests-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
# One test looks for php-cgi beside PHP.
mkdir "$dir/bin"
ln -s "$(command -v "$php")" "$dir/bin/php"
ln -s "$cgi" "$dir/bin/php-cgi"

# Runs the tests with the settings, and lists their results: run NAME SETTING...
run() {
    name=$1
    shift
    (cd "$dir/$name" && NO_INTERACTION=1 TEST_PHP_EXECUTABLE="$dir/bin/php" \
        TEST_PHP_CGI_EXECUTABLE="$dir/bin/php-cgi" "$php" -n run-tests.php -n -q -j2 --no-color \
        -p "$dir/bin/php" "$@" -W "$dir/$name.txt" ext/session/tests) >"$dir/$name.log" 2>&1 || true
    [ -s "$dir/$name.txt" ] || {
        cat "$dir/$name.log" >&2
        exit 1
    }
}

passed() {
    awk '$1 == "PASSED" { sub(".*/", "", $2); print $2 }' "$dir/$1.txt" | sort
}

# Two tests expect that /blah is missing, which a test of root would make.
for name in files sessile; do
    mkdir "$dir/$name" "$dir/$name-sessions"
    tar -xf "$archive" -C "$dir/$name" --strip-components=1 --wildcards \
        '*/run-tests.php' '*/ext/session/tests' '*/sapi/cgi/tests/include.inc'
    sed -i -e 's|"/blah"|"/proc/blah"|' -e 's|string(5) "/proc|string(10) "/proc|' \
        "$dir/$name"/ext/session/tests/session_save_path_variation*.phpt
done
find "$dir/sessile/ext/session/tests" -name '*.phpt' -exec sed -i -E \
    -e 's/^(session\.save_handler *= *)"?files"?/\1sessile/' \
    -e '/^session\.save_path *= *$/d' {} +

run files -d "session.save_path=$dir/files-sessions"
run sessile -d "extension=$module" -d session.save_handler=sessile \
    -d "session.save_path=$dir/sessile-sessions"
passed files >"$dir/with-files"
passed sessile >"$dir/with-sessile"
comm -23 "$dir/with-files" "$dir/with-sessile" >"$dir/missing"
comm -12 "$dir/with-files" "$dir/with-sessile" >"$dir/both"
grep -oE '\<[A-Za-z0-9_]+\.phpt' "$list" | sort >"$dir/listed"

archive=${archive##*/}
echo "the tests of PHP's session extension, from ${archive%.orig.*}"
echo "$(wc -l <"$dir/with-files") pass with files, $(wc -l <"$dir/both") of these with sessile"
awk -F' *\\| *' '/^\| `/ { tests[$3] = tests[$3] " " $2 }
    END { for (cause in tests) print cause ":" tests[cause] }' "$list" | tr -d '`' | sort
comm -13 "$dir/missing" "$dir/listed" | sed 's/^/passes, though it is listed: /'
comm -23 "$dir/missing" "$dir/listed" | while read -r test; do
    echo "failed: $test"
    cat "$dir/sessile/ext/session/tests/${test%.phpt}.diff"
    echo
done
[ -z "$(comm -3 "$dir/missing" "$dir/listed")" ]
