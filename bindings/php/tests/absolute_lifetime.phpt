--TEST--
sessile.absolute_lifetime ends a session however often it is used
--INI--
sessile.absolute_lifetime=2
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
for ($i = 0; $i < 3; $i++) {
    usleep(500000);
    start($id);
    $_SESSION['n'] = $i;
    session_write_close();
}
var_dump(isset(stored($id)['a']));
usleep(700000);
var_dump(stored($id));
?>
--EXPECT--
bool(true)
array(0) {
}
