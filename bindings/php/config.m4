dnl How phpize builds the extension. `make php` at the top of the repository calls it with the library that it has built;
dnl anybody else, such as PIE, gets the library from cargo.
PHP_ARG_WITH([sessile],
  [for the sessile session handler],
  [AS_HELP_STRING([[--with-sessile[=DIR]]],
    [The sessile session handler; DIR has include/sessile.h and libsessile_capi.a. Without it cargo builds them])])

if test "$PHP_SESSILE" != "no"; then
  if test "$PHP_SESSILE" = "yes"; then
    SESSILE_TOP=$(cd "PHP_EXT_SRCDIR([sessile])/../.." && pwd)
    if test ! -f "$SESSILE_TOP/crates/capi/Cargo.toml"; then
      AC_MSG_ERROR([the library is built from the Sessile repository, and this directory is not in it (no $SESSILE_TOP/crates/capi); run this in bindings/php there, or give --with-sessile=DIR a directory with include/sessile.h and libsessile_capi.a])
    fi
    dnl It says what is missing; autoconf has found a C compiler itself.
    if ! CC="$(set -- $CC; echo "$1")" sh "$SESSILE_TOP/scripts/toolchain.sh"; then
      AC_MSG_ERROR([without Rust the library cannot be built; or give --with-sessile=DIR a directory with include/sessile.h and libsessile_capi.a that were built elsewhere])
    fi
    AC_MSG_NOTICE([cargo builds the library, which takes minutes the first time])
    SESSILE_TARGET="${CARGO_TARGET_DIR:-$SESSILE_TOP/target}"
    dnl Here and not in make: `make install` may run as root, who has no cargo.
    if ! (cd "$SESSILE_TOP" && "${CARGO:-cargo}" build --release --locked -p sessile-capi --target-dir "$SESSILE_TARGET"); then
      AC_MSG_ERROR([cargo cannot build the library; its message stands before this])
    fi
    SESSILE_INCLUDE="$SESSILE_TOP/crates/capi/include"
    SESSILE_ARCHIVE="$SESSILE_TARGET/release/libsessile_capi.a"
  else
    SESSILE_INCLUDE="$PHP_SESSILE/include"
    SESSILE_ARCHIVE="$PHP_SESSILE/libsessile_capi.a"
  fi
  if test ! -f "$SESSILE_INCLUDE/sessile.h" || test ! -f "$SESSILE_ARCHIVE"; then
    AC_MSG_ERROR([--with-sessile=DIR: DIR must have include/sessile.h and libsessile_capi.a; leave the option out, or run `make php` at the top of the Sessile repository])
  fi
  PHP_ADD_INCLUDE([$SESSILE_INCLUDE])
  dnl The archive and what it needs. Its symbols stay inside: another extension may bring its own copy.
  SESSILE_SHARED_LIBADD="$SESSILE_ARCHIVE -Wl,--exclude-libs,libsessile_capi.a -Wl,--gc-sections -lpthread -ldl -lm"
  PHP_SUBST([SESSILE_SHARED_LIBADD])
  dnl A newer archive is linked anew.
  SESSILE_SHARED_DEPENDENCIES="$SESSILE_ARCHIVE"
  PHP_SUBST([SESSILE_SHARED_DEPENDENCIES])
  PHP_NEW_EXTENSION([sessile], [sessile.c handler.c running_call.c path.c cookie.c values.c log.c], [$ext_shared],,
    [-Wall -Wextra -Wno-unused-parameter -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1])
  PHP_ADD_EXTENSION_DEP(sessile, session)
fi
