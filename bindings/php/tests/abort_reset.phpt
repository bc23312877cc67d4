--TEST--
abort saves nothing and gives the lock back; reset reads again and keeps it
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
start($id);
$_SESSION['a'] = 2;
var_dump(session_reset(), $_SESSION['a']);
$_SESSION['a'] = 3;
$other = child('ini_set("sessile.lock_wait", "0.1"); var_dump(@start($argv[1]));', $id);
echo finish($other), "\n";
var_dump(session_abort());
$other = child('var_dump(start($argv[1]), $_SESSION["a"]);', $id);
echo finish($other), "\n";
?>
--EXPECT--
bool(true)
int(1)
bool(false)
bool(true)
bool(true)
int(1)
