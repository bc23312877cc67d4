--TEST--
after a failure no session is open, whatever is called then, and the next one is as good as any
--SKIPIF--
<?php if (!is_executable('/usr/bin/redis-server')) die('skip redis-server is not there'); ?>
--INI--
sessile.lock_wait=0.2
--FILE--
<?php
require __DIR__ . '/common.inc';
$path = session_save_path();
$id = fresh_id();
$holder = holder($id);
echo json_encode([@start($id), session_status() === PHP_SESSION_ACTIVE, session_abort(), session_reset(), session_write_close()]), "\n";
finish($holder);
echo json_encode([start($id), $_SESSION, session_write_close()]), "\n";

// The store goes away under an open session.
foreach (['session_write_close', 'session_abort', 'session_reset', 'session_destroy'] as $does) {
    // Of its own: a server that was dead is used again only within a second.
    $socket = sys_get_temp_dir() . '/sessile-' . getmypid() . "-$does";
    $command = ['redis-server', '--port', '0', '--unixsocket', $socket, '--save', '', '--dir', sys_get_temp_dir()];
    $server = proc_open($command, [1 => ['file', '/dev/null', 'w']], $pipes);
    for ($i = 0; $i < 1500 && !file_exists($socket); $i++) {
        usleep(20000);
    }
    session_save_path("redis+unix:$socket");
    start(fresh_id());
    $_SESSION['a'] = 1;
    proc_terminate($server, 9);
    proc_close($server);
    error_clear_last();
    // PHP returns true for a save that failed, and before 8.6 for a reset; there is a warning.
    echo $does, ' ', json_encode([@$does(), error_get_last() !== null, session_status() === PHP_SESSION_ACTIVE]), ' ';
    echo json_encode([@session_abort(), @session_reset(), @session_write_close()]), ' ';
    @unlink($socket);
    session_save_path($path);
    echo json_encode([start($id), $_SESSION, session_write_close()]), "\n";
}
?>
--EXPECTF--
[false,false,false,false,false]
[true,{"by":"holder"},true]
session_write_close [true,true,false] [false,false,false] [true,{"by":"holder"},true]
session_abort [true,false,false] [false,false,false] [true,{"by":"holder"},true]
session_reset [%r(true|false)%r,true,false] [false,false,false] [true,{"by":"holder"},true]
session_destroy [false,true,false] [false,false,false] [true,{"by":"holder"},true]
