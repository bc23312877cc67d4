--TEST--
a session that expires while its request runs is saved all the same, changed or not
--INI--
session.gc_maxlifetime=3
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach ([false, true] as $change) {
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    start($id);
    usleep(3200000);
    if ($change) {
        $_SESSION['a'] = 2;
    }
    var_dump(session_write_close(), stored($id)['a'] ?? null);
}
?>
--EXPECT--
bool(true)
int(1)
bool(true)
int(2)
