--TEST--
strict mode takes an id that another request holds and has not stored yet, for reading without the lock
--FILE--
<?php
require __DIR__ . '/common.inc';
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
$reads = 'ini_set("session.use_strict_mode", "1"); start($argv[1], ["read_and_close" => true]); var_dump(session_id() === $argv[1]);';
echo finish(child($reads, $id)), ' ', finish(child($reads, fresh_id())), "\n";
session_write_close();
echo finish(child($reads, $id)), "\n";
?>
--EXPECT--
bool(true) bool(false)
bool(true)
