/* For id_collision.phpt: PHP draws equal session ids as often as SAME_IDS says.
 *
 * It replaces syscall() of the C library, PHP's source of random bytes. Only a session id takes 92.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#define BYTES_OF_AN_ID 92

static int is_same(size_t length)
{
	static int left = -1;

	if (length != BYTES_OF_AN_ID) {
		return 0;
	}
	if (left < 0) {
		left = getenv("SAME_IDS") ? atoi(getenv("SAME_IDS")) : 0;
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
