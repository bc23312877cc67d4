#!/bin/sh
# 8 clients count on one session in web servers: perl_servers_test.sh PERL DIRECTORY-OF-THE-BUILD
#
# Starman with 8 workers; mod_perl with processes and with threads, in an Apache of its own, which
# is fetched once and not installed.
set -eu
cd "$(dirname "$0")/.."
perl=$1
build=$2
. scripts/debian_packages.sh
cache=$PWD/target/perl-apache
dir=$(mktemp -d /dev/shm/sessile-perl-servers-XXXXXX)
server=
end() {
    [ -z "$server" ] || kill -- "-$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

skip() {
    echo "skipped: $1"
    [ -z "${CI:-}" ] || exit 1
}

stop() {
    kill "$server" 2>/dev/null || true
    wait "$server" || true
    server=
}

# The pages that are asked for first go wrong in their own ways: count_in NAME PAGE...
count_in() {
    printf '%s: ' "$1"
    shift
    "$perl" "$build/server/clients.pl" "$port" 1000 "$@" || {
        tail -n 20 "$dir/log" >&2
        exit 1
    }
}

# shellcheck disable=SC2016 # the variable is Perl's
port=$("$perl" -MIO::Socket::INET -e \
    'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport')
export STORE="sessile:$dir/starman"

if "$perl" -MStarman -MPlack::Middleware::Session -e1 2>/dev/null; then
    (cd "$build" && exec setsid "$perl" -Mblib server/starman.pl "$port") >"$dir/log" 2>&1 &
    server=$!
    count_in 'Starman, 8 workers' killed dies
    stop
else
    skip "Starman (starman or libplack-middleware-session-perl is not installed)"
fi

unpack_packages "$cache" apache2-bin libapache2-mod-perl2 || {
    skip "mod_perl (it cannot be fetched)"
    exit 0
}
modules=$cache/root/usr/lib/apache2/modules
user=
if [ "$(id -u)" = 0 ]; then
    user="User nobody
Group $(id -gn nobody)"
    chown nobody "$dir"
fi
for kind in prefork worker; do
    export STORE="sessile:$dir/$kind"
    cat >"$dir/apache.conf" <<END
ServerRoot $dir
ServerName localhost
Listen 127.0.0.1:$port
PidFile $dir/apache.pid
ErrorLog $dir/log
Mutex file:$dir default
$user
LoadModule mpm_${kind}_module $modules/mod_mpm_$kind.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule perl_module $modules/mod_perl.so
StartServers $([ "$kind" = prefork ] && echo 8 || echo 2)
MaxRequestWorkers 8
$([ "$kind" = prefork ] || printf 'ThreadsPerChild 4\n')
PerlPassEnv STORE
PerlSwitches -I$build/blib/lib -I$build/blib/arch -I$build/server $(
        for place in "$cache"/root/usr/lib/*/perl5/*/; do printf -- '-I%s ' "${place%/}"; done)
PerlModule ModPerlCount
SetHandler modperl
PerlResponseHandler ModPerlCount
END
    LD_LIBRARY_PATH=$(echo "$cache"/root/usr/lib/*-linux-gnu) \
        setsid "$cache/root/usr/sbin/apache2" -f "$dir/apache.conf" -D FOREGROUND &
    server=$!
    # As with Apache::Session, the end of the hash stores what a request that dies has counted.
    count_in "mod_perl, $kind" counts_and_dies
    stop
done
