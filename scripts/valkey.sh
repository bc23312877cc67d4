#!/bin/sh
# The conformance suite on Valkey, which Debian has from 13 on: on one server, on a cluster and
# behind sentinels. Run by `make valkey`, as root, because it makes a chroot.
#
# The programs are built here and run there. Nothing called redis-server is there, so that each
# server is Valkey.
set -eu
cd "$(dirname "$0")/.."

# shellcheck source=scripts/chroots.sh
. scripts/chroots.sh

[ "$(id -u)" = 0 ] || fail "only root can make a chroot"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"

place=$chroots/valkey
[ -d "$place" ] || make_chroot 13 "$place" valkey-server,valkey-tools,openssl
# The programs know the tools by these names, and their own places by absolute paths.
ln -sf valkey-cli "$place/usr/bin/redis-cli"
mkdir -p "$place${PWD%/*}"
ln -sfn /usr/src/sessile "$place$PWD"
cp /etc/hosts "$place/etc/hosts"

# A test that cannot run here has failed.
export CI=true
# test_on_valkey CRATE TEST ARGUMENTS...
test_on_valkey() {
    crate=$1 name=$2
    shift 2
    said=$("${CARGO:-cargo}" test --locked -p "$crate" --test "$name" --no-run 2>&1) ||
        fail "$said"
    program=$(echo "$said" | sed -n 's/.*Executable.*(\(.*\))/\1/p')
    in_chroot "$place" "$program" "$@"
}

in_chroot "$place" valkey-server --version
test_on_valkey sessile-testkit conformance redis
test_on_valkey sessile-stores redis_hosts --test-threads=1 --skip measure
