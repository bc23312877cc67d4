/* Taking back the cookie of a session that was never stored. */

#include "php_sessile.h"
#include "SAPI.h"

static int is_session_cookie(void *element, void *name)
{
	const sapi_header_struct *header = element;
	const char *start = "Set-Cookie: ";
	size_t start_length = strlen(start), name_length = strlen(name);

	return header->header_len > start_length + name_length
		&& !strncasecmp(header->header, start, start_length)
		&& !strncmp(header->header + start_length, name, name_length)
		&& header->header[start_length + name_length] == '=';
}

void sessile_withdraw_cookie(void)
{
	if (!SG(headers_sent)) {
		zend_llist_del_element(&SG(sapi_headers).headers, PS(session_name), is_session_cookie);
	}
}
