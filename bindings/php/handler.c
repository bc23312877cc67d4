/* The save handler: what PHP asks for, in terms of leases.
 *
 * Invariant: between a read that took the lock and the end of the request there is at most one lease, in
 * SESSILE_G(lease), and each way out gives it back: write, close, destroy, the next open, the end of the request.
 * Whoever has no lease has read without the lock, and nothing of that is written.
 */

#include "php_sessile.h"

/* A collection that a visitor waits for: the next one goes on where it ended. */
#define COLLECT_RECORDS 200
#define COLLECT_MS 5

static sessile_key key_of(const zend_string *id)
{
	return (sessile_key) { .id = { ZSTR_VAL(id), ZSTR_LEN(id) } };
}

static uint64_t milliseconds(double seconds)
{
	/* 0 may mean never: less than one is one. */
	return seconds > 0 ? MAX(1, (uint64_t) (seconds * 1000)) : 0;
}

static sessile_ttl ttl_of(zend_long maxlifetime)
{
	/* "For ever" is written as any large number; a store wants a moment. */
	const zend_long most = SESSILE_TTL_MAX_MS / 1000;

	return (sessile_ttl) {
		.idle_ms = maxlifetime > 0 ? (uint64_t) MIN(maxlifetime, most) * 1000 : 1,
		.lifetime_ms = milliseconds(SESSILE_G(absolute_lifetime)),
	};
}

static bool is_held(const zend_string *key)
{
	return SESSILE_G(lease) && SESSILE_G(key) && zend_string_equals(SESSILE_G(key), key);
}

static void release(void)
{
	if (SESSILE_G(lease)) {
		/* Should that fail, the lock ends with its lease all the same. */
		sessile_lease_release(SESSILE_G(lease), NULL);
		SESSILE_G(lease) = NULL;
	}
	SESSILE_G(moving) = false;
	SESSILE_G(validated) = false;
	SESSILE_G(failed) = false;
}

void sessile_forget_session(void)
{
	release();
	sessile_record_free(&SESSILE_G(record));
	if (SESSILE_G(key)) {
		zend_string_release(SESSILE_G(key));
		SESSILE_G(key) = NULL;
	}
	if (SESSILE_G(original)) {
		zend_string_release(SESSILE_G(original));
		SESSILE_G(original) = NULL;
	}
	SESSILE_G(unlocked) = false;
	SESSILE_G(reading) = false;
}

/* A child that was forked while the session was open has nothing to save: that is its parent's. */
static bool is_inherited(void)
{
	return SESSILE_G(key) && SESSILE_G(owner) != sessile_forks();
}

static void remember_key(zend_string *key)
{
	if (SESSILE_G(key)) {
		zend_string_release(SESSILE_G(key));
	}
	SESSILE_G(key) = zend_string_copy(key);
	SESSILE_G(owner) = sessile_forks();
}

/* Takes the lock and reads. */
static sessile_code begin(zend_string *key, sessile_error *error)
{
	sessile_code code;

	sessile_forget_session();
	code = sessile_begin(SESSILE_G(store), key_of(key), milliseconds(SESSILE_G(lock_wait)), &SESSILE_G(lease),
		&SESSILE_G(record), error);
	if (code == SESSILE_OK) {
		remember_key(key);
		SESSILE_G(reading) = true;
	} else {
		SESSILE_G(lease) = NULL;
	}
	return code;
}

/* Reads without the lock. */
static sessile_code peek(zend_string *key, sessile_error *error)
{
	sessile_code code;

	sessile_forget_session();
	code = sessile_peek(SESSILE_G(store), key_of(key), &SESSILE_G(record), error);
	if (code == SESSILE_OK) {
		remember_key(key);
		SESSILE_G(unlocked) = true;
		SESSILE_G(reading) = true;
	}
	return code;
}

static zend_string *payload_of_record(void)
{
	const sessile_record *record = &SESSILE_G(record);

	return record->found && record->payload_length > 0
		? zend_string_init(record->payload, record->payload_length, 0)
		: ZSTR_EMPTY_ALLOC();
}

static bool wants_no_lock(void)
{
	return SESSILE_G(read_only) || sessile_call_reads_and_closes();
}

PS_OPEN_FUNC(sessile)
{
	/* A handler in PHP passes on a copy of what it was given: after a failure that is the redacted path. */
	if (PS(save_path) == SESSILE_G(shown) && !strcmp(save_path, SESSILE_G(shown))) {
		sessile_restore_path();
		save_path = PS(save_path);
	}
	sessile_restore_path();
	SESSILE_G(printed) = false;
	/* session_reset() opens what is still open: without this the request would wait for its own lock. */
	if (!SESSILE_G(moving) || !sessile_call_regenerates_and_keeps()) {
		sessile_forget_session();
	}
	if (!sessile_open_path(save_path)) {
		sessile_log_write();
		return sessile_fail();
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
	if (SESSILE_G(lease) && !is_inherited() && sessile_call_regenerates_and_keeps()) {
		/* The lease goes on to the new id; see PS_READ_FUNC. */
		SESSILE_G(moving) = true;
		return SUCCESS;
	}
	if (SESSILE_G(unlocked) && SESSILE_G(record).found && !SESSILE_G(reading) && SESSILE_G(key)) {
		/* An access like any other: it keeps the session alive. Gone meanwhile is no failure of this request. */
		sessile_touch(SESSILE_G(store), key_of(SESSILE_G(key)), ttl_of(PS(gc_maxlifetime)), NULL);
	}
	sessile_forget_session();
	PS_SET_MOD_DATA(NULL);
	sessile_log_write();
	return SUCCESS;
}

/* The new id of session_regenerate_id(false): the record moves to it under the lock that is held. */
static zend_result move_to(zend_string *key, zend_string **val)
{
	sessile_error error;
	sessile_code code = sessile_lease_regenerate(SESSILE_G(lease), key_of(key), milliseconds(SESSILE_G(grace)), &error);

	SESSILE_G(moving) = false;
	if (code != SESSILE_OK) {
		sessile_warn(&error);
		sessile_forget_session();
		return sessile_fail();
	}
	remember_key(key);
	/* PHP keeps what it has in $_SESSION and does not look at this. */
	*val = ZSTR_EMPTY_ALLOC();
	return SUCCESS;
}

PS_READ_FUNC(sessile)
{
	sessile_error error;
	sessile_code code = SESSILE_OK;

	sessile_restore_path();
	if (SESSILE_G(moving) && SESSILE_G(lease)) {
		return move_to(key, val);
	}
	if (SESSILE_G(failed)) {
		/* What validate_sid met: asked again, the visitor would wait a second time. */
		error = SESSILE_G(error);
		code = error.code;
		SESSILE_G(failed) = false;
	} else if (wants_no_lock()) {
		code = peek(key, &error);
	} else if (!(SESSILE_G(validated) && is_held(key))) {
		code = begin(key, &error);
	}
	if (code == SESSILE_LOCK_TIMEOUT && !strcmp(SESSILE_G(on_lock_timeout), "read_only")) {
		sessile_warn(&error);
		code = peek(key, &error);
	}
	if (code != SESSILE_OK) {
		sessile_warn(&error);
		return sessile_fail();
	}
	SESSILE_G(validated) = false;
	*val = payload_of_record();
	if (SESSILE_G(unlocked)) {
		SESSILE_G(original) = zend_string_copy(*val);
	}
	/* PHP has it now; whether there was something is still of interest. */
	{
		bool found = SESSILE_G(record).found;
		sessile_record_free(&SESSILE_G(record));
		SESSILE_G(record).found = found;
	}
	SESSILE_G(reading) = false;
	return SUCCESS;
}

/* What was read without the lock is not written. */
static zend_result refuse_unlocked(const zend_string *val)
{
	if (sessile_call_regenerates()) {
		php_error_docref(NULL, E_WARNING, "the session was read without its lock and cannot get another id");
		return sessile_fail();
	}
	if (SESSILE_G(original) && zend_string_equals(SESSILE_G(original), val)) {
		return SUCCESS;
	}
	php_error_docref(NULL, E_WARNING,
		"the session was read without its lock (sessile.read_only, or sessile.on_lock_timeout) and changed; nothing is saved");
	return sessile_fail();
}

/* Stores under the lease, which is given back. The session may have expired meanwhile, or been lost with its server:
 * then it is made anew. One that was destroyed stays destroyed. */
static zend_result commit(zend_string *key, const zend_string *val, zend_long maxlifetime)
{
	const sessile_bytes payload = { ZSTR_VAL(val), ZSTR_LEN(val) };
	const sessile_ttl ttl = ttl_of(maxlifetime);
	sessile_error error;
	sessile_code code = SESSILE_GONE;
	sessile_lease *lease;

	if (is_held(key)) {
		lease = SESSILE_G(lease);
		SESSILE_G(lease) = NULL;
		code = sessile_lease_commit(lease, payload, ttl, &error);
		if (code == SESSILE_GONE) {
			sessile_log_drop(error.message);
		}
	}
	if (code == SESSILE_GONE) {
		code = begin(key, &error);
		SESSILE_G(reading) = false;
		if (code == SESSILE_OK) {
			if (SESSILE_G(record).found) {
				release();
				php_error_docref(NULL, E_WARNING,
					"another request has stored a session under this id; nothing is saved");
				return sessile_fail();
			}
			lease = SESSILE_G(lease);
			SESSILE_G(lease) = NULL;
			code = sessile_lease_commit(lease, payload, ttl, &error);
		}
	}
	if (code == SESSILE_DESTROYED) {
		/* A log-out came between, which counts; a warning at each would be noise. */
		sessile_log_drop(error.message);
		return SUCCESS;
	}
	if (code != SESSILE_OK) {
		sessile_warn(&error);
		return sessile_fail();
	}
	return SUCCESS;
}

static zend_result refuse_torn(void)
{
	release();
	sessile_warn_torn();
	return sessile_fail();
}

/* A new session in which nothing was put is not worth a record, nor its cookie. */
static bool was_never_started(const zend_string *key)
{
	if (!SESSILE_G(lazy_start) || SESSILE_G(record).found || !is_held(key) || !sessile_is_empty()) {
		return false;
	}
	if (SESSILE_G(created) && zend_string_equals(SESSILE_G(created), key)) {
		sessile_withdraw_cookie(key);
	}
	return true;
}

static zend_result write_session(zend_string *key, const zend_string *val, zend_long maxlifetime)
{
	if (SESSILE_G(reading) || is_inherited()) {
		return SUCCESS;
	}
	if (sessile_is_torn(val)) {
		return refuse_torn();
	}
	if (SESSILE_G(unlocked)) {
		return refuse_unlocked(val);
	}
	if (is_held(key) && sessile_call_regenerates_and_keeps()) {
		/* Saved at the end of the request, under the new id, by the lease that goes there. */
		return SUCCESS;
	}
	return was_never_started(key) ? SUCCESS : commit(key, val, maxlifetime);
}

static zend_result update_timestamp(zend_string *key, const zend_string *val, zend_long maxlifetime)
{
	sessile_error error;
	sessile_code code;

	if (SESSILE_G(unlocked) || SESSILE_G(reading) || is_inherited()) {
		return SUCCESS; /* of an unlocked one close does it */
	}
	if (sessile_is_torn(val)) {
		return refuse_torn();
	}
	if (is_held(key) && SESSILE_G(record).found) {
		code = sessile_lease_touch(SESSILE_G(lease), ttl_of(maxlifetime), &error);
		if (code == SESSILE_OK || code == SESSILE_DESTROYED) {
			return SUCCESS;
		}
		if (code != SESSILE_GONE) {
			sessile_warn(&error);
			return sessile_fail();
		}
		release();
	}
	return was_never_started(key) ? SUCCESS : commit(key, val, maxlifetime);
}

/* A failed save is printed before PHP closes, unless the session is to get another id. */
static zend_result saved(zend_result result)
{
	SESSILE_G(printed) = result == FAILURE && !sessile_call_regenerates();
	return result;
}

PS_WRITE_FUNC(sessile)
{
	sessile_restore_path();
	return saved(write_session(key, val, maxlifetime));
}

PS_UPDATE_TIMESTAMP_FUNC(sessile)
{
	sessile_restore_path();
	return saved(update_timestamp(key, val, maxlifetime));
}

PS_DESTROY_FUNC(sessile)
{
	sessile_error error;
	sessile_code code;

	sessile_restore_path();
	if (CG(unclean_shutdown) && !EG(current_execute_data)) {
		/* A fatal error while PHP decoded what it read: PHP gives the session up, but nobody has logged out. A shutdown function
		 * that logs somebody out after a fatal error is running, and this is not. */
		release();
		return SUCCESS;
	}
	if (SESSILE_G(unlocked) && sessile_call_regenerates()) {
		/* What goes on under the new id would be what was read without the lock. */
		php_error_docref(NULL, E_WARNING, "the session was read without its lock and cannot get another id");
		return sessile_fail();
	}
	code = sessile_destroy(SESSILE_G(store), key_of(key), &error);
	if (is_held(key)) {
		release();
	}
	if (code != SESSILE_OK) {
		sessile_warn(&error);
		return sessile_fail();
	}
	return SUCCESS;
}

PS_GC_FUNC(sessile)
{
	sessile_error error;
	sessile_swept swept;
	bool whole = sessile_call_collects();

	*nrdels = 0;
	if (!whole && sessile_expires_by_itself(SESSILE_G(store))) {
		return 0;
	}
	do {
		if (sessile_sweep(SESSILE_G(store), COLLECT_RECORDS, COLLECT_MS, &swept, &error) != SESSILE_OK) {
			sessile_warn(&error);
			*nrdels = -1;
			return -1;
		}
		*nrdels += (zend_long) swept.removed;
	} while (whole && !swept.complete);
	return *nrdels;
}

/* Looks, without a lock, whether there is a session of this id. */
static sessile_code find(zend_string *key, bool *found, sessile_error *error)
{
	sessile_record record;
	sessile_code code = sessile_peek(SESSILE_G(store), key_of(key), &record, error);

	*found = code == SESSILE_OK && record.found;
	if (code == SESSILE_OK) {
		sessile_record_free(&record);
	}
	return code;
}

PS_CREATE_SID_FUNC(sessile)
{
	zend_string *id;
	bool taken = false;

	for (int tries = 0; tries < 3; tries++) {
		id = php_session_create_id(mod_data);
		if (!id || !SESSILE_G(store)) {
			break;
		}
		/* A store that does not answer says so when it is read, which does not ask again. */
		if (find(id, &taken, &SESSILE_G(error)) != SESSILE_OK && !sessile_call_only_makes_an_id()) {
			SESSILE_G(failed) = true;
		}
		if (!taken) {
			break;
		}
		zend_string_release(id);
	}
	if (taken) {
		/* PHP would go on with what it gets, and three of 128 random bits are not taken by chance. */
		php_error_docref(NULL, E_ERROR, "three new ids are all taken: the random numbers of this machine are none");
		return NULL;
	}
	if (id && !sessile_call_only_makes_an_id()) {
		if (SESSILE_G(created)) {
			zend_string_release(SESSILE_G(created));
		}
		SESSILE_G(created) = zend_string_copy(id);
	}
	return id;
}

/* PHP gives an id that is not valid another one, and the visitor's cookie with it. So this says no only if the store has
 * said that there is no such session. When it has not answered, or the lock was not to be had, the id stays, and read
 * fails for the reason that was met here. */
PS_VALIDATE_SID_FUNC(sessile)
{
	sessile_error *error = &SESSILE_G(error);
	sessile_code code;
	bool found = false;

	sessile_restore_path();
	if (SESSILE_G(lease) || wants_no_lock() || sessile_call_only_makes_an_id()) {
		code = find(key, &found, error);
		if (sessile_call_only_makes_an_id()) {
			return found ? SUCCESS : FAILURE;
		}
	} else {
		/* read would take the lock next: that answers this as well, in one turn. */
		code = begin(key, error);
		if (code == SESSILE_OK) {
			found = SESSILE_G(record).found;
			SESSILE_G(validated) = true;
			if (!found) {
				sessile_forget_session();
			}
		}
	}
	SESSILE_G(failed) = code != SESSILE_OK && code != SESSILE_INVALID_ID;
	return found || SESSILE_G(failed) ? SUCCESS : FAILURE;
}

const ps_module sessile_ps_module = { PS_MOD_UPDATE_TIMESTAMP(sessile) };
