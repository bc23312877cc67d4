/* What sessile.stub.php says, for PHP. */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_sessile_counters, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_FUNCTION(sessile_counters);

static const zend_function_entry ext_functions[] = {
	ZEND_FE(sessile_counters, arginfo_sessile_counters)
	ZEND_FE_END
};
