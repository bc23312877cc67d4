--TEST--
session.auto_start opens a session before the script, and what is in it is saved without a call
--FILE--
<?php
require __DIR__ . '/common.inc';
// Not child(): its settings come too late for a session that is open already.
function page(string $code): string
{
    $settings = ['-n', '-d', 'extension=' . getenv('SESSILE_PHP_EXTENSION'), '-d', 'session.auto_start=1',
        '-d', 'session.save_handler=sessile', '-d', 'session.save_path=' . session_save_path()];
    $process = proc_open([PHP_BINARY, ...$settings, '-r', $code], [1 => ['pipe', 'w']], $pipes);
    $printed = stream_get_contents($pipes[1]);
    proc_close($process);
    return $printed;
}
$page = page('ob_start(); var_dump(session_status() === PHP_SESSION_ACTIVE, $_SESSION); $_SESSION["a"] = 1; echo session_id();');
echo preg_replace('/\w{32}$/', 'id', $page), "\n";
echo json_encode(stored(substr($page, -32))), "\n";
// Nothing put into it: nothing stored.
var_dump(stored(page('echo session_id();')));
?>
--EXPECT--
bool(true)
array(0) {
}
id
{"a":1}
array(0) {
}
