dnl How phpize builds the extension. `make php` at the top of the repository calls it.
PHP_ARG_WITH([sessile],
  [for the sessile session handler],
  [AS_HELP_STRING([--with-sessile=DIR],
    [The sessile session handler; DIR has include/sessile.h and libsessile_capi.a])])

if test "$PHP_SESSILE" != "no"; then
  if test ! -f "$PHP_SESSILE/include/sessile.h" || test ! -f "$PHP_SESSILE/libsessile_capi.a"; then
    AC_MSG_ERROR([--with-sessile=DIR: DIR must have include/sessile.h and libsessile_capi.a; run `make php` at the top of the Sessile repository])
  fi
  PHP_ADD_INCLUDE([$PHP_SESSILE/include])
  dnl The archive and what it needs. Its symbols stay inside: another extension may bring its own copy.
  SESSILE_SHARED_LIBADD="$PHP_SESSILE/libsessile_capi.a -Wl,--exclude-libs,libsessile_capi.a -Wl,--gc-sections -lpthread -ldl -lm"
  PHP_SUBST([SESSILE_SHARED_LIBADD])
  PHP_NEW_EXTENSION([sessile], [sessile.c handler.c running_call.c store.c path.c process.c cookie.c], [$ext_shared],,
    [-Wall -Wextra -Wno-unused-parameter -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1])
  PHP_ADD_EXTENSION_DEP(sessile, session)
fi
