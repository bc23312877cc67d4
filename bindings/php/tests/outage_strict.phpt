--TEST--
strict mode keeps the id of a visitor when the store does not answer, and waits once
--INI--
session.use_strict_mode=1
sessile.lock_wait=2
--SKIPIF--
<?php if (!is_executable('/usr/bin/redis-server')) die('skip redis-server is not there'); ?>
--FILE--
<?php
require __DIR__ . '/common.inc';
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
session_write_close();
$holder = holder($id);
$start = microtime(true);
var_dump(@start($id), in_array(session_id(), ['', $id], true), microtime(true) - $start < 3.5);
var_dump(sessile_counters()['lock_timeouts']);
finish($holder);

$socket = sys_get_temp_dir() . '/sessile-' . getmypid();
$command = ['redis-server', '--port', '0', '--unixsocket', $socket, '--save', '', '--dir', sys_get_temp_dir()];
$server = proc_open($command, [1 => ['file', '/dev/null', 'w']], $pipes);
for ($i = 0; $i < 1500 && !file_exists($socket); $i++) {
    usleep(20000);
}
session_save_path("redis+unix:$socket");
start(fresh_id());
$id = session_id();
$_SESSION['a'] = 1;
var_dump(session_write_close());
proc_terminate($server, 9);
proc_close($server);
var_dump(@start($id), in_array(session_id(), ['', $id], true));
$read = @start($id, ['read_and_close' => true]);
var_dump($read, in_array(session_id(), ['', $id], true));
@unlink($socket);
?>
--EXPECT--
bool(false)
bool(true)
bool(true)
int(1)
bool(true)
bool(false)
bool(true)
bool(false)
bool(true)
