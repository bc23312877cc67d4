dnl The floor of `make php-bench`. Not for sites: it forgets everything with its process.
PHP_ARG_ENABLE([session_floor],
  [whether to build the floor of the session benchmark],
  [AS_HELP_STRING([--enable-session_floor], [Build the floor of the session benchmark])])

if test "$PHP_SESSION_FLOOR" != "no"; then
  PHP_NEW_EXTENSION([session_floor], [session_floor.c], [$ext_shared],, [-Wall -Wextra -Wno-unused-parameter])
  PHP_ADD_EXTENSION_DEP(session_floor, session)
fi
