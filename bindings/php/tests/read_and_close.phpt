--TEST--
read_and_close and sessile.read_only wait for nobody, and save nothing
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
$holder = holder($id);
$start = microtime(true);
var_dump(start($id, ['read_and_close' => true]), $_SESSION, session_status() === PHP_SESSION_NONE);
session_id('');
ini_set('sessile.read_only', '1');
var_dump(start($id), $_SESSION['a'], session_write_close());
start($id);
$_SESSION['a'] = 2;
session_write_close();
ini_set('sessile.read_only', '0');
var_dump(microtime(true) - $start < 5);
finish($holder);
var_dump(stored($id));
?>
--EXPECTF--
bool(true)
array(1) {
  ["a"]=>
  int(1)
}
bool(true)
bool(true)
int(1)
bool(true)

Warning: session_write_close(): %s: cannot commit session #%x: the session was read without its lock: nothing is saved in %s on line %d

Warning: session_write_close(): Failed to write session data (sessile).%s in %s on line %d
bool(true)
array(2) {
  ["a"]=>
  int(1)
  ["by"]=>
  string(6) "holder"
}
