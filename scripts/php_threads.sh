#!/bin/sh
# Builds a thread-safe PHP from Debian's source package, and tests the extension with it: first
# bindings/php/tests, then bindings/php/threads: php_threads.sh [REQUESTS]
#
# REQUESTS is for each mode, default 1000000. The memory may grow by 1 MB after the first tenth.
set -eu
cd "$(dirname "$0")/.."
requests=${1:-1000000}
profile=${SESSILE_PROFILE:-release}
threads=4
. scripts/debian_packages.sh
place=$PWD/target/php-threads
prefix=$place/installed

fail() {
    echo "$*" >&2
    exit 1
}

if [ ! -x "$prefix/bin/php-config" ]; then
    mkdir -p "$place/source"
    package=php$(php -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    fetch_source "$place" "$package" || fail "apt-get has no source package $package"
    tar -xf "$place"/*.orig.tar.*z -C "$place/source" --strip-components=1
    echo "building a thread-safe $package; messages are in $place/log"
    (cd "$place/source" && ./configure --prefix="$prefix" --disable-all --enable-zts \
        --enable-session --enable-pcntl --enable-posix --enable-embed --disable-cgi \
        --disable-phpdbg && make && make install) >"$place/log" 2>&1 || {
        tail -n 20 "$place/log" >&2
        exit 1
    }
fi

export PHP_CONFIG="$prefix/bin/php-config" SESSILE_PHP_BUILD="$profile-threads"
module=$(SESSILE_CFLAGS=-Werror sh scripts/php.sh build | tail -n 1)
sh scripts/php_test.sh "$prefix/bin/php" "${module%/modules/*}"

# shellcheck disable=SC2046 # several words
${CC:-cc} -O2 -g -Wall $("$PHP_CONFIG" --includes) -o "$place/threads" \
    bindings/php/threads/threads.c -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lphp -lpthread
dir=$(mktemp -d /dev/shm/sessile-threads-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
for mode in requests worker; do
    echo "$threads threads, mode $mode"
    "$place/threads" "$module" "sessile:$dir/$mode" "$PWD/bindings/php/threads/requests.php" \
        $threads $((requests / threads)) $mode >"$dir/out" || fail "it ended with $?"
    cat "$dir/out"
    ! grep -qvE '^[0-9]+ requests: [0-9]+ kB$' "$dir/out" || fail "a request has found a fault"
    awk '{ kb[NR] = $3 } END { exit NR != 2 || kb[2] > kb[1] + 1024 }' "$dir/out" ||
        fail "the memory grows"
    # Each tenth request has counted in the session that the threads share.
    count=$("$prefix/bin/php" -n -d "extension=$module" -d session.save_handler=sessile \
        -d "session.save_path=sessile:$dir/$mode" \
        -r 'session_id(md5("all")); session_start(); echo $_SESSION["count"];')
    [ "$count" = $((threads * ((requests / threads + 9) / 10))) ] ||
        fail "the shared session has counted $count requests"
done
