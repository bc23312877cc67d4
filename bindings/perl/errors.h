/* Failed calls as exceptions of Perl, log lines as warnings, and bytes of values. */

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
