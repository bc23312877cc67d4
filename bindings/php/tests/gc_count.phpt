--TEST--
session_gc() returns how many expired sessions it removed, also when nobody else does
--FILE--
<?php
require __DIR__ . '/common.inc';
session_save_path('memory:');
ini_set('session.gc_maxlifetime', '1');
for ($i = 0; $i < 3; $i++) {
    start(fresh_id());
    $_SESSION['a'] = 1;
    session_write_close();
}
usleep(1100000);
ini_set('session.gc_maxlifetime', '100');
$id = fresh_id();
start($id);
$_SESSION['a'] = 2;
session_write_close();
start($id);
var_dump(session_gc(), session_gc());
session_write_close();
var_dump(stored($id)['a']);
// Also through a handler in PHP, and more than one request would remove.
session_save_path('memory:?payload_bytes_max=1000');
session_set_save_handler(new SessionHandler());
ini_set('session.gc_probability', '0');
ini_set('session.gc_maxlifetime', '3');
for ($i = 0; $i < 300; $i++) {
    start(fresh_id());
    $_SESSION['a'] = 1;
    session_write_close();
}
usleep(3200000);
start(fresh_id());
var_dump(session_gc());
?>
--EXPECT--
int(3)
int(0)
int(2)
int(300)
