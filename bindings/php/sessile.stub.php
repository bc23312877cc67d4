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
