/* Withdraws the cookie of a session that was never stored.
 *
 * Apache's module passes each header on at once, so removing one from PHP's list has no effect.
 * Therefore all cookies are deleted and the others are set again.
 */

#include "php_sessile.h"
#include "SAPI.h"
#include "php_ini.h"
#include "ext/standard/url.h"

#define COOKIE "Set-Cookie"

static bool is_cookie(const sapi_header_struct *header)
{
	size_t length = strlen(COOKIE);

	return header->header_len > length && !strncasecmp(header->header, COOKIE, length)
		&& header->header[length] == ':';
}

/* The cookie that PHP made. A cookie that the application set under this name has another value. */
static bool is_session_cookie(const sapi_header_struct *header, const zend_string *value)
{
	const char *own = INI_STR("session.name");
	size_t start_length = strlen(COOKIE ": "), name_length = strlen(own);
	const char *name = header->header + start_length;

	return header->header_len > start_length + name_length + ZSTR_LEN(value)
		&& !strncmp(name, own, name_length) && name[name_length] == '='
		&& !memcmp(name + name_length + 1, ZSTR_VAL(value), ZSTR_LEN(value));
}

void sessile_withdraw_cookie(const zend_string *id)
{
	zend_string *value;
	zend_llist_position at;
	zval others, *line;
	bool found = false;
	sapi_header_line all = {.line = COOKIE, .line_len = strlen(COOKIE)};

	if (SG(headers_sent)) {
		return;
	}
	array_init(&others);
	value = php_url_encode(ZSTR_VAL(id), ZSTR_LEN(id));
	for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &at); header;
			header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &at)) {
		if (is_cookie(header) && is_session_cookie(header, value)) {
			found = true;
		} else if (is_cookie(header)) {
			add_next_index_stringl(&others, header->header, header->header_len);
		}
	}
	if (found) {
		sapi_header_op(SAPI_HEADER_DELETE, &all);
		ZEND_HASH_FOREACH_VAL(Z_ARRVAL(others), line) {
			sapi_header_line again = {.line = Z_STRVAL_P(line), .line_len = Z_STRLEN_P(line)};
			sapi_header_op(SAPI_HEADER_ADD, &again);
		} ZEND_HASH_FOREACH_END();
	}
	zend_string_release(value);
	zval_ptr_dtor(&others);
}
