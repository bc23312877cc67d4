--TEST--
processes that change one session lose no update
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
$code = 'for ($i = 0; $i < 250; $i++) { start($argv[1]); $_SESSION["n"] = ($_SESSION["n"] ?? 0) + 1; session_write_close(); }';
$children = [child($code, $id), child($code, $id), child($code, $id), child($code, $id)];
foreach ($children as $child) {
    echo finish($child);
}
var_dump(stored($id)['n']);
?>
--EXPECT--
int(1000)
