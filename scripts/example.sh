#!/bin/sh
# Opens the shop of examples/php or examples/perl until Ctrl-C:
# example.sh php PHP MODULE | perl PERL DIRECTORY-OF-THE-BUILD
#
# PHP's shop runs in PHP's web server, without the machine's PHP configuration; Perl's in Starman.
# STORE is the store URL; by default sessions are in memory and end with the shop.
set -eu
usage() {
    echo "usage: example.sh php PHP MODULE | perl PERL DIRECTORY-OF-THE-BUILD" >&2
    exit 2
}

[ $# -eq 3 ] || usage
language=$1
program=$2
built=$3
case $language in
php | perl) cd "$(dirname "$0")/../examples/$language" ;;
*) usage ;;
esac

# `free_port` prints one from 8080 on, `answers PORT` waits for the server, `serve PORT` becomes it.
# shellcheck disable=SC2016 # the variables are those of PHP and Perl
case $language in
php)
    export SESSILE_EXTENSION="$built" PHP_INI_SCAN_DIR='' PHP_CLI_SERVER_WORKERS=8
    free_port() {
        "$program" -n -r 'for ($port = 8080; $port < 8180; $port++) {
            if (@stream_socket_server("tcp://127.0.0.1:$port")) { echo $port; exit(0); }
        }
        exit(1);'
    }
    answers() {
        "$program" -n -r 'for ($i = 0; $i < 100; $i++) {
            if (@stream_socket_client("tcp://127.0.0.1:$argv[1]")) { exit(0); }
            usleep(50_000);
        }
        exit(1);' "$1"
    }
    serve() {
        exec setsid "$program" -q -c php.ini -S "127.0.0.1:$1" -t public
    }
    ;;
perl)
    for module in Starman Plack::Middleware::Session; do
        "$program" -M"$module" -e1 2>/dev/null || {
            echo "$module is not installed (Debian: starman, libplack-middleware-session-perl)" >&2
            exit 1
        }
    done
    free_port() {
        "$program" -MIO::Socket::INET -e 'for my $port (8080 .. 8179) {
            my $free = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:$port");
            if ($free) { print $port; exit }
        }
        exit 1'
    }
    answers() {
        "$program" -MIO::Socket::INET -e 'for (1 .. 100) {
            exit if IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]");
            select undef, undef, undef, 0.05;
        }
        exit 1' "$1"
    }
    serve() {
        exec setsid "$program" -I"$built/blib/lib" -I"$built/blib/arch" -S starman \
            --preload-app --workers 8 --listen "127.0.0.1:$1" --log-level 0 shop.psgi
    }
    ;;
esac

dir=
server=
end() {
    # The whole group: the first process of a server does not always end its workers.
    [ -z "$server" ] || kill -- "-$server" 2>/dev/null || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    [ -z "$dir" ] || rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

fail() {
    echo "$1" >&2
    exit 1
}

if [ -z "${STORE:-}" ]; then
    dir=$(mktemp -d /dev/shm/sessile-example-XXXXXX)
    STORE=sessile:$dir/sessions
    place="in $dir"
else
    # Not the whole URL, which may have a password.
    place="on ${STORE%%:*}"
fi
export STORE

port=$(free_port) || fail "no port from 8080 to 8179 is free"
serve "$port" &
server=$!
answers "$port" || fail "the web server does not answer"

echo "The shop is open: http://127.0.0.1:$port (sessions $place; Ctrl-C closes it)"
wait "$server"
