/* A library of another interface than the extension was compiled for, and the rest of the
 * extension: as much as PHP needs to load sessile.c and to begin its start.
 */

#include <stddef.h>
#include <stdint.h>

uint32_t sessile_abi(void) { return 999; }

const char sessile_ps_module[256];

void *sessile_request_new(void) { static char request; return &request; }
void *sessile_open_stores_new(void) { static char stores; return &stores; }
void sessile_request_free(void *request) { (void) request; }
void sessile_open_stores_free(void *stores) { (void) stores; }
