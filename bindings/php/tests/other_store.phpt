--TEST--
a script that sets another path between its sessions works on that store, and on the first when it sets that again
--FILE--
<?php
require __DIR__ . '/common.inc';
[$first, $second] = [session_save_path(), 'files:' . sys_get_temp_dir() . '/sessile-second-' . getmypid()];
$id = fresh_id();
foreach ([$first, $second, $first, $second] as $number => $path) {
    session_save_path($path);
    start($id);
    echo json_encode($_SESSION), "\n";
    $_SESSION['visit'] = $number;
    // Not while one is open.
    var_dump(@session_save_path($path));
    session_write_close();
}
// The one that cannot be opened changes nothing for the others.
session_save_path('redis+unix:/none');
var_dump(@start($id));
session_save_path($first);
start($id);
echo json_encode($_SESSION), "\n";
session_destroy();
session_save_path($second);
start($id);
echo json_encode($_SESSION), "\n";
?>
--CLEAN--
<?php
foreach (glob(sys_get_temp_dir() . '/sessile-second-*') as $directory) {
    passthru('rm -rf ' . escapeshellarg($directory));
}
?>
--EXPECT--
[]
bool(false)
[]
bool(false)
{"visit":0}
bool(false)
{"visit":1}
bool(false)
bool(false)
{"visit":2}
{"visit":3}
