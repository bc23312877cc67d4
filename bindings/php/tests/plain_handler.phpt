--TEST--
session_set_save_handler(new SessionHandler()) changes nothing
--FILE--
<?php
require __DIR__ . '/common.inc';
session_set_save_handler(new SessionHandler());
$id = fresh_id();
var_dump(start($id));
$_SESSION['a'] = 1;
var_dump(session_write_close(), stored($id));
start($id);
// The lock is held through it as well.
echo finish(child('ini_set("sessile.lock_wait", "0.1"); var_dump(@start($argv[1]));', $id)), "\n";
// Before 8.1.12 PHP makes no id behind this object, whatever the save handler is (GH-9583).
$made = PHP_VERSION_ID < 80112 ? 32 : strlen(session_create_id());
var_dump(is_int(session_gc()), session_reset(), $made, session_destroy(), stored($id));
$handler = new SessionHandler();
foreach (['close' => [], 'read' => ['x'], 'write' => ['x', 'y'], 'destroy' => ['x'], 'gc' => [1], 'create_sid' => []] as $name => $arguments) {
    try {
        var_dump(@$handler->$name(...$arguments));
    } catch (Error $error) {
        echo $error->getMessage(), "\n";
    }
}
?>
--EXPECT--
bool(true)
bool(true)
array(1) {
  ["a"]=>
  int(1)
}
bool(false)
bool(true)
bool(true)
int(32)
bool(true)
array(0) {
}
Session is not active
Session is not active
Session is not active
Session is not active
Session is not active
Session is not active
