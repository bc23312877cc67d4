--TEST--
an id that is none is refused, and reaches no store
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['../../etc/passwd', "a\0b", 'a b', str_repeat('x', 300), "\xff\xfe", 'a.b'] as $id) {
    @session_id($id);
    $started = @session_start();
    // Without strict mode PHP passes some of them on; what is left of a request is a session without a store.
    var_dump($started && session_id() === $id);
    if ($started) {
        session_abort();
    }
    @session_id('');
}
?>
--EXPECT--
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
