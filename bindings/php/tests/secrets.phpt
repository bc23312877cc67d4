--TEST--
no warning of PHP shows a password, whichever call has failed, and the path is what it was afterwards
--SKIPIF--
<?php if (!shell_exec('command -v redis-server')) die('skip redis-server is not there'); ?>
--INI--
sessile.lock_wait=0.2
--FILE--
<?php
require __DIR__ . '/common.inc';
$free = stream_socket_server('tcp://127.0.0.1:0');
$port = parse_url('tcp://' . stream_socket_get_name($free, false), PHP_URL_PORT);
fclose($free);
$server = proc_open(['redis-server', '--port', $port, '--bind', '127.0.0.1', '--requirepass', 'geheim', '--save', '', '--dir', '/tmp'],
    [['pipe', 'r'], ['file', '/dev/null', 'w']], $pipes);
$pid = proc_get_status($server)['pid'];
for ($try = 0; $try < 600 && !@fsockopen('127.0.0.1', $port); $try++) {
    usleep(50000);
}
session_save_path("redis://:geheim@127.0.0.1:$port/0?response_timeout_ms=500");
$path = session_save_path();
$texts = [];
set_error_handler(function ($level, $text) use (&$texts) {
    $texts[] = $text;
});
$calls = [
    'start' => fn () => session_start(),
    'reset' => fn () => session_reset(),
    'regenerate, delete' => fn () => session_regenerate_id(true),
    'regenerate' => fn () => session_regenerate_id(false),
    'save' => fn () => session_write_close(),
    'destroy' => fn () => session_destroy(),
];
foreach ($calls as $name => $call) {
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    $name === 'start' ? session_id($id) : start($id);
    $_SESSION['a'] = 2;
    $texts = [];
    exec("kill -STOP $pid");
    try {
        $call();
    } catch (Error $e) {
        $texts[] = $e->getMessage();
    }
    @session_abort();
    exec("kill -CONT $pid");
    $all = implode("\n", $texts);
    echo "$name: ", $texts ? 'warned' : 'SILENT', str_contains($all, 'geheim') ? ", PASSWORD: $all" : '', "\n";
    session_save_path(session_save_path());
    var_dump(ini_get('session.save_path') === $path);
}
// Also when the time for the lock is over.
$id = fresh_id();
start($id);
$_SESSION['a'] = 1;
session_write_close();
$holder = holder($id);
$texts = [];
var_dump(start($id), str_contains(implode("\n", $texts), 'geheim'), count($texts));
finish($holder);
var_dump(start($id), $_SESSION['a'], session_save_path() === $path);
session_write_close();
proc_terminate($server);
?>
--EXPECT--
start: warned
bool(true)
reset: warned
bool(true)
regenerate, delete: warned
bool(true)
regenerate: warned
bool(true)
save: warned
bool(true)
destroy: warned
bool(true)
bool(false)
bool(false)
int(2)
bool(true)
int(1)
bool(true)
