/* State of a thread and functions shared by the files of the extension. */

#ifndef PHP_SESSILE_H
#define PHP_SESSILE_H

/* First: it defines COMPILE_DL_SESSILE, which macros of thread-safe builds need. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif

#include "php.h"
#include "ext/session/php_session.h"
#include "sessile.h"

#define PHP_SESSILE_VERSION "0.1.0"

/* PHP's session has zend_strings where it had their bytes: PS(save_path) and PS(session_name) since
 * PHP 8.5, the argument save_path since 8.6.
 */
#if PHP_VERSION_ID >= 80500
# define SESSILE_FROM_STRING(string) (string)
# define SESSILE_CHARS(setting) ZSTR_VAL(setting)
#else
# define SESSILE_FROM_STRING(string) ZSTR_VAL(string)
# define SESSILE_CHARS(setting) (setting)
#endif
#if PHP_VERSION_ID >= 80600
# define SESSILE_ARGUMENT(argument) ZSTR_VAL(argument)
#else
# define SESSILE_ARGUMENT(argument) (argument)
#endif

extern zend_module_entry sessile_module_entry;
#define phpext_sessile_ptr &sessile_module_entry

ZEND_BEGIN_MODULE_GLOBALS(sessile)
	/* From php.ini. The rules are those of our settings; handler.c adds the rest. */
	sessile_rules rules;
	zend_long payload_limit;
	bool hashed_ids;
	bool read_only;
	bool logs;

	/* The store of the last session, one of `stores`. */
	sessile_store *store;
	sessile_open_stores *stores;
	/* The redacted text in PS(save_path), and whether PHP has printed it before it closes. */
	zend_string *shown;
	bool printed;
	/* The session was ended, and PHP goes on with its data under a new id: nothing is saved. */
	bool logged_out;
	/* max_execution_time, found once in this thread. */
	const zend_ini_entry *time_limit;

	/* The session of this request. */
	sessile_request *request;
ZEND_END_MODULE_GLOBALS(sessile)

ZEND_EXTERN_MODULE_GLOBALS(sessile)
#define SESSILE_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(sessile, v)

#if defined(ZTS) && defined(COMPILE_DL_SESSILE)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* handler.c */
extern const ps_module sessile_ps_module;
bool sessile_is_handler(void);

/* path.c */
void sessile_watch_path(void);
void sessile_unwatch_path(void);
zend_result sessile_fail(void);
void sessile_restore_path(void);
const char *sessile_given_path(const char *path);

/* running_call.c */
typedef enum {
	/* None: the application calls SessionHandler, or PHP begins or ends the request. */
	SESSILE_CALL_NONE,
	SESSILE_CALL_OTHER,
	/* session_start() with read_and_close. */
	SESSILE_CALL_READS,
	/* session_regenerate_id(), which keeps or deletes the old session. */
	SESSILE_CALL_REGENERATES,
	SESSILE_CALL_REPLACES,
	/* session_create_id(). */
	SESSILE_CALL_MAKES_ID,
	/* session_gc(). */
	SESSILE_CALL_COLLECTS,
} sessile_call;

sessile_call sessile_running_call(void);

/* values.c */
bool sessile_is_empty(void);
bool sessile_is_torn(const zend_string *text);

/* log.c */
void sessile_warn(const sessile_error *error);
void sessile_log_write(void);

/* cookie.c */
void sessile_withdraw_cookie(const zend_string *id);

#endif
