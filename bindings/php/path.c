/* session.save_path, which may hold a password and may be set by a script.
 *
 * Invariant: no password is shown. PHP prints PS(save_path) in its warnings after a handler failed,
 * sometimes after closing it. So a failure replaces it by the redacted text. The next open, read or
 * write, or the end of the request, restores the path. phpinfo() shows the redacted text. A script
 * under open_basedir cannot name a directory outside of it.
 */

#include "php_sessile.h"
#include "SAPI.h"
#include "php_ini.h"
#include "ext/standard/html.h"

#define PATH_ENTRY "session.save_path"

static ZEND_INI_MH((*set_path));

static zend_ini_entry *path_entry(void)
{
	return zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL(PATH_ENTRY));
}

static bool is_redacted(void)
{
	return SESSILE_G(shown) && PS(save_path) == SESSILE_FROM_STRING(SESSILE_G(shown));
}

/* The return value of a callback that has failed and has warned. */
zend_result sessile_fail(void)
{
	const char *path = SESSILE_CHARS(PS(save_path));
	char shown[SESSILE_MESSAGE_BYTES];

	if (*path && !is_redacted()) {
		sessile_redact((sessile_bytes) { path, strlen(path) }, shown, sizeof(shown));
		sessile_restore_path();
		SESSILE_G(shown) = zend_string_init(shown, strlen(shown), false);
		PS(save_path) = SESSILE_FROM_STRING(SESSILE_G(shown));
	}
	return FAILURE;
}

void sessile_restore_path(void)
{
	if (is_redacted()) {
		PS(save_path) = SESSILE_FROM_STRING(path_entry()->value);
	}
	if (SESSILE_G(shown)) {
		zend_string_release(SESSILE_G(shown));
		SESSILE_G(shown) = NULL;
	}
}

/* A handler in PHP passes a copy of the path that it got, which is redacted after a failure. */
const char *sessile_given_path(const char *path)
{
	bool copied = is_redacted() && !strcmp(path, ZSTR_VAL(SESSILE_G(shown)));

	sessile_restore_path();
	return copied ? SESSILE_CHARS(PS(save_path)) : path;
}

static void show_path(zend_ini_entry *entry, int type)
{
	bool original = type == ZEND_INI_DISPLAY_ORIG && entry->modified;
	zend_string *value = original ? entry->orig_value : entry->value;
	char shown[SESSILE_MESSAGE_BYTES];
	zend_string *text;

	if (!value || !ZSTR_LEN(value)) {
		php_printf("%s", sapi_module.phpinfo_as_text ? "no value" : "<i>no value</i>");
		return;
	}
	sessile_redact((sessile_bytes) { ZSTR_VAL(value), ZSTR_LEN(value) }, shown, sizeof(shown));
	text = sapi_module.phpinfo_as_text
		? zend_string_init(shown, strlen(shown), false)
		: php_escape_html_entities((unsigned char *) shown, strlen(shown), 0, ENT_QUOTES, NULL);
	php_printf("%s", ZSTR_VAL(text));
	zend_string_release(text);
}

/* Runs before PHP sets the path. Scripts are confined, administrators are not. */
static ZEND_INI_MH(watched_set_path)
{
	const sessile_bytes url = { ZSTR_VAL(new_value), ZSTR_LEN(new_value) };
	char file[MAXPATHLEN];
	bool by_script = stage == PHP_INI_STAGE_RUNTIME || stage == PHP_INI_STAGE_HTACCESS;

	if (by_script && is_redacted() && zend_string_equals(new_value, SESSILE_G(shown))) {
		/* The answer of session_save_path() after a failure: the path stays unchanged. */
		sessile_restore_path();
		return FAILURE;
	}
	if (by_script && PG(open_basedir) && *PG(open_basedir)
		&& sessile_path(url, file, sizeof(file)) && php_check_open_basedir(file)) {
		return FAILURE;
	}
	return set_path(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

void sessile_watch_path(void)
{
	zend_ini_entry *entry = path_entry();

	if (entry) {
		set_path = entry->on_modify;
		entry->on_modify = watched_set_path;
		zend_ini_register_displayer(PATH_ENTRY, strlen(PATH_ENTRY), show_path);
	}
}

void sessile_unwatch_path(void)
{
	zend_ini_entry *entry = path_entry();

	if (entry && entry->on_modify == watched_set_path) {
		entry->on_modify = set_path;
		zend_ini_register_displayer(PATH_ENTRY, strlen(PATH_ENTRY), NULL);
	}
}
