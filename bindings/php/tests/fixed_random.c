/* For id_collision.phpt: PHP draws equal session ids as often as SAME_IDS says.
 *
 * It replaces syscall() of the C library, PHP's source of random bytes. Once a script has
 * set SAME_IDS, only a session id takes 32 of them, or 92 before PHP 8.4.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

static int is_same(size_t length)
{
	static int left = -1;

	if ((length != 32 && length != 92) || !getenv("SAME_IDS")) {
		return 0;
	}
	if (left < 0) {
		left = atoi(getenv("SAME_IDS"));
	}
	return left > 0 && left-- > 0;
}

long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	static long (*real)(long, ...);

	if (number == SYS_getrandom && is_same((size_t) b)) {
		memset((void *) a, 'x', (size_t) b);
		return b;
	}
	if (!real) {
		real = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
	}
	return real(number, a, b, c, d, e, f);
}

ssize_t getrandom(void *bytes, size_t length, unsigned int flags)
{
	return syscall(SYS_getrandom, (long) bytes, (long) length, flags, 0, 0, 0);
}
