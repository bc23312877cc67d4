/* The running function of PHP's session extension.
 *
 * PHP does not tell a save handler that session_start() was called with read_and_close, or that
 * session_regenerate_id() closes a session to go on with it under another id. So the running calls
 * are searched for the innermost function of the session extension, also below a handler in PHP.
 */

#include "php_sessile.h"

#define PREFIX "session_"

static const zend_string *session_function(const zend_execute_data *call)
{
	const zend_string *name;

	if (!call->func || call->func->type != ZEND_INTERNAL_FUNCTION || call->func->common.scope) {
		return NULL;
	}
	name = call->func->common.function_name;
	return name && ZSTR_LEN(name) > strlen(PREFIX) && !memcmp(ZSTR_VAL(name), PREFIX, strlen(PREFIX))
		? name : NULL;
}

/* The first argument, or an option in it if that has a name. */
static bool is_asked_for(zend_execute_data *call, const char *option)
{
	zval *argument = ZEND_CALL_NUM_ARGS(call) ? ZEND_CALL_ARG(call, 1) : NULL;

	if (argument) {
		ZVAL_DEREF(argument);
	}
	if (argument && option) {
		argument = Z_TYPE_P(argument) == IS_ARRAY
			? zend_hash_str_find(Z_ARRVAL_P(argument), option, strlen(option)) : NULL;
		return argument && zval_get_long(argument) > 0;
	}
	return argument && zend_is_true(argument);
}

sessile_call sessile_running_call(void)
{
	const zend_string *name;

	for (zend_execute_data *call = EG(current_execute_data); call; call = call->prev_execute_data) {
		if (!(name = session_function(call))) {
			continue;
		}
		if (zend_string_equals_literal(name, "session_start")) {
			return is_asked_for(call, "read_and_close") ? SESSILE_CALL_READS : SESSILE_CALL_OTHER;
		}
		if (zend_string_equals_literal(name, "session_regenerate_id")) {
			return is_asked_for(call, NULL) ? SESSILE_CALL_REPLACES : SESSILE_CALL_REGENERATES;
		}
		if (zend_string_equals_literal(name, "session_create_id")) {
			return SESSILE_CALL_MAKES_ID;
		}
		if (zend_string_equals_literal(name, "session_gc")) {
			return SESSILE_CALL_COLLECTS;
		}
		return SESSILE_CALL_OTHER;
	}
	return SESSILE_CALL_NONE;
}
