/* The save handler: PHP's callbacks in terms of the request's session (sessile_request).
 *
 * What is done with a session is decided there. Here values are converted, failures become PHP's
 * warnings, and PHP's ways are told: its ini settings, its running function, its headers.
 */

#include "php_sessile.h"
#include "SAPI.h"
#include "php_ini.h"

static sessile_bytes bytes_of(const zend_string *text)
{
	return (sessile_bytes) { ZSTR_VAL(text), ZSTR_LEN(text) };
}

static sessile_format payload_format(void)
{
	const char *serializer = INI_STR("session.serialize_handler");

	return !strcmp(serializer, "php") ? SESSILE_FORMAT_PHP
		: !strcmp(serializer, "php_serialize") ? SESSILE_FORMAT_PHP_SERIALIZE
		: SESSILE_FORMAT_OTHER;
}

/* Also below a handler in PHP that extends SessionHandler, as those of Drupal and Symfony do. */
bool sessile_is_handler(void)
{
	return PS(mod) == &sessile_ps_module
		|| (PS(default_mod) == &sessile_ps_module && PS(mod_user_is_open));
}

static void set_rules(void)
{
	sessile_rules rules = SESSILE_G(rules);

	/* Applications write any large number for "for ever". */
	rules.idle_ms = (uint64_t) MIN(MAX(PS(gc_maxlifetime), 0), SESSILE_TTL_MAX_MS / 1000) * 1000;
	/* PHP opens and saves the session at each update of an upload's progress. */
	rules.best_effort = PS(rfc1867_progress) != NULL;
	rules.format = rules.merge ? payload_format() : SESSILE_FORMAT_OTHER;
	sessile_request_set_rules(SESSILE_G(request), rules);
}

static bool wants_lock(void)
{
	return !SESSILE_G(read_only) && sessile_running_call() != SESSILE_CALL_READS;
}

static bool regenerates(void)
{
	sessile_call call = sessile_running_call();

	return call == SESSILE_CALL_REGENERATES || call == SESSILE_CALL_REPLACES;
}

/* The new id is not the one of the session that is open. */
static bool only_makes_an_id(void)
{
	return sessile_running_call() == SESSILE_CALL_MAKES_ID || regenerates();
}

/* Without cookies no browser was told the id. */
static bool headers_open(void)
{
	return !SG(headers_sent) || !PS(use_cookies);
}

static zend_result warn(const sessile_error *error)
{
	sessile_warn(error);
	return sessile_fail();
}

/* After a log-out in another request PHP goes on with $_SESSION under a new id. The log-out is
 * final: unless $_SESSION is empty, nothing is saved until the session is opened anew. It is
 * counted; a log line would be noise.
 */
static zend_result end_session(const sessile_error *error)
{
	sessile_log_drop(error);
	SESSILE_G(logged_out) = !sessile_is_empty();
	return SUCCESS;
}

/* Not EG(timeout_seconds), which is max_input_time before the script runs. */
static uint64_t max_execution_time(void)
{
	uint64_t seconds = 0;

	if (!SESSILE_G(time_limit)) {
		SESSILE_G(time_limit) = zend_hash_str_find_ptr(EG(ini_directives),
			ZEND_STRL("max_execution_time"));
	}
	/* Each request asks, and strtoll() is slow. */
	for (const char *digit = ZSTR_VAL(SESSILE_G(time_limit)->value);
			*digit >= '0' && *digit <= '9' && seconds < SESSILE_TTL_MAX_MS; digit++) {
		seconds = seconds * 10 + (*digit - '0');
	}
	return seconds;
}

static bool open_store(const char *save_path)
{
	const sessile_settings settings = {
		.payload_bytes_max = MAX(SESSILE_G(payload_limit), 0),
		.hashed_ids = SESSILE_G(hashed_ids),
		.request_ms_max = max_execution_time() * 1000,
	};
	const sessile_bytes url = { save_path, strlen(save_path) };
	sessile_error error;

	SESSILE_G(store) = NULL;
	if (!url.length) {
		php_error_docref(NULL, E_WARNING,
			"session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile");
		return false;
	}
	if (sessile_open_stores_get(SESSILE_G(stores), url, settings, &SESSILE_G(store), &error)
			!= SESSILE_OK) {
		sessile_warn(&error);
		return false;
	}
	return true;
}

PS_OPEN_FUNC(sessile)
{
	const char *path = sessile_given_path(SESSILE_ARGUMENT(save_path));
	const bool gets_new_id = sessile_request_is_leaving(SESSILE_G(request)) && regenerates();

	SESSILE_G(printed) = false;
	if (!regenerates()) {
		SESSILE_G(logged_out) = false;
	}
	/* session_reset() opens an open session. Without this the request would wait for its own lock.
	 */
	if (!gets_new_id) {
		sessile_request_reset(SESSILE_G(request));
	}
	if (!open_store(path)) {
		sessile_request_reset(SESSILE_G(request));
		sessile_log_write();
		return sessile_fail();
	}
	/* What sessile_set_lifetime() has said stays. */
	if (!gets_new_id) {
		set_rules();
	}
	PS_SET_MOD_DATA(&SESSILE_G(store));
	return SUCCESS;
}

PS_CLOSE_FUNC(sessile)
{
	/* After a failed read PHP closes first and prints then. */
	if (SESSILE_G(printed)) {
		sessile_restore_path();
		SESSILE_G(printed) = false;
	}
	if (sessile_request_is_leaving(SESSILE_G(request)) && regenerates()
			&& sessile_request_pause(SESSILE_G(request))) {
		/* It goes on under the new id; see PS_READ_FUNC. */
		return SUCCESS;
	}
	if (sessile_request_close(SESSILE_G(request), SESSILE_G(store), headers_open())) {
		sessile_withdraw_cookie(PS(id));
	}
	PS_SET_MOD_DATA(NULL);
	sessile_log_write();
	return SUCCESS;
}

/* Another session for an application that calls SessionHandler::read(): the open one stays open. */
static zend_result peek(const zend_string *key, zend_string **val)
{
	sessile_request *another = sessile_request_new();
	sessile_error error;
	sessile_bytes payload;
	sessile_code code = sessile_request_open(another, SESSILE_G(store), bytes_of(key), false,
		&payload, &error);

	if (code == SESSILE_OK) {
		*val = zend_string_init(payload.data, payload.length, 0);
	}
	sessile_request_free(another);
	return code == SESSILE_OK ? SUCCESS : warn(&error);
}

static sessile_code open_session(const zend_string *key, sessile_bytes *payload,
	sessile_error *error)
{
	return sessile_request_open(SESSILE_G(request), SESSILE_G(store), bytes_of(key), wants_lock(),
		payload, error);
}

PS_READ_FUNC(sessile)
{
	sessile_error error;
	sessile_bytes payload;
	sessile_code code;

	sessile_restore_path();
	if (sessile_running_call() == SESSILE_CALL_NONE
			&& sessile_request_has_another_open(SESSILE_G(request), bytes_of(key))) {
		return peek(key, val);
	}
	*val = ZSTR_EMPTY_ALLOC();
	if (SESSILE_G(logged_out)) {
		return SUCCESS;
	}
	code = open_session(key, &payload, &error);
	if (code == SESSILE_DESTROYED && regenerates()) {
		end_session(&error);
		if (SESSILE_G(logged_out)) {
			return SUCCESS;
		}
		/* A new session: what sessile_set_lifetime() has said is that of the old one. */
		set_rules();
		code = open_session(key, &payload, &error);
	}
	if (code != SESSILE_OK) {
		return warn(&error);
	}
	/* After a regeneration PHP keeps $_SESSION and ignores this. */
	if (payload.length) {
		*val = zend_string_init(payload.data, payload.length, 0);
	}
	/* Not if that was over the memory limit: the request ends, and must not save an empty session.
	 */
	sessile_request_loaded(SESSILE_G(request));
	if (error.code != SESSILE_OK) {
		/* Last: a handler of errors may end the session. */
		sessile_warn(&error);
	}
	return SUCCESS;
}

/* The answer to a request that leaves its id: SESSILE_GONE if the session is not open. */
static zend_result left_id(sessile_code code, const sessile_error *error)
{
	if (code == SESSILE_DESTROYED) {
		return end_session(error);
	}
	return code == SESSILE_OK ? SUCCESS : warn(error);
}

static zend_result save(zend_string *key, const zend_string *val, bool changed)
{
	/* A request that PHP ends without an id has no session to save. */
	if (!key) {
		return FAILURE;
	}
	const sessile_save with = {
		.payload = bytes_of(val),
		.serialised = !sessile_is_torn(val),
		.changed = changed,
		.empty = sessile_is_empty(),
		.headers_open = headers_open(),
	};
	sessile_error error;
	sessile_saved saved;

	if (SESSILE_G(logged_out)) {
		return SUCCESS;
	}
	if (with.serialised && sessile_running_call() == SESSILE_CALL_REGENERATES) {
		sessile_code code = sessile_request_leave_id(SESSILE_G(request), SESSILE_G(store),
			bytes_of(key), true, &error);
		if (code != SESSILE_GONE) {
			return left_id(code, &error);
		}
	}
	if (sessile_request_save(SESSILE_G(request), SESSILE_G(store), bytes_of(key), with,
			&saved, &error) != SESSILE_OK) {
		/* An exception tells the reason itself. */
		return EG(exception) ? sessile_fail() : warn(&error);
	}
	if (saved == SESSILE_WITHDRAW_COOKIE) {
		sessile_withdraw_cookie(key);
	} else if (saved == SESSILE_LOGGED_OUT) {
		/* It is counted; a log line for each would be noise. */
		sessile_log_drop(&error);
	}
	return SUCCESS;
}

/* PHP prints a failed save before it closes, except while it regenerates the id. */
static zend_result after_save(zend_result result)
{
	SESSILE_G(printed) = result == FAILURE && !regenerates();
	return result;
}

PS_WRITE_FUNC(sessile)
{
	sessile_restore_path();
	return after_save(save(key, val, true));
}

PS_UPDATE_TIMESTAMP_FUNC(sessile)
{
	sessile_restore_path();
	return after_save(save(key, val, false));
}

PS_DESTROY_FUNC(sessile)
{
	sessile_error error;

	sessile_restore_path();
	if (CG(unclean_shutdown) && !EG(current_execute_data)) {
		/* After a fatal error while decoding, PHP destroys the session, but nobody has logged out.
		 * A shutdown function that logs out after a fatal error has a running call, unlike this
		 * case.
		 */
		sessile_request_reset(SESSILE_G(request));
		return SUCCESS;
	}
	if (sessile_running_call() == SESSILE_CALL_REPLACES) {
		sessile_code code = sessile_request_leave_id(SESSILE_G(request), SESSILE_G(store),
			bytes_of(key), false, &error);
		if (code != SESSILE_GONE) {
			return left_id(code, &error);
		}
	}
	if (sessile_request_destroy(SESSILE_G(request), SESSILE_G(store), bytes_of(key), &error)
			!= SESSILE_OK) {
		return warn(&error);
	}
	return SUCCESS;
}

PS_GC_FUNC(sessile)
{
	bool all = sessile_running_call() == SESSILE_CALL_COLLECTS;
	sessile_error error;
	uint64_t removed;

	*nrdels = -1;
	if (sessile_collect(SESSILE_G(store), all, &removed, &error) != SESSILE_OK) {
		sessile_warn(&error);
	} else {
		*nrdels = (zend_long) removed;
	}
	return *nrdels;
}

PS_CREATE_SID_FUNC(sessile)
{
	for (int tries = 0; tries < 3; tries++) {
		zend_string *id = php_session_create_id(mod_data);
		if (!id || !SESSILE_G(store) || !sessile_request_is_taken(SESSILE_G(request),
				SESSILE_G(store), bytes_of(id), !only_makes_an_id())) {
			return id;
		}
		zend_string_release(id);
	}
	/* PHP would use the returned id. Three of 128 random bits do not collide by chance. */
	php_error_docref(NULL, E_ERROR,
		"three new ids are all taken: the random numbers of this machine are none");
	return NULL;
}

PS_VALIDATE_SID_FUNC(sessile)
{
	bool valid;

	sessile_restore_path();
	valid = only_makes_an_id()
		? sessile_request_is_taken(SESSILE_G(request), SESSILE_G(store), bytes_of(key), false)
		: sessile_request_validate(SESSILE_G(request), SESSILE_G(store), bytes_of(key),
			wants_lock());
	return valid ? SUCCESS : FAILURE;
}

const ps_module sessile_ps_module = { PS_MOD_UPDATE_TIMESTAMP(sessile) };
