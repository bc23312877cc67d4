/* The store of this thread: opened at the first session, kept until the path or an option changes. */

#include "php_sessile.h"
#include "zend_smart_str.h"

void sessile_warn(const sessile_error *error)
{
	/* PHP logs its warnings itself, unless the script has a handler for them or wants none. */
	if ((EG(error_reporting) & E_WARNING) && Z_ISUNDEF(EG(user_error_handler))) {
		sessile_log_drop(error->message);
	}
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

void sessile_close_store(zend_sessile_globals *globals)
{
	sessile_close(globals->store);
	globals->store = NULL;
	if (globals->url) {
		pefree(globals->url, 1);
		globals->url = NULL;
	}
}

bool sessile_open_path(const char *save_path)
{
	zend_string *url;
	sessile_error error;
	bool opened = true;

	if (!*save_path) {
		php_error_docref(NULL, E_WARNING,
			"session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile");
		return false;
	}
	url = url_of(save_path);
	if (!SESSILE_G(store) || strcmp(SESSILE_G(url), ZSTR_VAL(url))) {
		sessile_close_store(ZEND_MODULE_GLOBALS_BULK(sessile));
		if (sessile_open((sessile_bytes) { ZSTR_VAL(url), ZSTR_LEN(url) }, &SESSILE_G(store), &error) == SESSILE_OK) {
			SESSILE_G(url) = pestrdup(ZSTR_VAL(url), 1);
		} else {
			SESSILE_G(store) = NULL;
			sessile_warn(&error);
			opened = false;
		}
	}
	zend_string_release(url);
	return opened;
}
