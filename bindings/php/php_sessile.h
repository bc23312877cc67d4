/* What the files of the extension share: the state of one thread, and the functions between the files. */

#ifndef PHP_SESSILE_H
#define PHP_SESSILE_H

/* First: it says whether the extension is loaded at run time, on which the macros of thread-safe builds depend. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif

#include "php.h"
#include "ext/session/php_session.h"
#include "sessile.h"

#define PHP_SESSILE_VERSION "0.1.0"

extern zend_module_entry sessile_module_entry;
#define phpext_sessile_ptr &sessile_module_entry

/* Lines for the log that wait for the end of a call of the library; see log.c. What comes beyond is counted. */
#define SESSILE_LOG_LINES_MAX 4

struct sessile_log {
	unsigned int lines;
	unsigned int lost;
	sessile_level levels[SESSILE_LOG_LINES_MAX];
	char texts[SESSILE_LOG_LINES_MAX][SESSILE_MESSAGE_BYTES];
};

/* How many stores a thread keeps open. Each is a few files, mappings or connections. */
#define SESSILE_STORES_MAX 8

struct sessile_opened {
	sessile_store *store;
	char *url;
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
	bool logs;

	/* The store of the last session, one of those that are kept from request to request. */
	sessile_store *store;
	struct sessile_opened stores[SESSILE_STORES_MAX];
	/* What PS(save_path) is while PHP may print it; whether PHP has done so when it closes. */
	char shown[SESSILE_MESSAGE_BYTES];
	bool printed;

	/* The session of this request. `key` is the id that PHP knows it by; the lease may have followed it elsewhere. */
	sessile_lease *lease;
	zend_string *key;
	/* The process that began, as sessile_forks() tells them apart: a forked child has neither this lease nor anything to save. */
	uint32_t owner;
	/* PHP does not have what was read yet: a fatal error on the way (memory_limit) must not store an empty session. */
	bool reading;
	/* What was read; its payload is here only between validate_sid and read. */
	sessile_record record;
	/* Set by validate_sid: read need not ask the store again, because it has begun, or failed for this reason. */
	bool validated;
	bool failed;
	sessile_error error;
	/* Read without the lock. `original` is then what it was, as far as there was something. */
	bool unlocked;
	zend_string *original;
	/* session_regenerate_id(false) has closed the session and not read it again: the lease waits for its new id. */
	bool moving;
	/* The last id that we made: its cookie is ours to withdraw. */
	zend_string *created;
	struct sessile_log log;
ZEND_END_MODULE_GLOBALS(sessile)

ZEND_EXTERN_MODULE_GLOBALS(sessile)
#define SESSILE_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(sessile, v)

#if defined(ZTS) && defined(COMPILE_DL_SESSILE)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* handler.c */
extern const ps_module sessile_ps_module;
void sessile_forget_session(void);

/* store.c */
bool sessile_open_path(const char *save_path);
void sessile_close_stores(zend_sessile_globals *globals);
void sessile_warn(const sessile_error *error);

/* process.c */
bool sessile_watch_forks(void);
uint32_t sessile_forks(void);

/* path.c */
void sessile_watch_path(void);
void sessile_unwatch_path(void);
zend_result sessile_fail(void);
void sessile_restore_path(void);

/* running_call.c */
bool sessile_call_reads_and_closes(void);
bool sessile_call_regenerates_and_keeps(void);
bool sessile_call_regenerates(void);
bool sessile_call_only_makes_an_id(void);
bool sessile_call_collects(void);

/* values.c */
bool sessile_is_empty(void);
bool sessile_is_torn(const zend_string *text);
void sessile_warn_torn(void);

/* log.c */
void sessile_log_start(void);
void sessile_log_drop(const char *text);
void sessile_log_write(void);

/* cookie.c */
void sessile_withdraw_cookie(const zend_string *id);

#endif
