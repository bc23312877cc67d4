/* Operator messages of the library, on their way to PHP's error log.
 *
 * The library logs during a call, on the calling thread, with its locks held. PHP's log allocates
 * memory, and a request over its memory limit ends by a jump past the library. So messages wait
 * here until the call ends.
 */

#include "php_sessile.h"

#include <syslog.h>

#define NAME "sessile: "

static void queue_log_message(void *context, sessile_level level, const char *text, size_t length)
{
	struct sessile_log *log = &SESSILE_G(log);

	if (log->lines == SESSILE_LOG_LINES_MAX) {
		log->lost++;
		return;
	}
	/* Not snprintf(): PHP's version reads up to a zero byte, which this text lacks. */
	length = MIN(length, SESSILE_MESSAGE_BYTES - 1);
	memcpy(log->texts[log->lines], text, length);
	log->texts[log->lines][length] = '\0';
	log->levels[log->lines] = level;
	log->lines++;
}

void sessile_log_start(void)
{
	/* False if the process has registered it before. */
	sessile_log_to(queue_log_message, NULL);
}

/* Drops a message that PHP has logged as a warning. */
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
