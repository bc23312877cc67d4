<?php

/** @generate-class-entries */

/**
 * Counts of failures on the store of the last session since this worker opened it: failed_saves,
 * too_large, stale_commits, destroyed_commits, lock_timeouts, spent_ids. Empty before the first
 * session.
 *
 * @return array<string, int>
 */
function sessile_counters(): array {}

/**
 * Says to whom the open session belongs, for example the number of the user after a log-in; null
 * takes that away. It counts with the save of this request, and stays until it is set anew, also
 * under another id. False, with a warning, without an open session of this handler and where the
 * store keeps no owners.
 */
function sessile_set_owner(?string $owner): bool {}

/**
 * Says how many seconds the open session lives after this request, in place of
 * session.gc_maxlifetime and sessile.first_lifetime: for example a month for a visitor who asked to
 * be remembered. Each request says it anew. False, with a warning, without an open session of this
 * handler.
 */
function sessile_set_lifetime(float $seconds): bool {}

/**
 * Ends all sessions of an owner, or all but the open one: a log-out everywhere. Returns how many
 * have ended; false, with a warning, if that failed.
 */
function sessile_revoke(string $owner, bool $keep_open = false): int|false {}
