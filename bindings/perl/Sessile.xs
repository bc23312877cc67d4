/* Sessions for Perl: Perl's values in terms of the C interface.
 *
 * What is done with a session is decided in the library. Each package has a file.
 */

#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include <sessile.h>
#include <sys/random.h>

#include "errors.h"
#include "held.h"

/* The settings of the application, in the order of Sessile::SETTINGS. */
enum {
	EXPIRES, FIRST_LIFETIME, LIFETIME, LOCK_WAIT, GRACE, READ_ON_LOCK_TIMEOUT, LAZY_START,
	TOUCH_UNLOCKED, MERGE, FAIL_ON_CONFLICT, FORMAT, SETTINGS
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

SV *
new_id(IV digits = 32)
    CODE:
	RETVAL = new_id(aTHX_ digits);
    OUTPUT:
	RETVAL

INCLUDE: store.xsh

INCLUDE: session.xsh

INCLUDE: tied_hash.xsh
