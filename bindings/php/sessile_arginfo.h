/* What sessile.stub.php says, for PHP. */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_sessile_counters, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_sessile_set_owner, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, owner, IS_STRING, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_sessile_set_lifetime, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_sessile_revoke, 0, 1, MAY_BE_LONG|MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, owner, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keep_open, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_FUNCTION(sessile_counters);
ZEND_FUNCTION(sessile_set_owner);
ZEND_FUNCTION(sessile_set_lifetime);
ZEND_FUNCTION(sessile_revoke);

static const zend_function_entry ext_functions[] = {
	ZEND_FE(sessile_counters, arginfo_sessile_counters)
	ZEND_FE(sessile_set_owner, arginfo_sessile_set_owner)
	ZEND_FE(sessile_set_lifetime, arginfo_sessile_set_lifetime)
	ZEND_FE(sessile_revoke, arginfo_sessile_revoke)
	ZEND_FE_END
};
