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
			/* As `_modify` of the module. */
			sv_setuv(*status, (SvUV(*status) & 15) | 2 | (UV) getpid() << 4);
		}
	}
