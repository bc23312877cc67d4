<?php
// One request is the whole life of a session, and the birth of another one that stays.
// `sessile bench lifecycle` asks for it with ab and compares each answer with the one below:
// whatever goes wrong has another status and another length.

const VALUES = 100;

/** What must hold for the answer to be the one that is expected. */
function ensure(bool $holds, string $what): void
{
    if (!$holds) {
        http_response_code(500);
        exit("failed: $what");
    }
}

// A warning too, unless it was expected: a handler that cannot write says so, and the function that
// asked it does not.
set_error_handler(fn(int $level, string $message) =>
    ensure((error_reporting() & $level) === 0, $message));

// A random beginning: no two requests store the same.
$values = [];
$seed = bin2hex(random_bytes(16));
for ($i = 0; $i < VALUES; $i++) {
    $values[] = md5("$seed $i");
}

ensure(session_start(), 'start a new session');
ensure($_SESSION === [], 'a new session is empty');
$_SESSION['values'] = $values;
ensure(session_write_close(), 'commit');

// What was committed is what the store has.
$_SESSION = [];
ensure(session_start(), 'start the session again');
ensure(($_SESSION['values'] ?? null) === $values, 'the session has what was committed');
ensure(session_regenerate_id(true), 'regenerate the id');
ensure(session_destroy(), 'destroy the session');

$_SESSION = [];
ensure(session_id(session_create_id()) !== false, 'an id for the next session');
ensure(session_start(), 'start the next session');
ensure($_SESSION === [], 'the next session is empty');
$_SESSION['values'] = $values;
$bytes = strlen(session_encode());
ensure(session_write_close(), 'commit the next session');

echo 'kept 1 session of ', VALUES, " values, $bytes bytes\n";
