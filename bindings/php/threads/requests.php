<?php
// The requests of threads.c. Each looks at whose session it has; what it prints is a fault.

/** Each tenth request adds to a session that all threads share, the others to one of their own. */
$request = static function (int $thread, int $number): void {
    $shared = $number % 10 === 0;
    $owner = $shared ? 'all' : "$thread-" . $number % 100;
    session_id(md5($owner));
    if (!session_start()) {
        return;
    }
    if (($_SESSION['owner'] ?? $owner) !== $owner) {
        echo "thread $thread has the session of {$_SESSION['owner']}, and not of $owner\n";
    }
    $_SESSION['owner'] = $owner;
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    if ($number % 7 === 0) {
        // The session extension ends what the request leaves open.
        return;
    }
    session_write_close();
    session_id(session_create_id());
    session_start();
    if ($_SESSION) {
        echo "thread $thread has somebody's session under a new id\n";
    }
    $_SESSION['owner'] = 'nobody';
    session_regenerate_id(true);
    session_destroy();
};

while (next_request($request));
