--TEST--
a session that was read without its lock gets no other id and is not destroyed by the attempt
--INI--
sessile.lock_wait=0.2
sessile.on_lock_timeout=read_only
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
foreach ([true, false] as $delete) {
    $holder = holder($id);
    @start($id);
    var_dump(@session_regenerate_id($delete));
    @session_write_close();
    finish($holder);
    echo json_encode(stored($id)), "\n";
}
?>
--EXPECT--
bool(false)
{"a":1,"by":"holder"}
bool(false)
{"a":1,"by":"holder"}
