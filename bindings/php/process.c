/* Which process this is, without a system call for each session: how often it was forked since the module was loaded. */

#include "php_sessile.h"

#include <pthread.h>

static uint32_t forks;

static void count_fork(void)
{
	forks++;
}

bool sessile_watch_forks(void)
{
	return pthread_atfork(NULL, NULL, count_fork) == 0;
}

uint32_t sessile_forks(void)
{
	return forks;
}
