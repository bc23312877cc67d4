--TEST--
session_gc() counts what it removed and leaves the others
--INI--
session.gc_maxlifetime=1
--FILE--
<?php
require __DIR__ . '/common.inc';
$old = fresh_id();
start($old);
$_SESSION['a'] = 1;
session_write_close();
usleep(1200000);
ini_set('session.gc_maxlifetime', '100');
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
$removed = session_gc();
var_dump(is_int($removed) && $removed >= 0);
session_write_close();
var_dump(stored($old), stored($id)['a']);
?>
--EXPECT--
bool(true)
array(0) {
}
int(1)
