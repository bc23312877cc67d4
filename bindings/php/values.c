/* What the application has put into $_SESSION, where the text that PHP made of it does not tell. */

#include "php_sessile.h"

/* Not by its text, which each serialiser writes in its own way. */
bool sessile_is_empty(void)
{
	zval *session = &PS(http_session_vars);

	ZVAL_DEREF(session);
	return Z_TYPE_P(session) != IS_ARRAY || zend_hash_num_elements(Z_ARRVAL_P(session)) == 0;
}

static bool has_named_value(void)
{
	zval *session = &PS(http_session_vars);
	zend_string *name;

	ZVAL_DEREF(session);
	if (Z_TYPE_P(session) == IS_ARRAY) {
		ZEND_HASH_FOREACH_STR_KEY(Z_ARRVAL_P(session), name) {
			if (name) {
				return true;
			}
		} ZEND_HASH_FOREACH_END();
	}
	return false;
}

/* When a value cannot be serialised PHP passes on what it has so far, or nothing: neither is the session. (Values without a
 * name are nothing by PHP's own serialiser, which says so.) A handler in PHP may encode in its own way. */
bool sessile_is_torn(const zend_string *text)
{
	return EG(exception) || (PS(mod) == &sessile_ps_module && !ZSTR_LEN(text) && has_named_value());
}

/* An exception says itself what was wrong. */
void sessile_warn_torn(void)
{
	if (!EG(exception)) {
		php_error_docref(NULL, E_WARNING,
			"the session cannot be serialised; nothing is saved, and what was stored before stays");
	}
}
