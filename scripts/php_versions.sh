#!/bin/sh
# Builds the PHP extension for other versions of PHP and tests it there: php_versions.sh VERSION...
#
# Each PHP is the package of a Debian or Ubuntu release, in a chroot that mmdebstrap makes. The
# library is built here, the extension in the chroot. Chroots stay in SESSILE_CHROOTS (default
# /var/tmp/sessile-php); delete them to get newer packages. Only root can do this.
set -eu
cd "$(dirname "$0")/.."
chroots=${SESSILE_CHROOTS:-/var/tmp/sessile-php}
profile=${SESSILE_PROFILE:-release}
keys=/usr/share/keyrings
debian="[signed-by=$keys/debian-archive-keyring.gpg] http://deb.debian.org/debian"
ubuntu="[signed-by=$keys/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu"

fail() {
    echo "$*" >&2
    exit 1
}

# Sets the suite and its sources.
choose_release() {
    case $1 in
    8.1) suite=jammy sources="deb $ubuntu jammy main universe" ;;
    8.3) suite=noble sources="deb $ubuntu noble main universe" ;;
    8.4) suite=trixie sources="deb $debian trixie main" ;;
    8.5 | 8.6)
        suite=sid sources="deb $debian sid main
deb $debian experimental main"
        ;;
    *) fail "no Debian or Ubuntu release is known to have PHP $1" ;;
    esac
    case $sources in
    *"$ubuntu"*) file=ubuntu-archive-keyring.gpg package=ubuntu-keyring ;;
    *) file=debian-archive-keyring.gpg package=debian-archive-keyring ;;
    esac
    [ -e "$keys/$file" ] || fail "$keys/$file is missing; the package $package has it"
}

# make_chroot VERSION DIRECTORY
make_chroot() {
    choose_release "$1"
    echo "PHP $1 comes from $suite into $2; messages are in $2.log"
    rm -rf "$2.new"
    # The proxies of this machine.
    apt-config dump | grep '^Acquire::' >"$2.conf"
    if ! echo "$sources" | mmdebstrap --variant=minbase --aptopt="$2.conf" \
        --include="php$1-cli,php$1-dev,php$1-fpm,gcc,libc6-dev,make,nginx,redis-server" \
        "$suite" "$2.new" - >"$2.log" 2>&1; then
        tail -n 20 "$2.log" >&2
        fail "mmdebstrap failed"
    fi
    mv "$2.new" "$2"
}

# Mounts are private to the command: none is left behind. in_chroot DIRECTORY COMMAND...
in_chroot() {
    mkdir -p "$1$PWD"
    # shellcheck disable=SC2016 # the inner shell expands
    unshare --mount sh -eu -c 'root=$1
        shift
        mount --bind "$PWD" "$root$PWD"
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        exec chroot "$root" sh -eu -c "cd \"\$0\"; exec \"\$@\"" "$PWD" "$@"' sh "$@"
}

[ $# -gt 0 ] || fail "usage: sh scripts/php_versions.sh 8.1|8.3|8.4|8.5|8.6 ..."
[ "$(id -u)" = 0 ] || fail "only root can make a chroot"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
mkdir -p -m 700 "$chroots"
release=
[ "$profile" = debug ] || release=--release
"${CARGO:-cargo}" build $release -p sessile-capi --target-dir target
for version in "$@"; do
    root=$chroots/$version
    [ -d "$root" ] || make_chroot "$version" "$root"
    # CARGO: the library is built.
    module=$(in_chroot "$root" env CARGO=true PHP_CONFIG="php-config$version" \
        SESSILE_PROFILE="$profile" SESSILE_CFLAGS=-Werror sh scripts/php.sh build)
    php=/usr/bin/php$version
    in_chroot "$root" sh scripts/php_test.sh "$php" "${module%/modules/*}"
    in_chroot "$root" sh scripts/php_fpm_test.sh "$php" "$module" 'sessile:{dir}/engine'
done
