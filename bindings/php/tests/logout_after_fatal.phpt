--TEST--
a shutdown function logs out after a fatal error
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
echo finish(child('ini_set("display_errors", "0"); ini_set("error_log", "/dev/null"); start($argv[1]);
    register_shutdown_function(function () { var_dump(session_destroy()); });
    trigger_error("the end", E_USER_ERROR);', $id)), "\n";
var_dump(stored($id));
?>
--EXPECT--
bool(true)
array(0) {
}
