#!/bin/sh
# Opens the shop of examples/perl in Starman until Ctrl-C:
# perl_example.sh PERL DIRECTORY-OF-THE-BUILD
#
# STORE is the store URL; by default sessions are in memory and end with the shop.
set -eu
cd "$(dirname "$0")/../examples/perl"
perl=$1
build=$2
for module in Starman Plack::Middleware::Session; do
    "$perl" -M"$module" -e1 2>/dev/null || {
        echo "$module is not installed (Debian: starman, libplack-middleware-session-perl)" >&2
        exit 1
    }
done

dir=
server=
end() {
    # The whole group: its workers, too.
    [ -z "$server" ] || kill -- "-$server" 2>/dev/null || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    [ -z "$dir" ] || rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

if [ -z "${STORE:-}" ]; then
    dir=$(mktemp -d /dev/shm/sessile-example-XXXXXX)
    STORE=sessile:$dir/sessions
    place="in $dir"
else
    # Not the whole URL, which may have a password.
    place="on ${STORE%%:*}"
fi
export STORE

# shellcheck disable=SC2016 # the variables are Perl's
port=$("$perl" -MIO::Socket::INET -e 'for my $port (8080 .. 8179) {
    if (IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:$port")) { print $port; exit }
}
die "no port from 8080 to 8179 is free\n"')
setsid "$perl" -I"$build/blib/lib" -I"$build/blib/arch" -S starman --preload-app --workers 8 \
    --listen "127.0.0.1:$port" --log-level 0 shop.psgi &
server=$!
# shellcheck disable=SC2016
"$perl" -MIO::Socket::INET -e 'for (1 .. 100) {
    exit if IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]");
    select undef, undef, undef, 0.05;
}
die "Starman does not answer\n"' "$port"

echo "The shop is open: http://127.0.0.1:$port (sessions $place; Ctrl-C closes it)"
wait "$server"
