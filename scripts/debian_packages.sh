#!/bin/sh
# Fetches Debian packages into a private directory, without installing them and without root;
# php_session_tests.sh and php_test_products.sh source it.

# Unpacks packages with those of their dependencies that this machine lacks, once:
# unpack_packages DIRECTORY PACKAGE... leaves DIRECTORY/root.
unpack_packages() {
    [ ! -f "$1/unpacked" ] || return 0
    command -v apt-get >/dev/null 2>&1 || return 1
    place=$(mkdir -p "$1/cache/archives/partial" && cd "$1" && pwd)
    shift
    # With a package that is only half installed apt-get fetches nothing.
    awk -v RS= -v ORS='\n\n' '/\nStatus: install ok installed\n/' /var/lib/dpkg/status \
        >"$place/status" || return 1
    apt-get -qq -y -o Debug::NoLocking=1 -o Dir::Cache="$place/cache" \
        -o Dir::State::status="$place/status" -o APT::Sandbox::User= \
        --no-install-recommends --download-only --reinstall install "$@" \
        >"$place/apt.log" 2>&1 || return 1
    rm -rf "$place/root"
    for package in "$place"/cache/archives/*.deb; do
        dpkg -x "$package" "$place/root" || return 1
    done
    : >"$place/unpacked"
}

# Fetches the archives of a source package: fetch_source DIRECTORY PACKAGE
#
# Machines rarely list sources, so the lists are private copies that do. A mirror may lack the
# sources of the newest version; then an older one is taken.
fetch_source() {
    command -v apt-get >/dev/null 2>&1 || return 1
    lists=$(mkdir -p "$1/apt/sources" "$1/apt/lists/partial" && cd "$1/apt" && pwd)
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file" >"$lists/sources/${file##*/}"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" \
            >"$lists/sources/${file##*/}"
    done
    mv -f "$lists/sources/sources.list" "$lists/sources/main.list" 2>/dev/null || true
    fetch_from_lists "$1" "$2"
}

# Fetches the archive of the authors alone, of the newest version in Debian, on Debian:
# fetch_upstream DIRECTORY PACKAGE
fetch_upstream() {
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keys" ] && command -v apt-get >/dev/null 2>&1 || return 1
    # shellcheck disable=SC2016 # the variables are those of apt-get
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Identifier: Packages' |
        awk '$1 !~ /-/ { print $2; exit }')
    lists=$(mkdir -p "$1/apt/sources" "$1/apt/lists/partial" && cd "$1/apt" && pwd)
    echo "deb-src [signed-by=$keys] $mirror sid main" >"$lists/sources/sid.list"
    fetch_from_lists "$1" "$2" --tar-only
}

# fetch_from_lists DIRECTORY PACKAGE [OPTION], with the lists that one of those above names.
fetch_from_lists() {
    with="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$lists/sources
        -o Dir::State::lists=$lists/lists -o Dir::Cache=$lists/cache -o APT::Sandbox::User="
    # shellcheck disable=SC2086 # several words
    apt-get -qq $with update >"$lists/log" 2>&1 || return 1
    # shellcheck disable=SC2086 # several words
    for release in $(apt-cache $with showsrc "$2" | sed -n 's/^Version: //p' | sort -rVu); do
        if (cd "$1" && apt-get -qq $with --download-only ${3:-} source "$2=$release" \
            >>"$lists/log" 2>&1); then
            return
        fi
    done
    return 1
}
