#!/bin/sh
# Lists missing programs that the tests need, and installs them on Debian and Ubuntu.
#
#   sh scripts/deps.sh                       asks first on a terminal, but not in CI and in pipes
#   sh scripts/deps.sh packages              the same for what `make packages` needs
#   SESSILE_NO_INSTALL=1 sh scripts/deps.sh  only lists
#
# The tests start private servers. So a server that is installed here is never started as a service,
# now or at boot; servers that were installed before are left alone. `deps.sh as-root PACKAGE...` is
# the part that runs through sudo.
set -eu

# command or file|packages|reason
needs() {
    cat <<'END'
cc|gcc libc6-dev|links programs and compiles SQLite
redis-server|redis-server|the redis store is tested and measured on private servers
mariadbd|mariadb-server|the mysql store is tested and measured on private servers
/usr/lib/galera/libgalera_smm.so|galera-4|the mysql store is tested on a cluster
rsync|rsync|brings the nodes of that cluster into step
openssl|openssl|makes the certificates of the tests of TLS
ip|iproute2|a network falls apart in a test
postgres|postgresql|the postgres store is tested and measured on private servers
/usr/sbin/pgbouncer|pgbouncer|the postgres store is tested behind it
memcached|memcached|the memcached store is tested and measured on private servers
php|php-cli|the files store is tested beside a real PHP
phpize|php-dev|the PHP extension is built and tested
pkg-config|pkg-config|finds the C interface for the program that tests it
php-fpm|php-fpm|the PHP extension is tested in its workers
nginx|nginx-light|php-fpm is tested behind it
/usr/lib/php/*/memcached.so|php-memcached|is measured by sessile bench rebuild
/usr/lib/php/*/redis.so|php-redis|its sessions are copied and moved, and it is measured
/usr/lib/php/*/pdo_sqlite.so|php-sqlite3|Symfony's handler makes the table that is copied
ab|apache2-utils|makes the requests of sessile bench lifecycle
perl|perl|runs the program of sessile bench perl
/usr/share/perl5/Apache/Session.pm|libapache-session-perl|is measured by sessile bench perl
/usr/lib/*/perl5/*/Cache/FastMmap.pm|libcache-fastmmap-perl|is measured by sessile bench perl
/usr/share/perl5/Cache/SharedMemoryCache.pm|libcache-cache-perl|is measured by sessile bench perl
/usr/share/perl5/Plack.pm|libplack-perl|the shop of examples/perl and the store of Plack are tested
/usr/share/perl5/Plack/Middleware/Session.pm|libplack-middleware-session-perl|its store is tested
/usr/bin/starman|starman|the store of Plack is tested in its workers
/usr/share/perl5/HTTP/Cookies.pm|libhttp-cookies-perl|a visitor of those tests
chromium|chromium|the report of the benchmark is looked at in a browser
python3|python3|the Python package is tested with it
/usr/lib/python3*/ensurepip|python3-venv|its tests have an environment of their own
node|nodejs|drives that browser, and the Node addon is tested with it
npm|npm|installs what drives it, and what the addon is tested with
/usr/lib/apache2/modules/libphp*.so|libapache2-mod-php|the PHP extension is tested in Apache
/usr/share/php/Illuminate/autoload.php|php-laravel-framework php-mbstring|the driver is tested
/usr/share/php/Symfony/Bundle/FrameworkBundle|php-symfony-framework-bundle php-xml|is tested
END
}

# What builds and tries packages, in the same form.
needs_of_packages() {
    cat <<'END'
cc|gcc libc6-dev|links programs and compiles SQLite
git|git|says which sources belong to the commit
objdump|binutils|tells which libraries a package depends on
mmdebstrap|mmdebstrap|makes the chroots of Debian 12 and 13
/usr/share/keyrings/debian-archive-keyring.gpg|debian-archive-keyring|they are signed with it
musl-gcc|musl-tools|compiles and links the static command
python3|python3|builds the wheel
/usr/lib/python3*/ensurepip|python3-venv|what builds the wheel has an environment of its own
node|nodejs|writes the description of the npm package
npm|npm|packs the npm package
END
}

# package:service
services="redis-server:redis-server mariadb-server:mariadb postgresql:postgresql memcached:memcached
    php-fpm:php-fpm nginx-light:nginx pgbouncer:pgbouncer rsync:rsync"

policy=/usr/sbin/policy-rc.d
policy_mark="written by sessile's scripts/deps.sh and removed when it ends"

# main LIST CONSEQUENCE
main() {
    exec 3>&1
    consequence=$2
    packages=$("$1" | missing)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # a list of words
    bring $packages
}

# Installs packages after a question, or prints why not.
bring() {
    echo "Debian packages: $*"
    if [ "${SESSILE_NO_INSTALL:-0}" = 1 ]; then
        leave "SESSILE_NO_INSTALL=1: nothing is installed"
    elif ! command -v apt-get >/dev/null 2>&1; then
        leave "no apt-get here: install what provides these commands with your own package manager"
    elif ! may_install; then
        leave "nothing is installed"
    elif [ "$(id -u)" = 0 ]; then
        sh "$0" as-root "$@"
    elif ! command -v sudo >/dev/null 2>&1; then
        leave "neither root nor sudo: run as root: apt-get install --no-install-recommends $*"
    elif on_terminal; then
        sudo sh "$0" as-root "$@"
    elif ! sudo -n true 2>/dev/null; then
        leave "sudo wants a password and there is no terminal to type it: run this in one"
    else
        sudo -n sh "$0" as-root "$@"
    fi
}

# Prints the packages of a list on standard output, and what they are for on descriptor 3.
missing() {
    while IFS='|' read -r command package reason; do
        if ! found "$command"; then
            echo "missing: $command ($reason)" >&3
            # Debian would enable it in this machine's Apache.
            if [ "$package" = libapache2-mod-php ] && installed apache2; then
                echo "left to you: apt-get install $package" \
                    "(this machine runs Apache, which would load it)" >&3
                continue
            fi
            printf '%s ' "$package"
        fi
    done | sed 's/ $//'
}

# Debian keeps some programs out of users' PATHs, each PostgreSQL version in its own directory, and
# the version in the name of php-fpm.
found() {
    case $1 in
    /*)
        for file in $1; do
            [ -e "$file" ] && return
        done
        return 1
        ;;
    esac
    (PATH=$PATH:/usr/sbin:/usr/local/sbin && command -v "$1") >/dev/null 2>&1 && return
    for program in /usr/lib/postgresql/*/bin/"$1" /usr/sbin/"$1"[0-9]*; do
        [ -x "$program" ] && return
    done
    return 1
}

leave() {
    echo "$1; $consequence"
    exit 0
}

on_terminal() {
    [ -t 0 ] && [ -t 1 ] && [ "${CI:-false}" != true ]
}

may_install() {
    on_terminal || return 0
    printf 'Install them now? [Y/n] '
    read -r answer || answer=n
    case $answer in
        '' | [yY]*) return 0 ;;
        *) return 1 ;;
    esac
}

install_as_root() {
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    # One run at a time: a second one must not lose the policy file that the first one removes.
    exec 9>/run/lock/sessile-deps
    flock -w 600 9 || { echo "error: another installation has run for 10 minutes" >&2; exit 1; }
    fresh=$(fresh_services "$@")
    trap 'forbid_no_more' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    forbid_services
    if ! install_packages "$@"; then
        # The package lists are missing or outdated.
        apt-get update -q
        install_packages "$@"
    fi
    for service in $fresh; do
        retire "$service"
    done
}

install_packages() {
    apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" 9>&-
}

# The services of the given packages that are not installed yet.
fresh_services() {
    for package in "$@"; do
        for service in $services; do
            if [ "${service%:*}" = "$package" ] && ! installed "$package"; then
                echo "${service#*:}"
            fi
        done
    done
}

installed() {
    # Removed packages with configuration are still known to dpkg, hence the exact status.
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# Debian's maintainer scripts ask policy-rc.d before they start a service; 101 means no.
forbid_services() {
    # A marked file is left over from a killed run: this one holds the lock.
    if [ -f "$policy" ] && grep -qF "$policy_mark" "$policy"; then
        rm -f "$policy"
    fi
    # noclobber: an administrator's policy stays unchanged.
    if (set -C && printf '#!/bin/sh\n# %s\nexit 101\n' "$policy_mark" >"$policy") 2>/dev/null; then
        chmod 755 "$policy"
    fi
}

forbid_no_more() {
    if [ -f "$policy" ] && grep -qF "$policy_mark" "$policy"; then
        rm -f "$policy"
    fi
}

# Stops and disables a newly installed service, in case an administrator's policy let it start.
retire() {
    # Debian puts the version in its name. None was installed before, so all are ours.
    if [ "$1" = php-fpm ]; then
        for script in /etc/init.d/php*-fpm; do
            retire "${script##*/}"
        done
        return
    fi
    if [ -d /run/systemd/system ]; then
        systemctl disable --now "$1" >/dev/null 2>&1 || true
    else
        if service "$1" status >/dev/null 2>&1; then
            service "$1" stop >/dev/null 2>&1 || true
        fi
        update-rc.d "$1" disable >/dev/null 2>&1 || true
    fi
    echo "$1 is installed for tests and measurements; its service is stopped and disabled" \
        "(systemctl enable --now $1)"
}

case ${1:-} in
    as-root)
        shift
        install_as_root "$@"
        ;;
    '') main needs "tests that need what is missing are skipped and counted, in CI they fail" ;;
    packages) main needs_of_packages "packages cannot be built without them" ;;
    *)
        echo "error: deps.sh $1 is not known; see its first lines" >&2
        exit 2
        ;;
esac
