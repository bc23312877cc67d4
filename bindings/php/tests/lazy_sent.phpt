--TEST--
a new empty session whose cookie is on its way is stored
--FILE--
<?php
require __DIR__ . '/common.inc';
$known = 'ini_set("session.use_strict_mode", "1"); start($argv[1]); var_dump(session_id() === $argv[1]);';
ini_set('session.use_cookies', '1');
session_start();
$id = session_id();
ob_end_flush();
echo "sent\n";
flush();
session_write_close();
echo finish(child($known, $id)), "\n";
?>
--EXPECT--
sent
bool(true)
