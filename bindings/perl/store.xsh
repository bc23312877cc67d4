# A store: Sessile.

MODULE = Sessile  PACKAGE = Sessile

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
		.first_lifetime_ms = milliseconds(aTHX_ value[FIRST_LIFETIME]),
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
	sessile_key key = { { NULL, 0 }, bytes_of(aTHX_ id) };
    CODE:
	if (sessile_peek(store_of(aTHX_ self)->store, key, &record, &error) != SESSILE_OK) {
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
	sessile_key key = { { NULL, 0 }, bytes_of(aTHX_ id) };
	opened_store *opened = store_of(aTHX_ self);
    CODE:
	check(aTHX_ sessile_touch(opened->store, key,
		(sessile_ttl) { opened->rules.idle_ms, opened->rules.lifetime_ms }, &error), &error);

void
destroy(SV *self, SV *id)
    INIT:
	sessile_error error;
	sessile_key key = { { NULL, 0 }, bytes_of(aTHX_ id) };
    CODE:
	check(aTHX_ sessile_destroy(store_of(aTHX_ self)->store, key, &error), &error);

UV
_revoke(SV *self, SV *owner, SV *but)
    INIT:
	sessile_error error;
	uint64_t ended = 0;
	sessile_bytes name = bytes_of(aTHX_ owner);
	sessile_bytes kept = bytes_of(aTHX_ but);
    CODE:
	check(aTHX_ sessile_revoke(store_of(aTHX_ self)->store, name, kept, &ended, &error), &error);
	RETVAL = ended;
    OUTPUT:
	RETVAL

UV
collect(SV *self, bool all = false)
    INIT:
	sessile_error error;
	uint64_t removed = 0;
    CODE:
	check(aTHX_ sessile_collect(store_of(aTHX_ self)->store, all, &removed, &error), &error);
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
