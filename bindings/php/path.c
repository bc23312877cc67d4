/* session.save_path, which may hold a password and may be set by a script.
 *
 * No password is ever shown. PHP prints PS(save_path) in its own warning after a handler has failed, so exactly then it
 * finds the redacted text there; the next call, or the end of the request, puts the real one back. phpinfo() shows the
 * redacted text, too. A script that open_basedir confines cannot name a directory outside of it.
 */

#include "php_sessile.h"
#include "SAPI.h"
#include "php_ini.h"
#include "ext/standard/html.h"

#define PATH_ENTRY "session.save_path"
#define NO_URL "a malformed store URL"

static ZEND_INI_MH((*set_path));

static bool redact(const char *path, size_t length, char *shown)
{
	sessile_redact((sessile_bytes) { path, length }, shown, SESSILE_MESSAGE_BYTES);
	return strcmp(shown, NO_URL) != 0;
}

/* What a callback returns that has failed, and has said why. */
zend_result sessile_fail(void)
{
	if (*PS(save_path)) {
		redact(PS(save_path), strlen(PS(save_path)), SESSILE_G(shown));
		PS(save_path) = SESSILE_G(shown);
	}
	return FAILURE;
}

void sessile_restore_path(void)
{
	if (PS(save_path) == SESSILE_G(shown)) {
		PS(save_path) = zend_ini_string_ex(PATH_ENTRY, strlen(PATH_ENTRY), 0, NULL);
	}
}

static void show_path(zend_ini_entry *entry, int type)
{
	zend_string *value = type == ZEND_INI_DISPLAY_ORIG && entry->modified ? entry->orig_value : entry->value;
	const char *text;
	char shown[SESSILE_MESSAGE_BYTES];

	if (!value || !ZSTR_LEN(value)) {
		php_printf("%s", sapi_module.phpinfo_as_text ? "no value" : "<i>no value</i>");
		return;
	}
	/* Whichever handler it belongs to: what is no URL is shown as it is. */
	text = redact(ZSTR_VAL(value), ZSTR_LEN(value), shown) ? shown : ZSTR_VAL(value);
	if (sapi_module.phpinfo_as_text) {
		php_printf("%s", text);
	} else {
		zend_string *escaped = php_escape_html_entities((const unsigned char *) text, strlen(text), 0, ENT_QUOTES, NULL);
		php_printf("%s", ZSTR_VAL(escaped));
		zend_string_release(escaped);
	}
}

/* The directory or socket that a URL names; NULL where it names none. */
static const char *file_of(const char *path)
{
	const char *file = strchr(path, ':');

	if (!file) {
		return NULL;
	}
	file++;
	if (!strncmp(file, "///", 3)) {
		file += 2;
	}
	return *file == '/' && file[1] != '/' ? file : NULL;
}

/* Before PHP sets it: a script is confined, the administrator is not. */
static ZEND_INI_MH(watched_set_path)
{
	const char *file = file_of(ZSTR_VAL(new_value));

	if (file && (stage == PHP_INI_STAGE_RUNTIME || stage == PHP_INI_STAGE_HTACCESS)
		&& PG(open_basedir) && *PG(open_basedir)) {
		char *name = estrndup(file, strcspn(file, "?"));
		int outside = php_check_open_basedir(name);
		efree(name);
		if (outside) {
			return FAILURE;
		}
	}
	return set_path(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

static zend_ini_entry *path_entry(void)
{
	return zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL(PATH_ENTRY));
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
