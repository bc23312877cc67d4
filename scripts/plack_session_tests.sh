#!/bin/sh
# Runs tests of Plack::Middleware::Session itself with this store in place of its own:
#
#   plack_session_tests.sh PERL DIRECTORY-OF-THE-BUILD
#
# They come with the authors' archive, which is fetched once, and are skipped where it cannot be
# had. Of its tests those run that use a store: with locks, and merged. The others are about cookies
# and about what its own stores do with files and tables. One looks at a stored session and keeps
# the hash that it got. That holds the session, so the test lets it go before the next request.
set -eu
cd "$(dirname "$0")/.."
perl=$1
build=$2
. scripts/debian_packages.sh
cache=$PWD/target/session-tests

# Not a failure in CI, either: a mirror may have another version, or none, at any time.
skip() {
    echo "skipped: the tests of Plack::Middleware::Session ($1)"
    exit 0
}

"$perl" -MPlack::Middleware::Session -e1 2>/dev/null || skip "it is not installed"
mkdir -p "$cache"
archive=$(echo "$cache"/libplack-middleware-session-perl_*.orig.tar.*z)
if [ ! -f "$archive" ]; then
    fetch_upstream "$cache" libplack-middleware-session-perl || skip "apt-get has no source of it"
    archive=$(echo "$cache"/libplack-middleware-session-perl_*.orig.tar.*z)
fi
unpack_packages "$cache/modules" libtest-fatal-perl libtest-requires-perl ||
    skip "there is no Test::Fatal"

dir=$(mktemp -d /dev/shm/sessile-session-tests-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
tar -xf "$archive" -C "$dir" --strip-components=1
# What is on this machine is tested, and not what is beside the tests.
rm -rf "${dir:?}/lib" "$dir/blib"
tests=
for file in "$dir"/t/*.t; do
    # shellcheck disable=SC2016 # the variables are Perl's
    sed -i 's/Plack::Session::Store::File->new( *dir => $tmp *)/$Test::Sessile::store/
        s/Plack::Session::Store->new/$Test::Sessile::store/
        s/Session->wrap($app)/Session->wrap($app, store => $Test::Sessile::store)/
        s/^ *is $session->{late}, undef.*/& undef $session;/' "$file"
    ! grep -q 'Test::Sessile::store' "$file" || tests="$tests t/${file##*/}"
done
mkdir -p "$dir/with/Test"
cat >"$dir/with/Test/Sessile.pm" <<'END'
package Test::Sessile;
use Plack::Session::Store::Sessile;
our $store = Plack::Session::Store::Sessile->new(
    url => $ENV{SESSILE_TEST_URL}, concurrency => $ENV{SESSILE_TEST_CONCURRENCY});
1;
END
[ -n "$tests" ] || skip "its tests are others now"
export SESSILE_TEST_URL="sessile:$dir/engine"
modules=$build/blib/lib:$build/blib/arch:$dir/with:$cache/modules/root/usr/share/perl5
for concurrency in exclusive merge; do
    # shellcheck disable=SC2016,SC2086 # the variable is Perl's; several files
    (cd "$dir" && PERL5LIB=$modules PERL5OPT=-MTest::Sessile SESSILE_TEST_CONCURRENCY=$concurrency \
        "$perl" -MTest::Harness -e 'runtests(@ARGV)' $tests) >"$dir/log" 2>&1 || {
        cat "$dir/log" >&2
        exit 1
    }
    count=$(sed -n 's/^Files=\([0-9]*\), Tests=\([0-9]*\).*/\2 in \1 files/p' "$dir/log")
    echo "the tests of Plack::Middleware::Session, $concurrency: $count pass"
done
