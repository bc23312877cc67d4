--TEST--
the path stays what it was set to, also for a handler in PHP, after a failure, and for a script that sets what it got
--FILE--
<?php
require __DIR__ . '/common.inc';
class Plain extends SessionHandler
{
    public function open(string $path, string $name): bool
    {
        echo $path === ini_get('session.save_path') ? "same\n" : "$path\n";
        return parent::open($path, $name);
    }
}
session_save_path('memory:?payload_bytes_max=100');
$id = fresh_id();
start($id);
$_SESSION['a'] = str_repeat('x', 200);
@session_write_close();
var_dump(session_save_path());
session_save_path(session_save_path());
start($id);
$_SESSION['a'] = 1;
var_dump(session_write_close(), sessile_counters()['too_large']);
session_set_save_handler(new Plain());
foreach ([1, 2, 3] as $n) {
    start($id);
    echo json_encode($_SESSION), "\n";
    session_write_close();
}
?>
--EXPECT--
string(29) "memory:?payload_bytes_max=100"
bool(true)
int(1)
same
{"a":1}
same
{"a":1}
same
{"a":1}
