/* Sessions for Perl: Perl's values in terms of the C interface.
 *
 * A store and the session of a request are C structures in the magic of a hash. Magic is freed with
 * its hash, also at the end of a process, when Perl destroys objects in any order. So a session is
 * given back whatever became of the request, and its holder may be any hash: an object, a tied one,
 * or the session of a framework. What is done with a session is decided in the library.
 */

#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include <sessile.h>
#include <sys/random.h>

typedef struct {
	sessile_store *store;
	sessile_rules rules;
	unsigned references;
} opened_store;

typedef struct {
	sessile_request *request;
	opened_store *opened;
	SV *id;
	/* What the store has, as far as this request has read or saved it. */
	SV *stored;
	/* Whether a save has given the lock back, or has failed: the next save opens the session
	 * again, and then knows what others have stored. */
	bool given_back;
} held_session;

/* A failed call, copied off the stack before Perl leaves by a jump. */
static void fail(pTHX_ const sessile_error *error)
{
	HV *self = newHV();
	SV *reference = sv_2mortal(newRV_noinc((SV *) self));

	(void) hv_stores(self, "kind", newSVpv(sessile_code_name(error->code), 0));
	(void) hv_stores(self, "message", newSVpvn_utf8(error->message, strlen(error->message), 1));
	sessile_log_drop(error);
	sv_bless(reference, gv_stashpvs("Sessile::Error", GV_ADD));
	croak_sv(reference);
}

/* A failure that no call of the library has. */
static void fail_as(pTHX_ sessile_code code, const char *message)
{
	sessile_error error;

	error.code = code;
	my_snprintf(error.message, sizeof error.message, "%s", message);
	fail(aTHX_ &error);
}

/* Runs code of the application, if that handles warnings. So it comes last in a call: the code may
 * die, or let go of the session. */
static void log_messages(pTHX)
{
	sessile_message message;

	while (sessile_log_next(&message)) {
		warn("Sessile: %s\n", message.text);
	}
}

static void check(pTHX_ sessile_code code, const sessile_error *error)
{
	if (code != SESSILE_OK) {
		fail(aTHX_ error);
	}
	log_messages(aTHX);
}

/* May run code of the application, for a value that is an object or tied. So arguments come before
 * the session, which such code can let go of. */
static sessile_bytes bytes_of(pTHX_ SV *value)
{
	STRLEN length;
	const char *data = SvPVbyte(value, length);

	return (sessile_bytes) { data, length };
}

/* The stores. Several interpreters may use one at once. */

static void store_done(opened_store *opened)
{
	if (__atomic_sub_fetch(&opened->references, 1, __ATOMIC_ACQ_REL) == 0) {
		sessile_close(opened->store);
		free(opened);
	}
}

static int store_free(pTHX_ SV *hash, MAGIC *magic)
{
	PERL_UNUSED_VAR(hash);
	store_done((opened_store *) magic->mg_ptr);
	return 0;
}

static int store_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *param)
{
	PERL_UNUSED_CONTEXT;
	PERL_UNUSED_VAR(param);
	__atomic_add_fetch(&((opened_store *) magic->mg_ptr)->references, 1, __ATOMIC_ACQ_REL);
	return 0;
}

static MGVTBL store_magic = { .svt_free = store_free, .svt_dup = store_dup };

/* The sessions. */

static int session_free(pTHX_ SV *hash, MAGIC *magic)
{
	held_session *held = (held_session *) magic->mg_ptr;

	PERL_UNUSED_VAR(hash);
	/* Without a session: another thread has it. */
	if (held) {
		sessile_request_free(held->request);
		store_done(held->opened);
		SvREFCNT_dec(held->id);
		SvREFCNT_dec(held->stored);
		free(held);
		magic->mg_ptr = NULL;
	}
	return 0;
}

static int session_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *param)
{
	PERL_UNUSED_CONTEXT;
	PERL_UNUSED_VAR(param);
	magic->mg_ptr = NULL;
	return 0;
}

static MGVTBL session_magic = { .svt_free = session_free, .svt_dup = session_dup };

static void *find(pTHX_ SV *reference, MGVTBL *kind)
{
	MAGIC *magic;

	if (!SvROK(reference) || SvTYPE(SvRV(reference)) != SVt_PVHV) {
		croak("Sessile: a reference to a hash is wanted");
	}
	magic = SvMAGICAL(SvRV(reference)) || SvMAGIC(SvRV(reference))
		? mg_findext(SvRV(reference), PERL_MAGIC_ext, kind) : NULL;
	return magic ? magic->mg_ptr : NULL;
}

static void attach(pTHX_ SV *reference, MGVTBL *kind, void *value)
{
	MAGIC *magic = sv_magicext(SvRV(reference), NULL, PERL_MAGIC_ext, kind, (char *) value, 0);

	magic->mg_flags |= MGf_DUP;
}

static opened_store *store_of(pTHX_ SV *reference)
{
	opened_store *opened = find(aTHX_ reference, &store_magic);

	if (!opened) {
		croak("Sessile: no store is open here");
	}
	return opened;
}

static held_session *session_of(pTHX_ SV *reference)
{
	held_session *held = find(aTHX_ reference, &session_magic);

	if (!held) {
		croak("Sessile: no session is open here");
	}
	return held;
}

static void let_go(pTHX_ SV *reference)
{
	sv_unmagicext(SvRV(reference), PERL_MAGIC_ext, &session_magic);
}

/* Takes the payload over. */
static void remember(pTHX_ held_session *held, SV *payload, bool given_back)
{
	SvREFCNT_dec(held->stored);
	held->stored = payload;
	held->given_back = given_back;
}

static held_session *new_session(pTHX_ SV *holder, opened_store *opened)
{
	held_session *held = malloc(sizeof *held);
	sessile_request *request = sessile_request_new();

	if (!held || !request) {
		free(held);
		sessile_request_free(request);
		croak("Sessile: out of memory");
	}
	*held = (held_session) { request, opened, NULL, NULL, false };
	__atomic_add_fetch(&opened->references, 1, __ATOMIC_ACQ_REL);
	sessile_request_set_rules(request, opened->rules);
	let_go(aTHX_ holder);
	attach(aTHX_ holder, &session_magic, held);
	return held;
}

/* The settings of the application, in the order of Sessile::SETTINGS. */
enum {
	EXPIRES, LIFETIME, LOCK_WAIT, GRACE, READ_ON_LOCK_TIMEOUT, LAZY_START, TOUCH_UNLOCKED, MERGE,
	FAIL_ON_CONFLICT, FORMAT, SETTINGS
};

static uint64_t milliseconds(pTHX_ SV *seconds)
{
	NV value = SvNV(seconds) * 1000;

	return value <= 0 ? 0 : value >= SESSILE_TTL_MAX_MS ? SESSILE_TTL_MAX_MS : (uint64_t) value;
}

static sessile_format format_of(pTHX_ SV *name)
{
	const char *text = SvPV_nolen(name);

	return !strcmp(text, "json") ? SESSILE_FORMAT_JSON
		: !strcmp(text, "php") ? SESSILE_FORMAT_PHP
		: !strcmp(text, "php_serialize") ? SESSILE_FORMAT_PHP_SERIALIZE
		: SESSILE_FORMAT_OTHER;
}

static SV *new_id(pTHX_ IV digits)
{
	unsigned char bytes[128];
	size_t wanted = (size_t) (digits + 1) / 2;
	SV *id;

	if (digits < 1 || wanted > sizeof bytes) {
		croak("Sessile: an id has 1 to 256 digits");
	}
	if (getrandom(bytes, wanted, 0) != (ssize_t) wanted) {
		croak("Sessile: the system has no random bytes");
	}
	id = newSV(wanted * 2 + 1);
	for (size_t at = 0; at < wanted; at++) {
		SvPVX(id)[2 * at] = PL_hexdigit[bytes[at] >> 4];
		SvPVX(id)[2 * at + 1] = PL_hexdigit[bytes[at] & 15];
	}
	SvPVX(id)[digits] = 0;
	SvCUR_set(id, digits);
	SvPOK_only(id);
	return id;
}

static const char *saved_name(sessile_saved saved)
{
	switch (saved) {
	case SESSILE_STORED: return "stored";
	case SESSILE_TOUCHED: return "touched";
	case SESSILE_NOTHING: return "nothing";
	case SESSILE_WITHDRAW_COOKIE: return "withdraw-cookie";
	case SESSILE_LOGGED_OUT: return "logged-out";
	case SESSILE_REPLACED: return "replaced";
	default: return "ended";
	}
}

/* The session was opened, or moved to a new id. */
static SV *payload_of(pTHX_ held_session *held, sessile_bytes payload)
{
	SV *copy = newSVpvn(payload.length ? payload.data : "", payload.length);

	sessile_request_loaded(held->request);
	remember(aTHX_ held, SvREFCNT_inc(copy), false);
	return copy;
}

/* The values of a tied hash. */
static HV *data_of(pTHX_ SV *self)
{
	SV **data = SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVHV
		? hv_fetchs((HV *) SvRV(self), "data", 0) : NULL;

	return data && SvROK(*data) && SvTYPE(SvRV(*data)) == SVt_PVHV ? (HV *) SvRV(*data) : NULL;
}

MODULE = Sessile  PACKAGE = Sessile

PROTOTYPES: DISABLE

BOOT:
	if (sessile_abi() != SESSILE_ABI) {
		croak("Sessile: built for version %d of the library, which has version %d; build it anew",
			SESSILE_ABI, (int) sessile_abi());
	}
	sessile_log_start();

const char *
version()
    CODE:
	RETVAL = sessile_version();
    OUTPUT:
	RETVAL

const char *
_kind(unsigned code)
    CODE:
	RETVAL = sessile_code_name(code);
    OUTPUT:
	RETVAL

void
_open(SV *self, SV *url, AV *settings)
    INIT:
	sessile_error error;
	sessile_store *store = NULL;
	sessile_rules rules;
	opened_store *opened;
	SV *value[SETTINGS];
    CODE:
	for (int at = 0; at < SETTINGS; at++) {
		SV **found = av_fetch(settings, at, 0);
		value[at] = found ? *found : &PL_sv_undef;
	}
	rules = (sessile_rules) {
		.idle_ms = milliseconds(aTHX_ value[EXPIRES]),
		.lifetime_ms = milliseconds(aTHX_ value[LIFETIME]),
		.lock_wait_ms = milliseconds(aTHX_ value[LOCK_WAIT]),
		.grace_ms = milliseconds(aTHX_ value[GRACE]),
		.read_on_lock_timeout = SvTRUE(value[READ_ON_LOCK_TIMEOUT]),
		.lazy_start = SvTRUE(value[LAZY_START]),
		.touch_unlocked = SvTRUE(value[TOUCH_UNLOCKED]),
		.merge = SvTRUE(value[MERGE]),
		.fail_on_conflict = SvTRUE(value[FAIL_ON_CONFLICT]),
		.format = format_of(aTHX_ value[FORMAT]),
	};
	if (sessile_open(bytes_of(aTHX_ url), &store, &error) != SESSILE_OK) {
		fail(aTHX_ &error);
	}
	opened = malloc(sizeof *opened);
	if (!opened) {
		sessile_close(store);
		croak("Sessile: out of memory");
	}
	*opened = (opened_store) { store, rules, 1 };
	attach(aTHX_ self, &store_magic, opened);
	log_messages(aTHX);

const char *
label(SV *self)
    CODE:
	RETVAL = sessile_label(store_of(aTHX_ self)->store);
    OUTPUT:
	RETVAL

SV *
peek(SV *self, SV *id)
    INIT:
	sessile_error error;
	sessile_record record;
	sessile_key key = { { NULL, 0 }, { NULL, 0 } };
	sessile_code code;
    CODE:
	key.id = bytes_of(aTHX_ id);
	code = sessile_peek(store_of(aTHX_ self)->store, key, &record, &error);
	if (code != SESSILE_OK) {
		fail(aTHX_ &error);
	}
	RETVAL = record.found ? newSVpvn(record.payload_length ? record.payload : "",
		record.payload_length) : newSV(0);
	sessile_record_free(&record);
	log_messages(aTHX);
    OUTPUT:
	RETVAL

void
touch(SV *self, SV *id)
    INIT:
	sessile_error error;
	sessile_key key = { { NULL, 0 }, { NULL, 0 } };
	opened_store *opened = store_of(aTHX_ self);
	sessile_ttl ttl = { opened->rules.idle_ms, opened->rules.lifetime_ms };
	sessile_code code;
    CODE:
	key.id = bytes_of(aTHX_ id);
	code = sessile_touch(opened->store, key, ttl, &error);
	check(aTHX_ code, &error);

void
destroy(SV *self, SV *id)
    INIT:
	sessile_error error;
	sessile_key key = { { NULL, 0 }, { NULL, 0 } };
	sessile_code code;
    CODE:
	key.id = bytes_of(aTHX_ id);
	code = sessile_destroy(store_of(aTHX_ self)->store, key, &error);
	check(aTHX_ code, &error);

UV
collect(SV *self, bool all = false)
    INIT:
	sessile_error error;
	uint64_t removed = 0;
	sessile_code code;
    CODE:
	code = sessile_collect(store_of(aTHX_ self)->store, all, &removed, &error);
	check(aTHX_ code, &error);
	RETVAL = removed;
    OUTPUT:
	RETVAL

HV *
counters(SV *self)
    INIT:
	const sessile_store *store = store_of(aTHX_ self)->store;
	const char *name;
	uint64_t value;
    CODE:
	RETVAL = (HV *) sv_2mortal((SV *) newHV());
	for (size_t number = 0; (name = sessile_counter(store, number, &value)); number++) {
		(void) hv_store(RETVAL, name, strlen(name), newSVuv(value), 0);
	}
    OUTPUT:
	RETVAL

SV *
new_id(IV digits = 32)
    CODE:
	RETVAL = new_id(aTHX_ digits);
    OUTPUT:
	RETVAL

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
	sessile_bytes given = bytes_of(aTHX_ payload);
	sessile_bytes id, stored = { "", 0 };
	held_session *held = session_of(aTHX_ holder);
    CODE:
	id = bytes_of(aTHX_ held->id);
	if (held->stored) {
		stored = bytes_of(aTHX_ held->stored);
	}
	if (changed < 0) {
		changed = !held->stored || stored.length != given.length
			|| memcmp(stored.data, given.data, given.length) != 0;
	} else if (changed == 0 && held->stored) {
		/* One that is gone meanwhile is stored anew. */
		given = stored;
	}
	with = (sessile_save) {
		.payload = given,
		.serialised = true,
		.changed = changed,
		.headers_open = headers_open,
		.empty = empty,
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
	sessile_key key = { { NULL, 0 }, { NULL, 0 } };
	sessile_bytes stored;
	sessile_code code;
	bool same;
	held_session *held = session_of(aTHX_ holder);
    CODE:
	if (held->given_back && !held->opened->rules.merge) {
		key.id = bytes_of(aTHX_ held->id);
		stored = bytes_of(aTHX_ held->stored);
		code = sessile_request_reopen(held->request, held->opened->store, key.id, stored, &error);
		if (code == SESSILE_OK) {
			code = sessile_peek(held->opened->store, key, &record, &error);
		}
		if (code != SESSILE_OK) {
			sessile_request_reset(held->request);
			fail(aTHX_ &error);
		}
		same = !record.found || (record.payload_length == stored.length
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

MODULE = Sessile  PACKAGE = Apache::Session::Sessile

# The methods of a tied hash whose values are in {data}, as in Apache::Session, for speed.

void
FETCH(SV *self, SV *key)
    INIT:
	HV *data = data_of(aTHX_ self);
	HE *entry = data ? hv_fetch_ent(data, key, 0, 0) : NULL;
    PPCODE:
	PUSHs(entry ? HeVAL(entry) : &PL_sv_undef);

void
STORE(SV *self, SV *key, SV *value)
    INIT:
	HV *data = data_of(aTHX_ self);
	SV **status = data ? hv_fetchs((HV *) SvRV(self), "status", 1) : NULL;
    CODE:
	if (data) {
		HE *entry = hv_fetch_ent(data, key, 1, 0);
		if (entry) {
			sv_setsv(HeVAL(entry), value);
		}
		if (status) {
			sv_setuv(*status, SvUV(*status) | 2);
		}
	}
