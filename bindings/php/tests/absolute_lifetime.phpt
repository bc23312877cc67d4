--TEST--
sessile.absolute_lifetime ends a session however often it is used
--INI--
sessile.absolute_lifetime=4
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
$made = microtime(true);
for ($i = 0; $i < 3; $i++) {
    usleep(500000);
    start($id);
    $_SESSION['n'] = $i;
    session_write_close();
}
var_dump(isset(stored($id)['a']));
usleep(max(0, (int) (($made + 4.2 - microtime(true)) * 1e6)));
var_dump(stored($id));
?>
--EXPECT--
bool(true)
array(0) {
}
