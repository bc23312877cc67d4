/* The open stores of this thread. A store is opened at its first session and closed when
 * SESSILE_STORES_MAX others were used since.
 *
 * Invariant: SESSILE_G(stores) has the open ones first, the last used one at the front. Virtual
 * hosts with their own paths share the workers of a pool, and opening a store costs more than a
 * request.
 */

#include "php_sessile.h"
#include "zend_smart_str.h"

void sessile_warn(const sessile_error *error)
{
	/* PHP logs its warnings, unless the script handles or suppresses them. */
	if ((EG(error_reporting) & E_WARNING) && Z_ISUNDEF(EG(user_error_handler))) {
		sessile_log_drop(error->message);
	}
	php_error_docref(NULL, E_WARNING, "%s", error->message);
}

/* The save path with those options of php.ini that belong into the URL. */
static zend_string *url_of(const char *path)
{
	smart_str url = {0};
	/* Options end at the fragment. */
	size_t fragment = strcspn(path, "#");
	const char *next = memchr(path, '?', fragment) ? "&" : "?";

	smart_str_appendl(&url, path, fragment);
	if (SESSILE_G(payload_limit) > 0) {
		smart_str_append_printf(&url, "%spayload_bytes_max=" ZEND_LONG_FMT, next,
			SESSILE_G(payload_limit));
		next = "&";
	}
	if (SESSILE_G(hashed_ids)) {
		smart_str_append_printf(&url, "%sids=hashed", next);
	}
	smart_str_appends(&url, path + fragment);
	smart_str_0(&url);
	return url.s;
}

static void close_store(struct sessile_opened *opened)
{
	sessile_close(opened->store);
	if (opened->url) {
		pefree(opened->url, 1);
	}
	*opened = (struct sessile_opened) { NULL, NULL };
}

void sessile_close_stores(zend_sessile_globals *globals)
{
	globals->store = NULL;
	for (size_t number = 0; number < SESSILE_STORES_MAX; number++) {
		close_store(&globals->stores[number]);
	}
}

/* Moves a store to the front; those before it move back by one. */
static void put_first(struct sessile_opened opened, size_t number)
{
	struct sessile_opened *stores = SESSILE_G(stores);

	memmove(stores + 1, stores, number * sizeof(*stores));
	stores[0] = opened;
	SESSILE_G(store) = opened.store;
}

static bool find_store(const char *url)
{
	const struct sessile_opened *stores = SESSILE_G(stores);

	for (size_t number = 0; number < SESSILE_STORES_MAX && stores[number].store; number++) {
		if (!strcmp(stores[number].url, url)) {
			put_first(stores[number], number);
			return true;
		}
	}
	return false;
}

static bool open_store(const zend_string *url)
{
	const sessile_bytes text = { ZSTR_VAL(url), ZSTR_LEN(url) };
	struct sessile_opened opened;
	sessile_error error;

	if (sessile_open(text, &opened.store, &error) != SESSILE_OK) {
		sessile_warn(&error);
		return false;
	}
	opened.url = pestrdup(ZSTR_VAL(url), 1);
	close_store(&SESSILE_G(stores)[SESSILE_STORES_MAX - 1]);
	put_first(opened, SESSILE_STORES_MAX - 1);
	return true;
}

bool sessile_open_path(const char *save_path)
{
	zend_string *url;
	bool opened;

	/* Without such options the path is the URL, and no string is built. */
	if (SESSILE_G(payload_limit) <= 0 && !SESSILE_G(hashed_ids) && find_store(save_path)) {
		return true;
	}
	SESSILE_G(store) = NULL;
	if (!*save_path) {
		php_error_docref(NULL, E_WARNING,
			"session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile");
		return false;
	}
	url = url_of(save_path);
	opened = find_store(ZSTR_VAL(url)) || open_store(url);
	zend_string_release(url);
	return opened;
}
