--TEST--
what the library has to say is in PHP's error log, once, unless sessile.log or log_errors is off
--INI--
session.use_strict_mode=0
--FILE--
<?php
require __DIR__ . '/common.inc';
$file = sys_get_temp_dir() . '/sessile-log-' . getmypid();
ini_set('error_log', $file);
ini_set('display_errors', '0');
ini_set('sessile.grace', '0');

/** The lines that the code leaves in the log, without time and without what differs from store to store. */
function logged(callable $code): void
{
    global $file;
    file_put_contents($file, '');
    $code();
    foreach (file($file) as $line) {
        if (str_contains($line, 'was the control plane of a store that was removed')) {
            continue; // not of this test: the next engine that is opened removes it
        }
        $line = preg_replace(['/^\[[^]]*\] /', '/#\w+/', '/(sessile|files|redis\+unix|memory):\S+/'], ['', '#id', 'store:'], $line);
        echo '  ', strtok($line, "\n"), "\n";
    }
}
/** An id that is used although the session has got another one. */
function use_spent(): void
{
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    start($id);
    session_regenerate_id();
    session_write_close();
    start($id);
    session_abort();
}
/** A save that fails. */
function save_too_much(): void
{
    $path = session_save_path('memory:?payload_bytes_max=10');
    start(fresh_id());
    $_SESSION['a'] = 'more than ten bytes';
    session_write_close();
    session_save_path($path);
}
/** A save that fails for another reason than its size: the store has no room left. */
function save_into_full_store(): void
{
    $dir = '/dev/shm/sessile-log-' . getmypid();
    $path = session_save_path("sessile:$dir?size_bytes_max=4194304");
    for ($number = 0; $number < 100; $number++) {
        start(fresh_id());
        $_SESSION['a'] = random_bytes(200000);
        @session_write_close();
        if (sessile_counters()['failed_saves'] > 0) {
            break;
        }
    }
    session_save_path($path);
    array_map('unlink', array_filter(glob("$dir/{,.}*", GLOB_BRACE), 'is_file'));
    rmdir($dir);
}
foreach ([['1', '1'], ['0', '1'], ['1', '0']] as [$log_errors, $log]) {
    ini_set('log_errors', $log_errors);
    ini_set('sessile.log', $log);
    echo "log_errors $log_errors, sessile.log $log\n";
    logged('use_spent');
    logged('save_too_much');
    // Nobody else would log it.
    logged(fn () => @save_too_much());
}
ini_set('log_errors', '1');
ini_set('sessile.log', '1');
echo "a full store\n";
logged('save_into_full_store');
echo "what is no failure\n";
logged(function () {
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    start($id);
    finish(child('ini_set("sessile.read_only", "1"); start($argv[1]); session_destroy();', $id));
    $_SESSION['a'] = 2;
    session_write_close();
});
logged(function () {
    ini_set('session.gc_maxlifetime', '1');
    $id = fresh_id();
    start($id);
    $_SESSION['a'] = 1;
    session_write_close();
    start($id);
    usleep(1200000);
    $_SESSION['a'] = 2;
    session_write_close();
});
unlink($file);
?>
--EXPECTF--
log_errors 1, sessile.log 1
  sessile: store: session #id was used although it was regenerated and its grace is over
  PHP Warning:  session_write_close(): store: cannot commit session #id: the payload is too large (29 bytes, limit 10 bytes) in %s on line %d
  PHP Warning:  session_write_close(): Failed to write session data (sessile). %s on line %d
  sessile: store: cannot commit session #id: the payload is too large (29 bytes, limit 10 bytes)
log_errors 0, sessile.log 1
log_errors 1, sessile.log 0
  PHP Warning:  session_write_close(): store: cannot commit session #id: the payload is too large (29 bytes, limit 10 bytes) in %s on line %d
  PHP Warning:  session_write_close(): Failed to write session data (sessile). %s on line %d
a full store
  sessile: store: cannot commit session #id (200%d bytes, limit 67108864 bytes): %s
what is no failure
