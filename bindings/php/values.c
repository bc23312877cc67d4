/* Questions about $_SESSION that its serialised text does not answer. */

#include "php_sessile.h"

static HashTable *session_values(void)
{
	zval *session = &PS(http_session_vars);

	ZVAL_DEREF(session);
	return Z_TYPE_P(session) == IS_ARRAY ? Z_ARRVAL_P(session) : NULL;
}

/* Not by the text, which depends on the serialiser. */
bool sessile_is_empty(void)
{
	const HashTable *values = session_values();

	return !values || zend_hash_num_elements(values) == 0;
}

static bool has_named_value(void)
{
	HashTable *values = session_values();
	zend_string *name;

	if (values) {
		ZEND_HASH_FOREACH_STR_KEY(values, name) {
			if (name) {
				return true;
			}
		} ZEND_HASH_FOREACH_END();
	}
	return false;
}

/* If a value cannot be serialised, PHP passes a partial text or none. (PHP's own serialiser skips
 * unnamed values with a notice.) A handler in PHP that does not stand on this one may use another
 * encoding.
 */
bool sessile_is_torn(const zend_string *text)
{
	return EG(exception) || (sessile_is_handler() && !ZSTR_LEN(text) && has_named_value());
}
