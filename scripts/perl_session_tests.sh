#!/bin/sh
# Runs tests of Apache::Session itself with this store in place of its files:
#
#   perl_session_tests.sh PERL DIRECTORY-OF-THE-BUILD
#
# They come with Debian's source package, which is fetched once, and are skipped where it cannot be
# had. Of its tests for files those of the tied hash, of Flex and of a store are run; the others are
# about its own files of locks.
set -eu
cd "$(dirname "$0")/.."
perl=$1
build=$2
. scripts/debian_packages.sh
cache=$PWD/target/perl-session-tests

skip() {
    echo "skipped: the tests of Apache::Session ($1)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

mkdir -p "$cache"
archive=$(echo "$cache"/*.orig.tar.*z)
if [ ! -f "$archive" ]; then
    fetch_source "$cache" libapache-session-perl || skip "apt-get has no source of it"
    archive=$(echo "$cache"/*.orig.tar.*z)
fi
unpack_packages "$cache/modules" libtest-deep-perl libtest-exception-perl ||
    skip "there is no Test::Deep"

dir=$(mktemp -d /dev/shm/sessile-session-tests-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
tar -xf "$archive" -C "$dir" --strip-components=1
# What is on this machine is tested, and not what is beside the tests.
rm -rf "$dir/lib" "$dir/Session" "$dir/blib"
sed 's/Apache::Session::File/Apache::Session::Sessile/
    s/Directory *=> .\..,/Directory => Cwd::getcwd,/' "$dir/t/99file.t" >"$dir/t/tied.t"
sed "s/=> 'File'/=> 'Sessile'/; s/::File'/::Sessile'/
    s/Directory *=> \\\$tempdir/Directory => Cwd::abs_path(\$tempdir)/
    s/\\\$session->{lock_manager}->clean.*//" "$dir/t/99flex.t" >"$dir/t/flex.t"
# Where it looks at its file, the store is asked.
# shellcheck disable=SC2016 # the variables are Perl's
sed 's/Apache::Session::Store::File/Apache::Session::Store::Sessile/
    s/.*::Directory = .*/my $url = $Apache::Session::Sessile::Url = "sessile:" . getcwd;/
    s/-e "\.\/test1"/defined Sessile->shared($url)->peek("test1")/
    s/open (TEST, .*/open TEST, "<", \\(Sessile->shared($url)->peek("test1"));/' \
    "$dir/t/99filestore.t" >"$dir/t/store.t"
grep -q "package = 'Apache::Session::Sessile'" "$dir/t/tied.t" &&
    grep -q "Store *=> 'Sessile'" "$dir/t/flex.t" &&
    [ "$(grep -c 'peek("test1")' "$dir/t/store.t")" = 4 ] || skip "its tests are others now"
(cd "$dir" && "$perl" -I"$build/blib/lib" -I"$build/blib/arch" \
    -I"$cache/modules/root/usr/share/perl5" -MTest::Harness -e 'runtests(@ARGV)' \
    t/tied.t t/flex.t t/store.t) >"$dir/log" 2>&1 || {
    cat "$dir/log" >&2
    exit 1
}
count=$(sed -n 's/^Files=\([0-9]*\), Tests=\([0-9]*\).*/\2 in \1 files/p' "$dir/log")
echo "the tests of Apache::Session: $count pass"
