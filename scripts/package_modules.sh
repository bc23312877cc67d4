#!/bin/sh
# Builds the modules of PHP and Perl for the Debian in which it runs: package_modules.sh PHP_VERSION
#
# packages.sh calls it in a chroot, with the library in target/release. Leaves in target/modules
# sessile.so, perl/ with the files to install, and `facts`, which the packages depend on.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/target/modules
rm -rf "$out"
mkdir -p "$out/perl"
export CARGO=true PHP_CONFIG="php-config$1"

module=$(sh scripts/php.sh build)
cp "$module" "$out/sessile.so"
strip --strip-unneeded "$out/sessile.so"

built=$(sh scripts/perl.sh build)
make -s -C "$built" pure_install INSTALLDIRS=vendor DESTDIR="$out/perl" >"$out/log"
find "$out/perl" \( -name .packlist -o -name perllocal.pod \) -delete
find "$out/perl" -name Sessile.so -exec chmod u+w {} + -exec strip --strip-unneeded {} +
find "$out/perl" -type d -empty -delete
chmod -R u=rwX,go=rX "$out/perl"

# shellcheck disable=SC2016 # Perl expands
cat >"$out/facts" <<END
PHP_API=phpapi-$("$PHP_CONFIG" --phpapi)
PHP_EXTENSION_DIR=$("$PHP_CONFIG" --extension-dir)
PERL_API=perlapi-$(perl -MConfig -e 'print $Config{debian_abi} // $Config{version}')
PERL_VERSION=$(perl -e 'printf "%vd", $^V')
END
