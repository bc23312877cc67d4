--TEST--
a lock that is not to be had fails loudly and names its holder, or gives a session to read
--INI--
sessile.lock_wait=0.3
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
$holder = holder($id);
set_error_handler(function ($level, $text) use ($id, $holder) {
    if (str_contains($text, 'cannot begin')) {
        $pid = proc_get_status($holder->process)['pid'];
        var_dump(str_contains($text, "process $pid"), str_contains($text, $id), preg_match('/waited [0-2]\.\d s/', $text) === 1);
    }
});
$start = microtime(true);
var_dump(start($id), microtime(true) - $start < 3);
ini_set('sessile.on_lock_timeout', 'read_only');
var_dump(start($id), $_SESSION['a'], session_write_close());
var_dump(sessile_counters()['lock_timeouts']);
finish($holder);
var_dump(start($id), $_SESSION['by']);
?>
--EXPECT--
bool(true)
bool(false)
bool(true)
bool(false)
bool(true)
bool(true)
bool(false)
bool(true)
bool(true)
int(1)
bool(true)
int(2)
bool(true)
string(6) "holder"
