/* The C interface of Sessile. Made by cbindgen from crates/capi/src; do not edit.
 *
 * Every call is safe in a forked child: a store that its parent opened may be used, a lease that its parent holds may
 * not. A store may be used by several threads at a time, a lease by one at a time. No panic crosses this interface.
 * Text that a call takes need not end with a zero byte. What a call fills in is only good after SESSILE_OK. */

#ifndef SESSILE_H
#define SESSILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of a message, its zero byte included.
#define SESSILE_MESSAGE_BYTES 1024

// Longest time to live in milliseconds: ten years. Longer ones are refused.
#define SESSILE_TTL_MAX_MS 315360000000

// What came of a call.
typedef enum {
  // It was done.
  SESSILE_OK,
  // The id is malformed; it never reached a store.
  SESSILE_INVALID_ID,
  // The store URL is malformed, or its scheme or an option is unknown.
  SESSILE_INVALID_URL,
  // An argument lies outside its limits.
  SESSILE_INVALID_ARGUMENT,
  // The store cannot do this by its nature.
  SESSILE_UNSUPPORTED,
  // The id is taken.
  SESSILE_EXISTS,
  // The record is gone: expired, swept, or lost with a restart.
  SESSILE_GONE,
  // The session was destroyed after it was read, and stays destroyed.
  SESSILE_DESTROYED,
  // The lease was lost, and someone else has held the lock since.
  SESSILE_STALE,
  // The lock was not free within the wait; the message names its holder.
  SESSILE_LOCK_TIMEOUT,
  // The payload is over the limit; the old payload is untouched.
  SESSILE_TOO_LARGE,
  // The store cannot be reached.
  SESSILE_UNREACHABLE,
  // The store refuses us: wrong password, missing permission, foreign owner.
  SESSILE_DENIED,
  // No space left: disk, quota or the configured size.
  SESSILE_FULL,
  // The server has no memory left for the write.
  SESSILE_OUT_OF_MEMORY,
  // The store dropped a live record to make room.
  SESSILE_EVICTED,
  // Stored bytes are not what was written; they are left as they are.
  SESSILE_CORRUPT,
  // The stored format is newer than this library, or foreign.
  SESSILE_INCOMPATIBLE,
  // Any other failure of the operating system or the driver.
  SESSILE_IO,
  // A defect of this library: please report it. The lease of that call, if there was one, is given up.
  SESSILE_PANIC,
} sessile_code;

// How much a line matters.
typedef enum {
  // Something failed, and nobody else is told.
  SESSILE_ERROR = 1,
  // Something that an operator should look at: a failed save, an id that was given up and is used.
  SESSILE_WARNING = 2,
} sessile_level;

// A held session lock. Freed by `sessile_lease_commit` and `sessile_lease_release`, whatever they return.
typedef struct sessile_lease sessile_lease;

// An opened store. Freed by `sessile_close`.
typedef struct sessile_store sessile_store;

// Bytes of the caller, which have to stay as they are for the time of the call. Null is no bytes.
typedef struct {
  // The first one.
  const char *data;
  // How many.
  size_t length;
} sessile_bytes;

// How long a record lives.
typedef struct {
  // From each commit or touch on, in milliseconds; at least 1.
  uint64_t idle_ms;
  // From the creation of the record on at most, in milliseconds; 0: without such an end.
  uint64_t lifetime_ms;
} sessile_ttl;

// Why a call failed: what failed, on which store, why, and what to do. No session id, payload or password is in it.
typedef struct {
  // The code that the call returned.
  sessile_code code;
  // UTF-8 that ends with a zero byte; cut if it is longer.
  char message[SESSILE_MESSAGE_BYTES];
} sessile_error;

// Which record is meant.
typedef struct {
  // The class of data; no bytes: `session`.
  sessile_bytes bin;
  // 1 to 256 bytes of `A-Z a-z 0-9 , _ -`; outside of the bin `session` also `.` and `:`.
  sessile_bytes id;
} sessile_key;

// Takes a line: what was passed to `sessile_log_to`, the level, bytes of UTF-8 and how many. It is called within a call
// of this library, on the thread that made it, so by several threads at a time if several make calls. It must not call
// this library, and must return.
typedef void (*sessile_logger)(void *context, sessile_level level, const char *text, size_t length);

// What was found. Freed by `sessile_record_free`.
typedef struct {
  // Whether there is a live record; if not, the rest says nothing.
  bool found;
  // What was stored last; null if that is no bytes.
  char *payload;
  // Bytes of it.
  size_t payload_length;
  // Of no interest to callers.
  size_t payload_capacity;
  // 1 when created, one more after each commit; 0: the store does not know.
  uint64_t version;
  // Milliseconds since 1970-01-01 UTC, like the next two.
  uint64_t created_ms;
  // When the payload was last committed.
  uint64_t written_ms;
  // From this moment on it reads as missing.
  uint64_t expires_ms;
} sessile_record;

// What a sweep did.
typedef struct {
  // Records looked at.
  uint64_t examined;
  // Expired records removed.
  uint64_t removed;
  // Whether the pass over the store is complete; if not, the next call goes on.
  bool complete;
} sessile_swept;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Stores the payload and gives the lock back. After a failure nothing was stored, and the lock is given back, too.
//
// # Safety
//
// `lease` was returned by `sessile_begin`, is not freed, and is not used again; `payload` is memory of the caller;
// `error` is null or has room for a `sessile_error`.
sessile_code sessile_lease_commit(sessile_lease *lease,
                                  sessile_bytes payload,
                                  sessile_ttl ttl,
                                  sessile_error *error);

// Moves the expiry and keeps the lock.
//
// # Safety
//
// As for `sessile_lease_commit`, but the lease stays good.
sessile_code sessile_lease_touch(sessile_lease *lease, sessile_ttl ttl, sessile_error *error);

// Gives the session a new id, which the lease follows. The old id leads to it for as long as the grace.
//
// # Safety
//
// As for `sessile_lease_commit`, but the lease stays good; `new_key` is memory of the caller.
sessile_code sessile_lease_regenerate(sessile_lease *lease,
                                      sessile_key new_key,
                                      uint64_t grace_ms,
                                      sessile_error *error);

// Gives the lock back and stores nothing.
//
// # Safety
//
// As for `sessile_lease_commit`.
sessile_code sessile_lease_release(sessile_lease *lease, sessile_error *error);

// Sends the log lines of this library somewhere, from now on and for good. False when someone was there first.
//
// # Safety
//
// `logger` may be called as it says, with this context, until the process ends.
bool sessile_log_to(sessile_logger logger,
                    void *context);

// The version of this library, as text that ends with a zero byte and is never freed.
const char *sessile_version(void);

// Opens the store that a URL names.
//
// # Safety
//
// `url` is memory of the caller; `store` has room for a pointer; `error` is null or has room for a `sessile_error`.
sessile_code sessile_open(sessile_bytes url,
                          sessile_store **store,
                          sessile_error *error);

// Closes a store. Its leases stay good. Null does nothing.
//
// # Safety
//
// `store` is null or was returned by `sessile_open` and not closed; no other call uses it now or later.
void sessile_close(sessile_store *store);

// The URL of a store without its secrets. It ends with a zero byte and is good until the store is closed.
//
// # Safety
//
// `store` is null or was returned by `sessile_open` and not closed.
const char *sessile_label(const sessile_store *store);

// A store URL without its secrets, whether it can be opened or not: what may be shown. Returns the bytes written, without
// the zero byte that they end with.
//
// # Safety
//
// `url` is memory of the caller; `text` has room for `size` bytes.
size_t sessile_redact(sessile_bytes url,
                      char *text,
                      size_t size);

// Takes the lock of a session and reads it. Without a record there is a lease all the same: a commit creates it.
//
// # Safety
//
// `store` was returned by `sessile_open` and not closed; `key` is memory of the caller; `lease` and `record` have room
// for what they are to hold; `error` is null or has room for a `sessile_error`.
sessile_code sessile_begin(sessile_store *store,
                           sessile_key key,
                           uint64_t wait_ms,
                           sessile_lease **lease,
                           sessile_record *record,
                           sessile_error *error);

// Reads a session without a lock. It waits for nobody.
//
// # Safety
//
// As for `sessile_begin`.
sessile_code sessile_peek(sessile_store *store,
                          sessile_key key,
                          sessile_record *record,
                          sessile_error *error);

// Stores a new session; `SESSILE_EXISTS` when the id is taken.
//
// # Safety
//
// As for `sessile_begin`; `payload` is memory of the caller.
sessile_code sessile_create(sessile_store *store,
                            sessile_key key,
                            sessile_bytes payload,
                            sessile_ttl ttl,
                            sessile_error *error);

// Moves the expiry of a session that nobody needs to hold; `SESSILE_GONE` when there is none.
//
// # Safety
//
// As for `sessile_begin`.
sessile_code sessile_touch(sessile_store *store,
                           sessile_key key,
                           sessile_ttl ttl,
                           sessile_error *error);

// Removes a session at once, whoever holds it; it stays removed. It waits for nobody.
//
// # Safety
//
// As for `sessile_begin`.
sessile_code sessile_destroy(sessile_store *store, sessile_key key, sessile_error *error);

// Removes sessions that have expired: at most so many, for at most that long. Never needed for correctness.
//
// # Safety
//
// As for `sessile_begin`; `swept` has room for what it is to hold.
sessile_code sessile_sweep(sessile_store *store,
                           uint64_t records_max,
                           uint64_t time_max_ms,
                           sessile_swept *swept,
                           sessile_error *error);

// Whether what has expired goes by itself, on a server or a few with each change: then no visitor need wait for a sweep.
// False without a store.
//
// # Safety
//
// `store` is null or was returned by `sessile_open` and not closed.
bool sessile_expires_by_itself(const sessile_store *store);

// A counter of this process by its number: its name (never freed; null: there are no more) and its value.
//
// # Safety
//
// `store` is null or was returned by `sessile_open` and not closed; `value` is null or has room for a number.
const char *sessile_counter(const sessile_store *store,
                            size_t number,
                            uint64_t *value);

// Frees what a record holds; it may be freed again. Null does nothing.
//
// # Safety
//
// The record was filled in by `sessile_begin` or `sessile_peek`, or is all zero bytes.
void sessile_record_free(sessile_record *record);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SESSILE_H */
