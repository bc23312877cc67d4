--TEST--
a log-out in another request is final: a save that comes later changes nothing, and makes no noise
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach ([true, false] as $change) {
    $id = fresh_id();
    start($id);
    $_SESSION['user'] = 'root';
    session_write_close();
    start($id);
    $other = child('ini_set("sessile.read_only", "1"); start($argv[1]); var_dump(session_destroy());', $id);
    echo finish($other), "\n";
    if ($change) {
        $_SESSION['a'] = 1;
    }
    var_dump(session_write_close(), stored($id));
}
var_dump(sessile_counters()['destroyed_commits']);
?>
--EXPECT--
bool(true)
bool(true)
array(0) {
}
bool(true)
bool(true)
array(0) {
}
int(2)
