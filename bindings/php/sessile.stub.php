<?php

/** @generate-class-entries */

/**
 * What could not be saved or locked so far on the store of the last session, since this worker has it open: failed_saves,
 * too_large, stale_commits, destroyed_commits, lock_timeouts, spent_ids. Empty before the first session.
 *
 * @return array<string, int>
 */
function sessile_counters(): array {}
