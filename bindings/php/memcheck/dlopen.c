/* PHP loads its extensions with RTLD_DEEPBIND, so that each finds its own symbols first. Then it would not find malloc() of
 * the address sanitizer, which therefore refuses the flag. Loaded before both, this leaves it out. */

#define _GNU_SOURCE
#include <dlfcn.h>

void *dlopen(const char *file, int flags)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int)) dlsym(RTLD_NEXT, "dlopen");

	return next(file, flags & ~RTLD_DEEPBIND);
}
