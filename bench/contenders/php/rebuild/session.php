<?php
// The registry in one of our stores. From PHP they are reached as a session handler, so it is a
// record of that handler under an id of its own, without a cookie: read without the lock, saved
// under it.

const OPTIONS = ['use_cookies' => '0', 'use_strict_mode' => '0', 'cache_limiter' => ''];

function load(): ?array
{
    session_id('registry');
    session_start(OPTIONS + ['read_and_close' => true]);
    $registry = $_SESSION['registry'] ?? null;
    $_SESSION = [];
    return $registry;
}

function save(array $registry): bool
{
    session_id('registry');
    session_start(OPTIONS);
    $_SESSION['registry'] = $registry;
    // The function answers that the session was closed; whether it was saved, a warning says.
    error_clear_last();
    session_write_close();
    return error_get_last() === null;
}
