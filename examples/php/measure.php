<?php
// What a session costs here: session_start(), one change, session_write_close(), again and again.
declare(strict_types=1);

const ROUNDS_MAX = 500;
const MEASURE_NS_MAX = 50_000_000;

/**
 * The microseconds of each round, sorted, on a session of 1,400 bytes that is removed afterwards. That of the visitor is closed
 * and stays as it is. Empty if the store does not answer.
 */
function measure(): array
{
    // An id that is chosen here, and no cookie for it.
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
