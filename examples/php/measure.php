<?php
// Measures session_start(), one change and session_write_close() in a loop.
declare(strict_types=1);

const ROUNDS_MAX = 500;
const MEASURE_NS_MAX = 50_000_000;

/**
 * The sorted microseconds of each round on a session of 1,400 bytes, which is removed afterwards.
 * Closes the visitor's session without changing it. Empty if the store fails.
 */
function measure(): array
{
    // A chosen id, without a cookie.
    foreach (['session.use_strict_mode', 'session.use_cookies'] as $setting) {
        ini_set($setting, '0');
    }
    session_cache_limiter('');
    [$visitor, $id, $times, $end] = [$_SESSION, session_id(), [], hrtime(true) + MEASURE_NS_MAX];
    session_id(session_create_id());
    while (count($times) < ROUNDS_MAX && ($start = hrtime(true)) < $end && session_start()) {
        $_SESSION = ['round' => count($times), 'page' => str_repeat('x', 1360)];
        session_write_close();
        $times[] = (hrtime(true) - $start) / 1000;
    }
    if ($times !== [] && session_start()) {
        session_destroy();
    }
    session_id($id);
    $_SESSION = $visitor;
    sort($times);
    return $times;
}
