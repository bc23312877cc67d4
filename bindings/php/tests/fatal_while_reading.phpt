--TEST--
a fatal error before PHP has what was stored leaves the session as it is
--INI--
memory_limit=128M
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = str_repeat('x', 20000000);
session_write_close();
$code = 'ini_set("memory_limit", "8M"); ini_set("display_errors", "0"); ini_set("error_log", "/dev/null"); start($argv[1]);';
finish(child($code, $id));
var_dump(strlen(stored($id)['a']));
?>
--EXPECTF--
%Aint(20000000)
