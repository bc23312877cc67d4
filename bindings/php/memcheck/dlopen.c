/* Leaves out RTLD_DEEPBIND, with which PHP loads extensions. With it they would not use the
 * malloc() of the address sanitizer, which therefore refuses the flag. Preloaded before both.
 */

#define _GNU_SOURCE
#include <dlfcn.h>

void *dlopen(const char *file, int flags)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int)) dlsym(RTLD_NEXT, "dlopen");

	return next(file, flags & ~RTLD_DEEPBIND);
}
