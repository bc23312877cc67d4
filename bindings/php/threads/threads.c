/* A server with threads like FrankenPHP: threads MODULE STORE-URL SCRIPT THREADS REQUESTS MODE
 *
 * Each thread runs the script for its number of requests. MODE is:
 *
 *   requests  a PHP request for each; the script's next_request() calls its function once
 *   worker    one PHP request, in which next_request() begins and ends the session extension's
 *             part of a request around each call, and nothing else
 *
 * It prints the memory of its own (RssAnon) after a tenth of the requests and after all, and
 * whatever the script prints: a script that finds no fault is silent.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "php.h"
#include "SAPI.h"
#include "php_main.h"
#include "php_output.h"

ZEND_TSRMLS_CACHE_DEFINE()

static const char *script;
static long threads, requests;
static bool is_worker;
static atomic_long finished;
static __thread long number, done;

static void print_memory(long after)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "RssAnon:", 8)) {
			printf("%ld requests: %ld kB\n", after, atol(line + 8));
		}
	}
	if (status) {
		fclose(status);
	}
	fflush(stdout);
}

static void count_request(void)
{
	long all = threads * requests, now = atomic_fetch_add(&finished, 1) + 1;

	done++;
	if (now == all / 10 || now == all) {
		print_memory(now);
	}
}

static zend_module_entry *session_module(void)
{
	return zend_hash_str_find_ptr(&module_registry, ZEND_STRL("session"));
}

static void begin_request(void)
{
	zend_module_entry *session = session_module();

	php_output_activate();
	sapi_activate();
	session->request_startup_func(session->type, session->module_number);
}

static void end_request(void)
{
	zend_module_entry *session = session_module();

	php_output_end_all();
	session->request_shutdown_func(session->type, session->module_number);
	php_output_deactivate();
	sapi_deactivate();
}

ZEND_BEGIN_ARG_INFO(next_request_arguments, 0)
	ZEND_ARG_INFO(0, function)
ZEND_END_ARG_INFO()

/* Calls the function with the numbers of the thread and the request. False: that was the last. */
PHP_FUNCTION(next_request)
{
	zend_fcall_info function;
	zend_fcall_info_cache cache;
	zval result, numbers[2];

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(function, cache)
	ZEND_PARSE_PARAMETERS_END();
	ZVAL_LONG(&numbers[0], number);
	ZVAL_LONG(&numbers[1], done);
	function.retval = &result;
	function.params = numbers;
	function.param_count = 2;
	if (is_worker) {
		begin_request();
	}
	if (zend_call_function(&function, &cache) == SUCCESS) {
		zval_ptr_dtor(&result);
	}
	if (is_worker) {
		end_request();
	}
	count_request();
	RETURN_BOOL(is_worker && done < requests);
}

static const zend_function_entry functions[] = {
	PHP_FE(next_request, next_request_arguments)
	PHP_FE_END
};

static zend_module_entry module = {
	STANDARD_MODULE_HEADER, "threads", functions, NULL, NULL, NULL, NULL, NULL, NULL,
	STANDARD_MODULE_PROPERTIES
};

static int start(sapi_module_struct *sapi)
{
	return php_module_startup(sapi, &module);
}

static size_t write_output(const char *text, size_t length)
{
	return fwrite(text, 1, length, stdout);
}

static int send_headers(sapi_headers_struct *headers)
{
	return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static char *read_cookies(void)
{
	return NULL;
}

static sapi_module_struct sapi = {
	.name = "threads",
	.pretty_name = "threads",
	.startup = start,
	.shutdown = php_module_shutdown_wrapper,
	.ub_write = write_output,
	.sapi_error = php_error,
	.send_headers = send_headers,
	.read_cookies = read_cookies,
	.php_ini_ignore = 1,
};

static void run_script(void)
{
	zend_file_handle file;
	long before = done;

	if (php_request_startup() != SUCCESS) {
		printf("a request does not start\n");
		exit(1);
	}
	zend_stream_init_filename(&file, script);
	php_execute_script(&file);
	zend_destroy_file_handle(&file);
	php_request_shutdown(NULL);
	if (done == before) {
		printf("the script has not called next_request()\n");
		exit(1);
	}
}

static void *run_thread(void *argument)
{
	number = (long) argument;
	ts_resource(0);
	ZEND_TSRMLS_CACHE_UPDATE();
	while (done < requests) {
		run_script();
	}
	ts_free_thread();
	return NULL;
}

int main(int count, char **values)
{
	pthread_t *ids;
	char ini[4096];

	if (count != 7) {
		fprintf(stderr, "usage: threads MODULE STORE-URL SCRIPT THREADS REQUESTS requests|worker\n");
		return 2;
	}
	script = values[3];
	threads = atol(values[4]);
	requests = atol(values[5]);
	is_worker = !strcmp(values[6], "worker");
	snprintf(ini, sizeof(ini), "extension=%s\nsession.save_handler=sessile\n"
		"session.save_path=\"%s\"\nsession.use_cookies=0\nsession.cache_limiter=\n"
		"display_errors=1\nhtml_errors=0\nmax_execution_time=0\n", values[1], values[2]);
	php_tsrm_startup();
	zend_signal_startup();
	sapi_startup(&sapi);
	sapi.ini_entries = ini;
	if (sapi.startup(&sapi) != SUCCESS) {
		return 1;
	}
	ids = calloc(threads, sizeof(*ids));
	for (long next = 0; next < threads; next++) {
		pthread_create(&ids[next], NULL, run_thread, (void *) next);
	}
	for (long next = 0; next < threads; next++) {
		pthread_join(ids[next], NULL);
	}
	free(ids);
	sapi.shutdown(&sapi);
	sapi_shutdown();
	tsrm_shutdown();
	return 0;
}
