--TEST--
a session.gc_maxlifetime that means "for ever" is taken
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['2147483647', (string) PHP_INT_MAX] as $seconds) {
    ini_set('session.gc_maxlifetime', $seconds);
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    var_dump(session_write_close(), stored($id)['a']);
}
?>
--EXPECT--
bool(true)
int(1)
bool(true)
int(1)
