#!/bin/sh
# Chroots of Debian for packages; packages.sh, packages_test.sh and valkey.sh source it.
#
# They stay in SESSILE_CHROOTS (default /var/tmp/sessile-packages), which all users must be able
# to read.
# SESSILE_DEBIAN_MIRROR is where Debian comes from; apt's own settings, such as proxies, hold, too.
#
# Mounts and processes of a chroot end with the command that runs in it.

chroots=${SESSILE_CHROOTS:-/var/tmp/sessile-packages}
mirror=${SESSILE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
    echo "failed: $*" >&2
    exit 1
}

# make_chroot DEBIAN PLACE PACKAGES; PLACE is a directory, or a tarball if it ends in .tar.
make_chroot() {
    case $1 in
    12) suite=bookworm ;;
    13) suite=trixie ;;
    *) fail "Debian $1 is not known" ;;
    esac
    [ -e "$keys" ] || fail "$keys is missing; the package debian-archive-keyring has it"
    echo "Debian $1 into $2; messages are in $2.log"
    mkdir -p "$chroots"
    # The proxies of this machine.
    apt-config dump | grep '^Acquire::' >"$chroots/apt.conf"
    made=${2%.tar}.new${2##"${2%.tar}"}
    rm -rf "$made"
    echo "deb [signed-by=$keys] $mirror $suite main" |
        mmdebstrap --variant=minbase --aptopt="$chroots/apt.conf" --include="$3" \
            "$suite" "$made" - >"$2.log" 2>&1 || {
        tail -n 20 "$2.log" >&2
        fail "mmdebstrap failed"
    }
    mv "$made" "$2"
}

# Runs a command in the sources, which are /usr/src/sessile there; SESSILE_TARGET is its target:
# in_chroot DIRECTORY COMMAND...
in_chroot() {
    mkdir -p "$1/usr/src/sessile" target
    # shellcheck disable=SC2016 # the inner shell expands
    unshare --mount --pid --fork --kill-child sh -eu -c 'root=$1
        shift
        mount --bind "$PWD" "$root/usr/src/sessile"
        [ -z "${SESSILE_TARGET:-}" ] ||
            mount --bind "$SESSILE_TARGET" "$root/usr/src/sessile/target"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t proc proc "$root/proc"
        exec chroot "$root" sh -eu -c "cd /usr/src/sessile; exec \"\$@\"" sh "$@"' sh "$@"
}
