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

extern zend_module_entry sessile_module_entry;
#define phpext_sessile_ptr &sessile_module_entry

/* Log messages that wait for the end of a library call; see log.c. Further ones are counted. */
#define SESSILE_LOG_LINES_MAX 4

struct sessile_log {
	unsigned int lines;
	unsigned int lost;
	sessile_level levels[SESSILE_LOG_LINES_MAX];
	char texts[SESSILE_LOG_LINES_MAX][SESSILE_MESSAGE_BYTES];
};

ZEND_BEGIN_MODULE_GLOBALS(sessile)
	/* From php.ini. */
	double lock_wait;
	char *on_lock_timeout;
	double grace;
	double absolute_lifetime;
	zend_long payload_limit;
	bool hashed_ids;
	bool read_only;
	bool lazy_start;
	bool touch_unlocked;
	bool logs;

	/* The store of the last session, one of `stores`. */
	sessile_store *store;
	sessile_open_stores *stores;
	/* The redacted PS(save_path), and whether PHP has printed it before it closes. */
	char shown[SESSILE_MESSAGE_BYTES];
	bool printed;

	/* The session of this request. */
	sessile_request *request;
	struct sessile_log log;
ZEND_END_MODULE_GLOBALS(sessile)

ZEND_EXTERN_MODULE_GLOBALS(sessile)
#define SESSILE_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(sessile, v)

#if defined(ZTS) && defined(COMPILE_DL_SESSILE)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* handler.c */
extern const ps_module sessile_ps_module;

/* path.c */
void sessile_watch_path(void);
void sessile_unwatch_path(void);
zend_result sessile_fail(void);
void sessile_restore_path(void);

/* running_call.c */
typedef enum {
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
void sessile_log_start(void);
void sessile_log_drop(const char *text);
void sessile_log_write(void);

/* cookie.c */
void sessile_withdraw_cookie(const zend_string *id);

#endif
