--TEST--
an application that reads another session by SessionHandler keeps the open one
--FILE--
<?php
require __DIR__ . '/common.inc';
$handler = new SessionHandler();
session_set_save_handler($handler, true);
$other = fresh_id();
start($other);
$_SESSION['o'] = 1;
session_write_close();
$id = fresh_id();
start($id);
$_SESSION['m'] = 1;
session_write_close();
start($id);
$_SESSION['m'] = 2;
var_dump($handler->read($other), $handler->read(fresh_id()));
// It is not locked, and the open one still is.
foreach ([$other, $id] as $which) {
    $code = 'ini_set("sessile.lock_wait", "0.1"); var_dump(@start($argv[1])); session_abort();';
    echo finish(child($code, $which)), "\n";
}
var_dump(session_write_close());
echo json_encode([stored($id), stored($other)]), "\n";
start($id);
$handler->read($other);
session_regenerate_id(true);
$new = session_id();
session_write_close();
echo json_encode([stored($id), stored($new)]), "\n";
?>
--EXPECT--
string(6) "o|i:1;"
string(0) ""
bool(true)
bool(false)
bool(true)
[{"m":2},{"o":1}]
[[],{"m":2}]
