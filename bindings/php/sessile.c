/* The extension: settings, start and end, phpinfo(), functions. */

#include "php_sessile.h"
#include "php_ini.h"
#include "ext/standard/info.h"
#include "sessile_arginfo.h"

ZEND_DECLARE_MODULE_GLOBALS(sessile)

/* PHP's own settings of sessions, too, do not change under an open one, which has read them. A
 * handler in PHP that is about to open it may still set them.
 */
static bool is_in_use(const zend_ini_entry *entry, int stage)
{
	if (stage != PHP_INI_STAGE_RUNTIME || PS(session_status) != php_session_active
			|| PS(mod_data) != &SESSILE_G(store)) {
		return false;
	}
	php_error_docref(NULL, E_WARNING, "%s cannot be changed when a session is active",
		ZSTR_VAL(entry->name));
	return true;
}

/* Settings of two words, kept as whether it is the second. */
static PHP_INI_MH(on_update_word)
{
	static const char *const settings[][3] = {
		{ "sessile.on_lock_timeout", "fail", "read_only" },
		{ "sessile.concurrency", "exclusive", "merge" },
		{ "sessile.merge_conflict", "last", "fail" },
	};
	const char *const *setting = settings[0], *word = ZSTR_VAL(new_value);

	while (strcmp(setting[0], ZSTR_VAL(entry->name))) {
		setting += 3;
	}
	if (strcmp(word, setting[1]) && strcmp(word, setting[2])) {
		php_error_docref(NULL, E_WARNING, "%s is %s or %s", setting[0], setting[1], setting[2]);
		return FAILURE;
	}
	if (is_in_use(entry, stage)) {
		return FAILURE;
	}
	*(bool *) ZEND_INI_GET_ADDR() = !strcmp(word, setting[2]);
	return SUCCESS;
}

/* Seconds from 0 to a limit, kept as milliseconds. */
static PHP_INI_MH(on_update_seconds)
{
	const char *name = ZSTR_VAL(entry->name);
	const double most = !strcmp(name, "sessile.lock_wait") ? 3600
		: !strcmp(name, "sessile.grace") ? 600 : 10 * 365 * 86400.0;
	double seconds = zend_strtod(ZSTR_VAL(new_value), NULL), number;

	if (!is_numeric_string(ZSTR_VAL(new_value), ZSTR_LEN(new_value), NULL, &number, false)
			|| !(seconds >= 0 && seconds <= most)) {
		php_error_docref(NULL, E_WARNING, "%s is a number of seconds from 0 to %.0f", name, most);
		return FAILURE;
	}
	if (is_in_use(entry, stage)) {
		return FAILURE;
	}
	/* 0 may mean never, so less than 1 ms becomes 1. */
	*(uint64_t *) ZEND_INI_GET_ADDR() = seconds > 0 ? MAX(1, (uint64_t) (seconds * 1000)) : 0;
	return SUCCESS;
}

static PHP_INI_MH(on_update_bytes)
{
	const char *text = ZSTR_VAL(new_value), *unit = text + strspn(text, "0123456789");

	if (ZSTR_LEN(new_value) && (unit == text || strlen(unit) > 1 || !strchr("kKmMgG", *unit))) {
		php_error_docref(NULL, E_WARNING,
			"%s is a number of bytes, such as 8388608 or 8M, and not negative", ZSTR_VAL(entry->name));
		return FAILURE;
	}
	return OnUpdateLong(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

/* PHP reads any unknown word as off, which would hide a mistyped sessile.hashed_ids. */
static PHP_INI_MH(on_update_switch)
{
	static const char *const words[] = {
		"", "0", "1", "on", "off", "yes", "no", "true", "false", "none"
	};

	for (size_t number = 0; number < sizeof(words) / sizeof(*words); number++) {
		if (!strcasecmp(ZSTR_VAL(new_value), words[number])) {
			return OnUpdateBool(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
		}
	}
	php_error_docref(NULL, E_WARNING, "%s is On or Off", ZSTR_VAL(entry->name));
	return FAILURE;
}

static PHP_INI_MH(on_update_rule)
{
	return is_in_use(entry, stage) ? FAILURE
		: on_update_switch(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

#define SECONDS(name, value, rule) \
	STD_PHP_INI_ENTRY("sessile." name, value, PHP_INI_ALL, on_update_seconds, rules.rule, \
		zend_sessile_globals, sessile_globals)

#define WORD(name, value, rule) \
	STD_PHP_INI_ENTRY("sessile." name, value, PHP_INI_ALL, on_update_word, rules.rule, \
		zend_sessile_globals, sessile_globals)

PHP_INI_BEGIN()
	SECONDS("lock_wait", "30", lock_wait_ms)
	WORD("on_lock_timeout", "fail", read_on_lock_timeout)
	WORD("concurrency", "exclusive", merge)
	WORD("merge_conflict", "last", fail_on_conflict)
	SECONDS("grace", "30", grace_ms)
	SECONDS("first_lifetime", "0", first_lifetime_ms)
	SECONDS("absolute_lifetime", "0", lifetime_ms)
	STD_PHP_INI_ENTRY("sessile.payload_limit", "0", PHP_INI_SYSTEM | PHP_INI_PERDIR, on_update_bytes,
		payload_limit, zend_sessile_globals, sessile_globals)
	STD_PHP_INI_BOOLEAN("sessile.hashed_ids", "0", PHP_INI_SYSTEM | PHP_INI_PERDIR, on_update_switch,
		hashed_ids, zend_sessile_globals, sessile_globals)
	STD_PHP_INI_BOOLEAN("sessile.read_only", "0", PHP_INI_ALL, on_update_rule,
		read_only, zend_sessile_globals, sessile_globals)
	STD_PHP_INI_BOOLEAN("sessile.lazy_start", "1", PHP_INI_ALL, on_update_rule,
		rules.lazy_start, zend_sessile_globals, sessile_globals)
	STD_PHP_INI_BOOLEAN("sessile.touch_unlocked", "0", PHP_INI_ALL, on_update_rule,
		rules.touch_unlocked, zend_sessile_globals, sessile_globals)
	STD_PHP_INI_BOOLEAN("sessile.log", "1", PHP_INI_ALL, on_update_switch,
		logs, zend_sessile_globals, sessile_globals)
PHP_INI_END()

static PHP_GINIT_FUNCTION(sessile)
{
#if defined(COMPILE_DL_SESSILE) && defined(ZTS)
	ZEND_TSRMLS_CACHE_UPDATE();
	/* PHP does not, and with threads it is no static memory. */
	PS(rfc1867_progress) = NULL;
#endif
	memset(sessile_globals, 0, sizeof(*sessile_globals));
	sessile_globals->request = sessile_request_new();
	sessile_globals->stores = sessile_open_stores_new();
}

static PHP_GSHUTDOWN_FUNCTION(sessile)
{
	sessile_request_free(sessile_globals->request);
	sessile_open_stores_free(sessile_globals->stores);
}

static PHP_MINIT_FUNCTION(sessile)
{
	if (type == MODULE_TEMPORARY) {
		php_error_docref(NULL, E_WARNING, "sessile is loaded by php.ini, not by dl()");
		return FAILURE;
	}
	if (sessile_abi() != SESSILE_ABI) {
		php_error_docref(NULL, E_WARNING,
			"the header has version %d of the library's interface, the library version %u; build the "
			"extension again with both from one source", SESSILE_ABI, sessile_abi());
		return FAILURE;
	}
	if (!SESSILE_G(request)) {
		php_error_docref(NULL, E_WARNING, "no memory to watch for forks");
		return FAILURE;
	}
	REGISTER_INI_ENTRIES();
	sessile_watch_path();
	/* False if the process has registered it before. */
	sessile_log_start();
	return php_session_register_module(&sessile_ps_module);
}

static PHP_MSHUTDOWN_FUNCTION(sessile)
{
	sessile_unwatch_path();
	UNREGISTER_INI_ENTRIES();
	return SUCCESS;
}

/* After every RSHUTDOWN: the session extension saves open sessions in its own, which runs after
 * ours.
 */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(sessile)
{
	sessile_restore_path();
	sessile_request_end(SESSILE_G(request));
	sessile_log_write();
	return SUCCESS;
}

static PHP_MINFO_FUNCTION(sessile)
{
	php_info_print_table_start();
	php_info_print_table_row(2, "Session save handler", "sessile");
	php_info_print_table_row(2, "Version of the extension", PHP_SESSILE_VERSION);
	php_info_print_table_row(2, "Version of the library", sessile_version());
	php_info_print_table_row(2, "Store of this worker",
		SESSILE_G(store) ? sessile_label(SESSILE_G(store)) : "none yet");
	php_info_print_table_end();
	DISPLAY_INI_ENTRIES();
}

PHP_FUNCTION(sessile_counters)
{
	const char *name;
	uint64_t value = 0;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	if (!SESSILE_G(store)) {
		return;
	}
	for (size_t number = 0; (name = sessile_counter(SESSILE_G(store), number, &value)) != NULL;
		number++) {
		add_assoc_long(return_value, name, (zend_long) value);
	}
}

static bool has_open_session(void)
{
	if (PS(session_status) == php_session_active && PS(id) && SESSILE_G(store)
			&& sessile_is_handler()) {
		return true;
	}
	php_error_docref(NULL, E_WARNING, "there is no open session of the save handler sessile");
	return false;
}

PHP_FUNCTION(sessile_set_owner)
{
	zend_string *owner;
	sessile_bytes name = { NULL, 0 };
	sessile_error error;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR_OR_NULL(owner)
	ZEND_PARSE_PARAMETERS_END();
	if (!has_open_session()) {
		RETURN_FALSE;
	}
	if (owner) {
		name.data = ZSTR_VAL(owner);
		name.length = ZSTR_LEN(owner);
	}
	if (sessile_request_set_owner(SESSILE_G(request), SESSILE_G(store), name, &error)
			!= SESSILE_OK) {
		php_error_docref(NULL, E_WARNING, "%s", error.message);
		RETURN_FALSE;
	}
	/* With session.lazy_write PHP would not ask for a save of what has not changed; it moves the
	 * expiry then, and that is where the owner is written.
	 */
	RETURN_TRUE;
}

PHP_FUNCTION(sessile_set_lifetime)
{
	double seconds;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_DOUBLE(seconds)
	ZEND_PARSE_PARAMETERS_END();
	if (!(seconds >= 0.001 && seconds <= SESSILE_TTL_MAX_MS / 1000)) {
		zend_argument_value_error(1, "must be a number of seconds from 0.001 to %d",
			(int) (SESSILE_TTL_MAX_MS / 1000));
		RETURN_THROWS();
	}
	if (!has_open_session()) {
		RETURN_FALSE;
	}
	sessile_request_set_idle(SESSILE_G(request), (uint64_t) (seconds * 1000));
	RETURN_TRUE;
}

PHP_FUNCTION(sessile_revoke)
{
	zend_string *owner;
	bool keep_open = false;
	uint64_t ended = 0;
	sessile_error error;
	sessile_code code;

	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(owner)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(keep_open)
	ZEND_PARSE_PARAMETERS_END();
	if (!has_open_session()) {
		RETURN_FALSE;
	}
	const sessile_bytes name = { ZSTR_VAL(owner), ZSTR_LEN(owner) };
	const sessile_bytes open = { ZSTR_VAL(PS(id)), ZSTR_LEN(PS(id)) };
	code = keep_open ? sessile_revoke(SESSILE_G(store), name, open, &ended, &error)
		: sessile_request_revoke(SESSILE_G(request), SESSILE_G(store), name, &ended, &error);
	if (code != SESSILE_OK) {
		php_error_docref(NULL, E_WARNING, "%s", error.message);
		RETURN_FALSE;
	}
	RETURN_LONG((zend_long) ended);
}

static const zend_module_dep dependencies[] = {
	ZEND_MOD_REQUIRED("session")
	ZEND_MOD_END
};

zend_module_entry sessile_module_entry = {
	STANDARD_MODULE_HEADER_EX,
	NULL,
	dependencies,
	"sessile",
	ext_functions,
	PHP_MINIT(sessile),
	PHP_MSHUTDOWN(sessile),
	NULL,
	NULL,
	PHP_MINFO(sessile),
	PHP_SESSILE_VERSION,
	PHP_MODULE_GLOBALS(sessile),
	PHP_GINIT(sessile),
	PHP_GSHUTDOWN(sessile),
	ZEND_MODULE_POST_ZEND_DEACTIVATE_N(sessile),
	STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_SESSILE
# ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
# endif
ZEND_GET_MODULE(sessile)
#endif
