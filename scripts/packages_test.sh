#!/bin/sh
# Installs, uses, upgrades and removes the packages of dist/ in clean chroots of Debian 12 and 13.
#
# As root, after `make packages`. The chroots are unpacked from tarballs, which stay in
# SESSILE_CHROOTS (default /var/tmp/sessile-packages); delete them to get newer packages. What
# happens in a chroot is in package_steps.sh.
set -eu
cd "$(dirname "$0")/.."
umask 022
# Where apt must find everything in the chroot itself: nothing but the packages is fetched.
fpm_client=libfcgi-bin
languages="perl,python3-venv,nodejs,npm,gcc,libc6-dev,pkgconf"
install_seconds_max=60
# shellcheck source=scripts/chroots.sh
. scripts/chroots.sh

[ "$(id -u)" = 0 ] || fail "only root can make a chroot"
[ -f dist/SHA256SUMS ] || fail "first: make packages"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"

started=$(date +%s)
mkdir -p "$chroots"
work=$(mktemp -d "$chroots/test-XXXXXX")
# Mounts are private to the commands in the chroots, and end with them.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM

# unpack DEBIAN NAME PACKAGES leaves $work/root
unpack() {
    tarball=$chroots/$2-$1.tar
    [ -f "$tarball" ] || make_chroot "$1" "$tarball" "$3"
    rm -rf --one-file-system "$work/root"
    mkdir "$work/root"
    tar -C "$work/root" -xf "$tarball" --exclude './dev/*'
    # Servers are started by the test.
    printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d"
    chmod 755 "$work/root/usr/sbin/policy-rc.d"
}

step() {
    in_chroot "$work/root" sh scripts/package_steps.sh "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "$*"
    }
    grep '^ok: ' "$work/log" || true
}

rm -rf target/packages/older
sh scripts/packages.sh debs 0.0.9 target/packages/older >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "the packages of an older version cannot be built"
}

for release in 12:8.2 13:8.4; do
    debian=${release%:*} php=${release#*:}
    echo "== Debian $debian"
    unpack "$debian" php "php$php-fpm,$fpm_client"
    begun=$(date +%s%N)
    step two_commands "$php"
    took=$((($(date +%s%N) - begun) / 1000000))
    echo "ok: from php-fpm to a session on the engine in $took ms: two commands and a restart"
    [ "$took" -lt $((install_seconds_max * 1000)) ] || fail "longer than $install_seconds_max s"
    unpack "$debian" languages "php$php-fpm,$fpm_client,$languages"
    step life "$debian" "$php"
done
echo "every package installed, used, upgraded and removed in $(($(date +%s) - started)) s"
