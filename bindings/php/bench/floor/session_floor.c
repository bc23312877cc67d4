/* A save handler that keeps strings in an array of its process: the cost of a session in PHP
 * itself.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php.h"
#include "ext/session/php_session.h"

static HashTable payloads;

PS_OPEN_FUNC(floor)
{
	PS_SET_MOD_DATA(&payloads);
	return SUCCESS;
}

PS_CLOSE_FUNC(floor)
{
	PS_SET_MOD_DATA(NULL);
	return SUCCESS;
}

PS_READ_FUNC(floor)
{
	zend_string *stored = zend_hash_find_ptr(&payloads, key);
	*val = stored ? zend_string_init(ZSTR_VAL(stored), ZSTR_LEN(stored), 0) : ZSTR_EMPTY_ALLOC();
	return SUCCESS;
}

PS_WRITE_FUNC(floor)
{
	/* Persistent strings: PHP frees the others after the request. */
	zend_string *stored = zend_string_init(ZSTR_VAL(val), ZSTR_LEN(val), 1);
	if (zend_hash_exists(&payloads, key)) {
		zend_hash_update_ptr(&payloads, key, stored);
	} else {
		zend_string *kept = zend_string_init(ZSTR_VAL(key), ZSTR_LEN(key), 1);
		zend_hash_add_ptr(&payloads, kept, stored);
		zend_string_release(kept);
	}
	return SUCCESS;
}

PS_DESTROY_FUNC(floor)
{
	zend_hash_del(&payloads, key);
	return SUCCESS;
}

PS_GC_FUNC(floor)
{
	*nrdels = 0;
	return SUCCESS;
}

static const ps_module ps_mod_floor = {PS_MOD(floor)};

static void free_payload(zval *value)
{
	zend_string_release_ex(Z_PTR_P(value), 1);
}

static PHP_MINIT_FUNCTION(session_floor)
{
	zend_hash_init(&payloads, 1024, NULL, free_payload, 1);
	return php_session_register_module(&ps_mod_floor);
}

static PHP_MSHUTDOWN_FUNCTION(session_floor)
{
	zend_hash_destroy(&payloads);
	return SUCCESS;
}

static const zend_module_dep dependencies[] = {ZEND_MOD_REQUIRED("session") ZEND_MOD_END};

zend_module_entry session_floor_module_entry = {
	STANDARD_MODULE_HEADER_EX, NULL, dependencies,
	"session_floor", NULL, PHP_MINIT(session_floor), PHP_MSHUTDOWN(session_floor), NULL, NULL, NULL,
	"0", STANDARD_MODULE_PROPERTIES
};

ZEND_GET_MODULE(session_floor)
