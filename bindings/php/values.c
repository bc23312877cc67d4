/* Questions about $_SESSION that its serialised text does not answer. */

#include "php_sessile.h"

/* Not by the text, which depends on the serialiser. */
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

/* If a value cannot be serialised, PHP passes a partial text or none. (PHP's own serialiser skips
 * unnamed values with a notice.) A handler in PHP may use another encoding.
 */
bool sessile_is_torn(const zend_string *text)
{
	return EG(exception) || (PS(mod) == &sessile_ps_module && !ZSTR_LEN(text) && has_named_value());
}
