# The session of one request: Sessile::Session.

MODULE = Sessile  PACKAGE = Sessile::Session

SV *
open(SV *holder, SV *sessions, SV *id, bool locked = true, bool strict = false)
    INIT:
	sessile_error error;
	sessile_bytes payload;
	sessile_code code;
	opened_store *opened = store_of(aTHX_ sessions);
	sessile_bytes name = bytes_of(aTHX_ id);
	held_session *held;
    CODE:
	held = find(aTHX_ holder, &session_magic);
	if (!held || held->opened != opened) {
		held = new_session(aTHX_ holder, opened);
	}
	SvREFCNT_dec(held->id);
	held->id = newSVpvn(name.data, name.length);
	remember(aTHX_ held, NULL, false);
	if (strict && !sessile_request_validate(held->request, opened->store, name, locked)) {
		let_go(aTHX_ holder);
		log_messages(aTHX);
		XSRETURN_UNDEF;
	}
	code = sessile_request_open(held->request, opened->store, name, locked, &payload, &error);
	if (code != SESSILE_OK) {
		let_go(aTHX_ holder);
		fail(aTHX_ &error);
	}
	RETVAL = payload_of(aTHX_ held, payload);
	/* From here on it may be gone. */
	if (error.code != SESSILE_OK) {
		sessile_log_drop(&error);
		warn("Sessile: %s\n", error.message);
	}
	log_messages(aTHX);
    OUTPUT:
	RETVAL

bool
is_open(SV *holder)
    CODE:
	RETVAL = find(aTHX_ holder, &session_magic) != NULL;
    OUTPUT:
	RETVAL

SV *
id(SV *holder)
    CODE:
	RETVAL = newSVsv(session_of(aTHX_ holder)->id);
    OUTPUT:
	RETVAL

SV *
stored(SV *holder)
    INIT:
	held_session *held = session_of(aTHX_ holder);
    CODE:
	RETVAL = held->stored ? newSVsv(held->stored) : newSV(0);
    OUTPUT:
	RETVAL

# A session that is not opened: it is saved only if none is stored under its id.
void
unopened(SV *holder, SV *sessions, SV *id)
    INIT:
	opened_store *opened = store_of(aTHX_ sessions);
	sessile_bytes name = bytes_of(aTHX_ id);
    CODE:
	new_session(aTHX_ holder, opened)->id = newSVpvn(name.data, name.length);

bool
make_id(SV *holder, SV *sessions, SV *id)
    INIT:
	opened_store *opened = store_of(aTHX_ sessions);
	held_session *held;
    CODE:
	held = new_session(aTHX_ holder, opened);
	held->id = newSVsv(id);
	RETVAL = !sessile_request_is_taken(held->request, opened->store, bytes_of(aTHX_ id), true);
    OUTPUT:
	RETVAL

const char *
save(SV *holder, SV *payload, IV changed = -1, bool headers_open = false, bool empty = false)
    INIT:
	sessile_error error;
	sessile_saved saved = SESSILE_NOTHING;
	sessile_save with;
	sessile_code code = SESSILE_OK;
	sessile_bytes id, stored, given = bytes_of(aTHX_ payload);
	held_session *held = session_of(aTHX_ holder);
    CODE:
	id = bytes_of(aTHX_ held->id);
	stored = held->stored ? bytes_of(aTHX_ held->stored) : (sessile_bytes) { "", 0 };
	if (changed < 0) {
		changed = !held->stored || stored.length != given.length
			|| memcmp(stored.data, given.data, given.length) != 0;
	} else if (changed == 0 && held->stored) {
		/* One that is gone meanwhile is stored anew. */
		given = stored;
	}
	with = (sessile_save) {
		.payload = given, .serialised = true, .changed = changed,
		.headers_open = headers_open, .empty = empty,
	};
	if (held->given_back) {
		code = sessile_request_reopen(held->request, held->opened->store, id, stored, &error);
		held->given_back = code != SESSILE_OK;
	}
	if (code == SESSILE_OK) {
		code = sessile_request_save(held->request, held->opened->store, id, with, &saved, &error);
		/* Unless it was read without its lock, or waits in vain for it. */
		held->given_back = held->stored && code != SESSILE_OK && code != SESSILE_UNSUPPORTED
			&& code != SESSILE_LOCK_TIMEOUT;
		if (saved == SESSILE_NOTHING && code == SESSILE_OK && changed && !empty && (stored.length
				!= given.length || memcmp(stored.data, given.data, given.length) != 0)) {
			/* The session is that of the parent process, and this fails and says so. */
			code = sessile_request_reopen(held->request, held->opened->store, id, stored, &error);
			held->given_back = true;
		}
	} else if (code == SESSILE_DESTROYED) {
		saved = SESSILE_LOGGED_OUT;
		code = SESSILE_OK;
	}
	if (saved == SESSILE_LOGGED_OUT) {
		/* It is counted, and at each log-out a warning would be noise. */
		sessile_log_drop(&error);
	}
	if (saved == SESSILE_STORED) {
		remember(aTHX_ held, newSVpvn(given.data, given.length), true);
	}
	RETVAL = saved_name(saved);
	check(aTHX_ code, &error);
    OUTPUT:
	RETVAL

void
_set_owner(SV *holder, SV *owner)
    INIT:
	sessile_error error;
	sessile_bytes name = SvOK(owner) ? bytes_of(aTHX_ owner) : (sessile_bytes) { NULL, 0 };
	held_session *held = session_of(aTHX_ holder);
    CODE:
	check(aTHX_ sessile_request_set_owner(held->request, held->opened->store, name, &error), &error);

# Gives the lock back. The next save takes it again.
void
give_back(SV *holder)
    INIT:
	held_session *held = session_of(aTHX_ holder);
    CODE:
	if (held->stored && !held->given_back) {
		sessile_request_reset(held->request);
		held->given_back = true;
	}

# Takes the lock again that a save has given back. With `merge` requests run in parallel.
void
hold(SV *holder)
    INIT:
	sessile_error error;
	sessile_record record;
	sessile_code code;
	held_session *held = session_of(aTHX_ holder);
    CODE:
	if (held->given_back && !held->opened->rules.merge) {
		sessile_key key = { { NULL, 0 }, bytes_of(aTHX_ held->id) };
		sessile_bytes stored = bytes_of(aTHX_ held->stored);
		code = sessile_request_reopen(held->request, held->opened->store, key.id, stored, &error);
		if (code == SESSILE_OK) {
			code = sessile_peek(held->opened->store, key, &record, &error);
		}
		if (code != SESSILE_OK) {
			sessile_request_reset(held->request);
			fail(aTHX_ &error);
		}
		bool same = !record.found || (record.payload_length == stored.length
			&& memcmp(record.payload, stored.data, stored.length) == 0);
		sessile_record_free(&record);
		if (!same) {
			sessile_request_reset(held->request);
			fail_as(aTHX_ SESSILE_STALE, "the session is stored, but another request has changed it"
				" before it could be held again; open it anew");
		}
		held->given_back = false;
		log_messages(aTHX);
	}

SV *
regenerate(SV *holder, SV *to_id, bool keeps = true)
    INIT:
	sessile_error error;
	sessile_bytes payload;
	sessile_code code = SESSILE_OK;
	sessile_bytes to = bytes_of(aTHX_ to_id);
	held_session *held = session_of(aTHX_ holder);
	sessile_store *store = held->opened->store;
    CODE:
	if (held->given_back) {
		code = sessile_request_reopen(held->request, store, bytes_of(aTHX_ held->id),
			bytes_of(aTHX_ held->stored), &error);
		held->given_back = code != SESSILE_OK;
	}
	if (code != SESSILE_OK) {
		fail(aTHX_ &error);
	}
	code = sessile_request_leave_id(held->request, store, bytes_of(aTHX_ held->id), keeps, &error);
	if (code == SESSILE_OK) {
		code = sessile_request_open(held->request, store, to, true, &payload, &error);
	}
	if (code != SESSILE_OK) {
		fail(aTHX_ &error);
	}
	sessile_request_loaded(held->request);
	SvREFCNT_dec(held->id);
	held->id = newSVpvn(to.data, to.length);
	RETVAL = newSVsv(held->id);
	log_messages(aTHX);
    OUTPUT:
	RETVAL

void
destroy(SV *holder)
    INIT:
	sessile_error error;
	sessile_code code;
	held_session *held = session_of(aTHX_ holder);
    CODE:
	code = sessile_request_destroy(held->request, held->opened->store,
		bytes_of(aTHX_ held->id), &error);
	remember(aTHX_ held, NULL, false);
	check(aTHX_ code, &error);

bool
close(SV *holder, bool headers_open = true)
    INIT:
	held_session *held = find(aTHX_ holder, &session_magic);
    CODE:
	RETVAL = held && sessile_request_close(held->request, held->opened->store, headers_open);
	let_go(aTHX_ holder);
	log_messages(aTHX);
    OUTPUT:
	RETVAL
