/* Which function of PHP's session extension is running, and how it was called.
 *
 * PHP tells a save handler neither that session_start() was called with read_and_close, nor that a session is closed
 * because session_regenerate_id() goes on with it under another id. So the running internal call is looked at. Where
 * that does not tell (a handler in PHP that extends SessionHandler stands between), the answer is no, and everything
 * is done the careful way: with the lock, and without a grace.
 */

#include "php_sessile.h"

static zend_always_inline bool is_named(const zend_execute_data *call, const char *name, size_t length)
{
	const zend_string *its_name;

	if (!call->func || call->func->type != ZEND_INTERNAL_FUNCTION || call->func->common.scope) {
		return false;
	}
	its_name = call->func->common.function_name;
	return its_name && ZSTR_LEN(its_name) == length && !memcmp(ZSTR_VAL(its_name), name, length);
}

static zend_always_inline zend_execute_data *running_named(const char *name, size_t length)
{
	zend_execute_data *call = EG(current_execute_data);

	return call && is_named(call, name, length) ? call : NULL;
}

#define running(name) running_named(ZEND_STRL(name))

static zval *first_argument(zend_execute_data *call)
{
	zval *argument;

	if (!call || ZEND_CALL_NUM_ARGS(call) < 1) {
		return NULL;
	}
	argument = ZEND_CALL_ARG(call, 1);
	ZVAL_DEREF(argument);
	return argument;
}

bool sessile_call_reads_and_closes(void)
{
	zval *options = first_argument(running("session_start"));
	zval *option = NULL;

	if (options && Z_TYPE_P(options) == IS_ARRAY) {
		option = zend_hash_str_find(Z_ARRVAL_P(options), ZEND_STRL("read_and_close"));
	}
	return option && zval_get_long(option) > 0;
}

bool sessile_call_regenerates_and_keeps(void)
{
	zend_execute_data *call = running("session_regenerate_id");
	zval *deletes = first_argument(call);

	return call && !(deletes && zend_is_true(deletes));
}

bool sessile_call_regenerates(void)
{
	return running("session_regenerate_id") != NULL;
}

bool sessile_call_only_makes_an_id(void)
{
	return running("session_create_id") || running("session_regenerate_id");
}

/* Also through a handler in PHP: nothing else but session_start() has sessions collected. */
bool sessile_call_collects(void)
{
	for (zend_execute_data *call = EG(current_execute_data); call; call = call->prev_execute_data) {
		if (is_named(call, ZEND_STRL("session_gc"))) {
			return true;
		}
		if (is_named(call, ZEND_STRL("session_start"))) {
			return false;
		}
	}
	return false;
}
