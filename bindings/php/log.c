/* What the library has to say to an operator, on its way to PHP's error log.
 *
 * A line comes from within a call of the library, on the thread that made it. There nothing of PHP may run: its log takes
 * memory, and a request that has no more of it is ended by a jump, past the library and the locks that it holds. So a line
 * waits here for the end of the call.
 */

#include "php_sessile.h"

#include <syslog.h>

#define NAME "sessile: "

static void keep(void *context, sessile_level level, const char *text, size_t length)
{
	struct sessile_log *log = &SESSILE_G(log);

	if (log->lines == SESSILE_LOG_LINES_MAX) {
		log->lost++;
		return;
	}
	/* Not by snprintf(): that of PHP looks for the zero byte which this text does not end with. */
	length = MIN(length, SESSILE_MESSAGE_BYTES - 1);
	memcpy(log->texts[log->lines], text, length);
	log->texts[log->lines][length] = '\0';
	log->levels[log->lines] = level;
	log->lines++;
}

void sessile_log_start(void)
{
	/* False in a process in which it was started before. */
	sessile_log_to(keep, NULL);
}

/* PHP has logged this itself, as a warning. */
void sessile_log_drop(const char *text)
{
	struct sessile_log *log = &SESSILE_G(log);

	if (log->lines && !strcmp(log->texts[log->lines - 1], text)) {
		log->lines--;
	}
}

void sessile_log_write(void)
{
	struct sessile_log *log = &SESSILE_G(log);
	char line[sizeof(NAME) + SESSILE_MESSAGE_BYTES];
	unsigned int lines = log->lines, lost = log->lost;

	/* Before PHP's log, which may jump. */
	log->lines = 0;
	log->lost = 0;
	if (!SESSILE_G(logs) || !PG(log_errors)) {
		return;
	}
	for (unsigned int number = 0; number < lines; number++) {
		snprintf(line, sizeof(line), NAME "%s", log->texts[number]);
		php_log_err_with_severity(line, log->levels[number] == SESSILE_ERROR ? LOG_ERR : LOG_WARNING);
	}
	if (lost) {
		snprintf(line, sizeof(line), NAME "%u more lines", lost);
		php_log_err_with_severity(line, LOG_WARNING);
	}
}
