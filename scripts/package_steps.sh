#!/bin/sh
# What packages_test.sh does in a chroot: package_steps.sh two_commands PHP | life DEBIAN PHP
#
# Runs as root in a chroot that is thrown away. Prints what holds as lines that begin with `ok: `.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
older=target/packages/older
store=/var/lib/sessile/php

fail() {
    echo "failed: $*" >&2
    exit 1
}

debs_of() {
    find "$1" -name 'sessile_*.deb' -o -name 'libsessile*-1_*.deb' -o \
        -name "libsessile-perl_*+deb$debian*.deb" -o -name "php$php-sessile_*.deb" | sort |
        sed 's#^#./#'
}

install() {
    apt-get -qq -y -o APT::Sandbox::User=root --no-install-recommends install "$@"
}

start_fpm() {
    mkdir -p /run/php /srv
    cp packaging/test/page.php /srv/page.php
    "php-fpm$php" -D
}

stop_fpm() {
    kill "$(cat "/run/php/php$php-fpm.pid")"
    for _ in $(seq 100); do
        [ -e "/run/php/php$php-fpm.sock" ] || return 0
        sleep 0.1
    done
    fail "php-fpm does not end"
}

# One request with the cookie of $visitor, which it sets: prints "count handler".
request() {
    SCRIPT_FILENAME=/srv/page.php REQUEST_METHOD=GET HTTP_COOKIE=${visitor:+PHPSESSID=$visitor} \
        cgi-fcgi -bind -connect "/run/php/php$php-fpm.sock" >/tmp/answer
    new=$(sed -n 's/^Set-Cookie: PHPSESSID=\([^;]*\).*/\1/p' /tmp/answer)
    visitor=${new:-${visitor:-}}
    answer=$(tr -d '\r' </tmp/answer | sed '1,/^$/d')
}

expect() {
    request
    [ "$answer" = "$1" ] || fail "php-fpm says '$answer' instead of '$1': $2"
}

# In an order as on a site that runs: php-fpm is there, and is restarted as after each change of
# PHP's settings.
two_commands() {
    start_fpm
    expect '1 files' 'before the first command'
    install "./dist/php$php-sessile_"*.deb
    phpenmod -s fpm sessile-sessions
    stop_fpm
    start_fpm
    visitor=
    expect '1 sessile' 'the first request'
    expect '2 sessile' 'the second request'
    [ -f "$store/format" ] || fail "there is no store in $store"
    stop_fpm
}

# Everything that belongs to the system, by name; not what each run of apt and dpkg writes.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /usr/src/sessile \
        -o -path /tmp -o -path /root -o -path /srv -o -path /run -o -path /var/log \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \) -prune -o -print | sort
}

version_of_command() {
    # shellcheck disable=SC2016 # dpkg-query expands
    dpkg-query -W -f '${Version}' sessile
}

life() {
    files >/tmp/before
    # shellcheck disable=SC2046 # several words
    install $(debs_of "$older")
    [ "$(version_of_command)" = 0.0.9-1 ] || fail "the older version is not there"
    start_fpm
    expect '1 files' 'the module alone must not change the handler'
    phpenmod -s fpm sessile-sessions
    stop_fpm
    start_fpm
    visitor=
    expect '1 sessile' 'the first session'
    # shellcheck disable=SC2046 # several words
    install $(debs_of dist)
    [ "$(version_of_command)" != 0.0.9-1 ] || fail "nothing was upgraded"
    expect '2 sessile' 'a session after the upgrade, in old workers'
    meet_another_version
    stop_fpm
    start_fpm
    expect '3 sessile' 'a session after the upgrade, in new workers'
    echo "ok: php$php-sessile: sessions live through an upgrade from 0.0.9 with another format"
    restarted_by_dpkg
    use_command
    use_perl
    use_library
    use_wheel
    use_npm
    use_static
    remove
}

# An upgrade may bring another format of what lies in /dev/shm. The older version is the same
# program here, so its number of the format is written over.
meet_another_version() {
    control=$(sed -n 's/^control //p' "$store/plane")/control
    printf '\001\0\0\0\0\0\0\0' | dd of="$control" bs=1 seek=8 conv=notrunc status=none
    ! runuser -u www-data -- sessile stat "sessile:$store" >/tmp/told 2>&1 ||
        fail "a command of another version uses the store beside old workers"
    grep 'another version of Sessile uses this store' /tmp/told |
        grep -q 'processes ([0-9, ]*) have it open' ||
        fail "no word of the old workers: $(cat /tmp/told)"
}

# The trigger of the module's package, while the policy of the chroot allows services.
restarted_by_dpkg() {
    before=$(cat "/run/php/php$php-fpm.pid")
    sed -i 's/^exit 101$/exit 0/' /usr/sbin/policy-rc.d
    install --reinstall "./dist/php$php-sessile_"*.deb
    sed -i 's/^exit 0$/exit 101/' /usr/sbin/policy-rc.d
    [ "$(cat "/run/php/php$php-fpm.pid")" != "$before" ] || fail "dpkg did not restart php-fpm"
    expect '4 sessile' 'after a restart by dpkg'
    echo "ok: php$php-sessile: dpkg restarts php-fpm"
}

use_command() {
    runuser -u www-data -- sessile stat "sessile:$store" --json | grep -q '"sessions"' ||
        fail "sessile stat"
    sessile completion bash | cmp - /usr/share/bash-completion/completions/sessile ||
        fail "the completion is another one"
    for page in sessile sessile-gc; do
        [ -f "/usr/share/man/man1/$page.1.gz" ] || fail "no manual of $page"
    done
    # The units are of a timer and a service that exist.
    grep -q '^ExecStart=/usr/bin/sessile gc' /usr/lib/systemd/system/sessile-gc@.service
    grep -q '^OnCalendar=' /usr/lib/systemd/system/sessile-gc@.timer
    mkdir -p /etc/sessile
    echo "STORE=sessile:$store" >/etc/sessile/php.conf
    # As systemd would run it.
    # shellcheck disable=SC1091,SC2153 # the file sets STORE
    (. /etc/sessile/php.conf && runuser -u www-data -- /usr/bin/sessile gc "$STORE") ||
        fail "the command of the timer"
    rm -r /etc/sessile
    echo "ok: sessile: stat, gc, completion, manual"
}

use_perl() {
    perl -MSessile -e 'my $s = Sessile->new("memory:", expires => 60); my $id = Sessile::new_id();
        my $one = $s->begin($id); $one->commit("cart");
        my $two = $s->begin($id); print $two->payload; $two->release' | grep -qx cart ||
        fail "the Perl module"
    echo "ok: libsessile-perl: a session"
}

use_library() {
    # shellcheck disable=SC2046 # several words
    cc -o /tmp/program crates/capi/tests/program.c $(pkg-config --cflags --libs sessile)
    /tmp/program || fail "a program with libsessile1"
    # shellcheck disable=SC2046 # several words
    cc -static-libgcc -o /tmp/program crates/capi/tests/program.c -l:libsessile.a \
        $(pkg-config --static --cflags --libs sessile | sed 's/-lsessile//')
    /tmp/program || fail "a program with libsessile.a"
    ! objdump -p /tmp/program | grep -q libsessile || fail "the program is not static"
    echo "ok: libsessile1, libsessile-dev: programs in C"
}

use_wheel() {
    python3 -m venv /tmp/python
    /tmp/python/bin/pip install --quiet --no-index --disable-pip-version-check dist/*.whl
    /tmp/python/bin/python packaging/test/session.py || fail "the wheel"
    echo "ok: the wheel: a session"
}

use_npm() {
    mkdir -p /tmp/node
    archive=$PWD/$(echo dist/sessile-node-*.tgz)
    (cd /tmp/node && npm install --silent --offline --no-audit --no-fund "$archive")
    cp packaging/test/session.js /tmp/node/
    (cd /tmp/node && node session.js) || fail "the npm package"
    echo "ok: the npm package: a session"
}

use_static() {
    for archive in dist/*-static.tar.gz; do
        [ -f "$archive" ] || return 0
        tar -C /tmp -xzf "$archive"
        runuser -u www-data -- /tmp/sessile-*/sessile stat "sessile:$store" >/dev/null ||
            fail "the static command"
        echo "ok: the static command: stat"
    done
}

# Removal leaves settings and sessions, purge only sessions, and both say so.
remove() {
    packages="sessile libsessile1 libsessile-dev libsessile-perl php$php-sessile"
    # shellcheck disable=SC2086 # several words
    dpkg -L $packages | sort -u | while read -r file; do
        [ ! -f "$file" ] || echo "$file"
    done >/tmp/installed
    # shellcheck disable=SC2086 # several words
    apt-get -qq -y remove $packages >/tmp/told 2>&1
    grep -q 'handler takes over' /tmp/told || fail "removal does not say who keeps sessions now"
    while read -r file; do
        case $file in
        /etc/php/*/mods-available/*) [ -f "$file" ] || fail "removal took the settings in $file" ;;
        *) [ ! -e "$file" ] || fail "removal left $file" ;;
        esac
    done </tmp/installed
    stop_fpm
    start_fpm
    visitor=
    expect '1 files' 'after the removal'
    stop_fpm
    # shellcheck disable=SC2086 # several words
    dpkg --purge $packages >/tmp/told 2>&1
    grep -q 'sessions in /var/lib/sessile stay' /tmp/told ||
        fail "purge does not say what it leaves"
    files >/tmp/after
    left=$(comm -13 /tmp/before /tmp/after |
        grep -v '^/var/lib/sessile\|^/var/lib/php/sessions/' || true)
    [ -z "$left" ] || fail "purge left: $left"
    gone=$(comm -23 /tmp/before /tmp/after)
    [ -z "$gone" ] || fail "purge took: $gone"
    [ -f "$store/format" ] || fail "purge took the sessions"
    echo "ok: removed and purged: only the sessions in /var/lib/sessile are left"
}

case $1 in
two_commands)
    php=$2
    two_commands
    ;;
life)
    debian=$2 php=$3
    life
    ;;
*) fail "package_steps.sh two_commands PHP | life DEBIAN PHP" ;;
esac
