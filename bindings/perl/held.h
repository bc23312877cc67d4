/* Stores and sessions in the magic of a hash.
 *
 * Magic is freed with its hash, also at the end of a process, when Perl destroys objects in any
 * order. So a session is given back whatever became of the request, and its holder may be any hash:
 * an object, a tied one, or the session of a framework.
 */

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
