--TEST--
a handler of errors that ends the session while it is opened for reading does no harm
--INI--
sessile.lock_wait=0.05
sessile.on_lock_timeout=read_only
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['session_abort', 'session_write_close', 'session_destroy'] as $end) {
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = str_repeat('x', 2000);
    session_write_close();
    $holder = holder($id);
    set_error_handler(function () use ($end) {
        static $calls = 0;
        return $calls++ || @$end() || true;
    });
    start($id);
    restore_error_handler();
    echo json_encode(array_map(fn($text) => $text === str_repeat('x', 2000), $_SESSION)), "\n";
    @session_abort();
    finish($holder);
}
?>
--EXPECT--
[]
[]
[]
