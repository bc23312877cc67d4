/* The store of this thread: opened at the first session, kept until the path or an option changes.
 *
 * No password is ever shown. PHP puts session.save_path into its own warnings, so where it has a secret PHP is handed
 * the redacted text in its place, and the real one is remembered here.
 */

#include "php_sessile.h"
#include "zend_smart_str.h"

static sessile_bytes bytes_of(const char *text)
{
	return (sessile_bytes) { .data = text, .length = strlen(text) };
}

void sessile_warn(const sessile_error *error)
{
	php_error_docref(NULL, E_WARNING, "%s", error->message);
}

/* The save path with the options of php.ini that belong into the URL. */
static zend_string *url_of(const char *path)
{
	smart_str url = {0};
	const char *next = strchr(path, '?') ? "&" : "?";

	smart_str_appends(&url, path);
	if (SESSILE_G(payload_limit) > 0) {
		smart_str_append_printf(&url, "%spayload_bytes_max=" ZEND_LONG_FMT, next, SESSILE_G(payload_limit));
		next = "&";
	}
	if (SESSILE_G(hashed_ids)) {
		smart_str_append_printf(&url, "%sids=hashed", next);
	}
	smart_str_0(&url);
	return url.s;
}

void sessile_close_store(void)
{
	sessile_close(SESSILE_G(store));
	SESSILE_G(store) = NULL;
	if (SESSILE_G(url)) {
		pefree(SESSILE_G(url), 1);
		SESSILE_G(url) = NULL;
	}
}

static void show_instead(const char *path)
{
	char shown[SESSILE_MESSAGE_BYTES];

	sessile_redact(bytes_of(path), shown, sizeof(shown));
	if (!strcmp(shown, path)) {
		return;
	}
	if (SESSILE_G(shown)) {
		pefree(SESSILE_G(shown), 1);
		pefree(SESSILE_G(path), 1);
	}
	SESSILE_G(path) = pestrdup(path, 1);
	SESSILE_G(shown) = pestrdup(shown, 1);
	PS(save_path) = SESSILE_G(shown);
}

bool sessile_open_path(const char *save_path)
{
	const char *path = SESSILE_G(shown) && save_path == SESSILE_G(shown) ? SESSILE_G(path) : save_path;
	zend_string *url;
	sessile_error error;
	bool opened = true;

	if (!*path) {
		php_error_docref(NULL, E_WARNING,
			"session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile");
		return false;
	}
	url = url_of(path);
	if (!SESSILE_G(store) || strcmp(SESSILE_G(url), ZSTR_VAL(url))) {
		sessile_close_store();
		if (sessile_open((sessile_bytes) { ZSTR_VAL(url), ZSTR_LEN(url) }, &SESSILE_G(store), &error) == SESSILE_OK) {
			SESSILE_G(url) = pestrdup(ZSTR_VAL(url), 1);
		} else {
			SESSILE_G(store) = NULL;
			sessile_warn(&error);
			opened = false;
		}
	}
	if (path == save_path) {
		show_instead(path);
	}
	zend_string_release(url);
	return opened;
}

/* For phpinfo(). */
void sessile_show_path(zend_ini_entry *entry, int type)
{
	zend_string *value = type == ZEND_INI_DISPLAY_ORIG && entry->modified ? entry->orig_value : entry->value;
	char shown[SESSILE_MESSAGE_BYTES];

	if (!value || !ZSTR_LEN(value)) {
		php_printf("no value");
		return;
	}
	/* Handlers other than this one have paths that are no URLs, and secrets that this one knows nothing of. */
	if (PS(mod) != &sessile_ps_module) {
		php_printf("%s", ZSTR_VAL(value));
		return;
	}
	sessile_redact((sessile_bytes) { ZSTR_VAL(value), ZSTR_LEN(value) }, shown, sizeof(shown));
	php_printf("%s", shown);
}
