/* A user of the installed library; scripts/capi.sh builds and runs it. */

#include <sessile.h>
#include <stdio.h>
#include <string.h>

static sessile_bytes bytes(const char *text)
{
	return (sessile_bytes) { text, strlen(text) };
}

int main(void)
{
	const sessile_key key = { bytes("session"), bytes("0123456789abcdef") };
	const sessile_ttl ttl = { 60000, 0 };
	sessile_store *store;
	sessile_record record;
	sessile_error error;

	if (sessile_abi() != SESSILE_ABI) {
		fprintf(stderr, "the library is version %u\n", sessile_abi());
		return 1;
	}
	if (sessile_open(bytes("memory:"), &store, &error) != SESSILE_OK
			|| sessile_create(store, key, bytes("cart"), ttl, &error) != SESSILE_OK
			|| sessile_peek(store, key, &record, &error) != SESSILE_OK) {
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	if (!record.found || record.payload_length != 4 || memcmp(record.payload, "cart", 4)) {
		return 1;
	}
	sessile_record_free(&record);
	sessile_close(store);
	return 0;
}
