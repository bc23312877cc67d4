/* Messages of the library on their way to PHP: warnings, and lines of PHP's error log. */

#include "php_sessile.h"

#include <syslog.h>

void sessile_warn(const sessile_error *error)
{
	/* PHP logs its warnings, unless the script handles or suppresses them. */
	if ((EG(error_reporting) & E_WARNING) && Z_ISUNDEF(EG(user_error_handler))) {
		sessile_log_drop(error);
	}
	php_error_docref(NULL, E_WARNING, "%s", error->message);
}

void sessile_log_write(void)
{
	sessile_message message;
	char line[sizeof("sessile: ") + SESSILE_MESSAGE_BYTES];

	while (sessile_log_next(&message)) {
		if (SESSILE_G(logs) && PG(log_errors)) {
			snprintf(line, sizeof(line), "sessile: %s", message.text);
			php_log_err_with_severity(line, message.level == SESSILE_ERROR ? LOG_ERR : LOG_WARNING);
		}
	}
}
